// A model's message without the values of its large weights: the weights stay in the file, and only what is around them is parsed.
#pragma once
#include <memory>

#include "importer/message/external_data.h"
#include "importer/message/onnx_messages.h"

namespace tandem {

// As parse_model has the file's bytes. Of the model's own graph, initializers of floats with least_streamed bytes and more in one field are
// left without them: they say as external data where in the file these lie (own_raw, own_typed), and `external` reads them there.
onnx::ModelProto read_model(std::shared_ptr<const InputFile> file, ExternalData& external);

}  // namespace tandem
