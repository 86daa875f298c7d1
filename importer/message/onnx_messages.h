// ONNX's messages by name, for headers. A source that looks into one includes tandem_onnx.pb.h.
#pragma once

namespace google::protobuf {
template <class Element>
class RepeatedPtrField;
}

namespace tandem::onnx {
class AttributeProto;
class FunctionProto;
class GraphProto;
class ModelProto;
class NodeProto;
class StringStringEntryProto;
class TensorProto;
enum AttributeProto_AttributeType : int;
}  // namespace tandem::onnx
