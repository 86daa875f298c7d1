// ONNX's attributes as ours.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "graph/attributes.h"
#include "importer/message/external_data.h"
#include "importer/message/onnx_messages.h"

namespace tandem {

using AttributeType = onnx::AttributeProto_AttributeType;
AttributeType type_of(const onnx::AttributeProto& proto);  // told by the filled field where the type is absent

// Decodes each attribute once, however often its function is called.
class AttributeReader {
 public:
  explicit AttributeReader(ExternalData& external) : external_(external) {}
  AttributeValue read(const onnx::AttributeProto& proto);  // fails for graphs, sparse tensors and types

 private:
  ExternalData& external_;
  std::map<const onnx::AttributeProto*, Tensor> tensors_;
};

}  // namespace tandem
