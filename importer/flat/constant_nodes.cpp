// Constant has seven forms of its value, of which those with strings and sparse tensors are refused.
#include "importer/flat/constant_nodes.h"

#include <algorithm>
#include <cstring>

namespace tandem {
namespace {

struct ConstantForm {
  Tensor operator()(std::int64_t v) const { return Tensor::scalar(v); }
  Tensor operator()(float v) const { return Tensor::scalar(v); }
  Tensor operator()(const Ints& v) const { return Tensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(v.size())}, v); }
  Tensor operator()(const Floats& v) const { return Tensor::of<float>(Shape{static_cast<std::int64_t>(v.size())}, v); }
  Tensor operator()(const Tensor& v) const { return v; }
  Tensor operator()(const std::string&) const { fail("strings are not supported"); }
  Tensor operator()(const Strings&) const { fail("strings are not supported"); }
};

}  // namespace

Tensor constant_value(const Attributes& attributes) {
  for (const char* name : {"value", "value_float", "value_int", "value_floats", "value_ints", "value_string", "value_strings"})
    if (const AttributeValue* value = attributes.find(name)) return std::visit(ConstantForm{}, *value);
  fail("has no value");
}

Fill fill_of(const Graph& graph, const Draft& draft) {
  if (draft.inputs.empty() || !draft.inputs[0].present()) fail("its shape is missing");
  const Value& shape_value = graph[draft.inputs[0]];
  if (shape_value.kind != ValueKind::constant) fail("its shape is computed from data; it must be known when the plan is made");
  const Shape shape(shape_value.data->to_int64s());
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t d) { return d < 0; })) fail("its shape is ", shape);
  const AttributeValue* given = draft.attributes.find("value");
  const Tensor* tensor = given ? std::get_if<Tensor>(given) : nullptr;
  if (given && (!tensor || tensor->elements() != 1)) fail("its value is no tensor of one element");
  return {shape, tensor ? *tensor : Tensor::scalar(0.0F)};
}

Tensor filled(const Fill& fill) {
  const std::size_t size = size_of(fill.element.dtype());
  Tensor tensor(TensorType{fill.element.dtype(), fill.shape});
  const auto out = tensor.write();
  const auto element = fill.element.bytes();
  // Doubles what is filled: a copy for each element would take seconds for large weights.
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t n = done == 0 ? size : std::min(done, out.size() - done);
    std::memcpy(out.data() + done, done == 0 ? element.data() : out.data(), n);
    done += n;
  }
  return tensor;
}

void retype_floats(Attributes& attributes, const Operator* op, const std::function<DType(DType)>& wanted) {
  if (op && op->domain == "ai.onnx.ml" && !op->type_attribute.empty() && wanted(DType::float32) != DType::float32)
    attributes.set(std::string(op->type_attribute), static_cast<std::int64_t>(DType::float32));  // what its absence means
  for (const auto& [name, value] : Attributes(attributes)) {
    if (const Tensor* tensor = std::get_if<Tensor>(&value); tensor && is_float(tensor->dtype()))
      attributes.set(name, tensor->cast(wanted(tensor->dtype())));
    const auto* number = std::get_if<std::int64_t>(&value);
    if (number && op && op->type_attribute == name && is_float(static_cast<DType>(*number)))
      attributes.set(name, static_cast<std::int64_t>(wanted(static_cast<DType>(*number))));
  }
}

}  // namespace tandem
