// A model's message as a file, with weights that are not in memory: each is asked for when its place comes.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "base/atomic_file.h"
#include "importer/message/tensor_data.h"

namespace tandem {

// An initializer whose values the message does not hold.
struct StreamedTensor {
  DataForm form = DataForm::raw;  // raw; typed: float32 or float64, whose lists lie as the values do
  TensorType type;
};

std::size_t streamed_bytes(const StreamedTensor& tensor);  // that its values add to the file, at most

// The bytes are those of the message with the values in it: fields in the order of their numbers. `streamed`, by name: initializers of the
// model's graph without values. `value`: a tensor of the type said. Fails (io) where the file cannot be written.
void write_streamed(const onnx::ModelProto& model, const std::map<std::string, StreamedTensor>& streamed,
                    const std::function<Tensor(const std::string&)>& value, AtomicFile& file);

}  // namespace tandem
