// Which operands those are stands in the operators' rows; their values are constants by now, as shape arithmetic was folded.
#include "importer/build/static_operands.h"

namespace tandem {
namespace {

AttributeValue attribute_of(const Tensor& tensor) {
  if (tensor.shape().rank() > 1 || size_of(tensor.dtype()) == 0) return tensor;
  const bool list = tensor.shape().rank() == 1;
  if (!is_float(tensor.dtype())) {
    Ints values = tensor.to_int64s();
    if (list) return values;
    return values.at(0);
  }
  const std::vector<double> values = tensor.to_doubles();
  if (list) return Floats(values.begin(), values.end());
  return static_cast<float>(values.at(0));
}

}  // namespace

void move_static_operands(const Graph& graph, const Operator& op, Draft& draft, Budget& budget) {
  for (const StaticOperand& operand : op.static_operands) {
    if (operand.input >= static_cast<int>(draft.inputs.size())) continue;
    ValueId& in = draft.inputs[static_cast<std::size_t>(operand.input)];
    if (!in.present()) continue;
    const Value& value = graph[in];
    if (value.kind != ValueKind::constant && operand.or_computed) continue;
    if (value.kind != ValueKind::constant)
      fail("'", operand.attribute, "' (input ", operand.input, ") is computed from data; it must be known when the plan is made");
    budget.make_constant(bytes_of(value.type));  // a copy
    draft.attributes.set(std::string(operand.attribute), attribute_of(*value.data));
    in = {};
  }
  while (!draft.inputs.empty() && !draft.inputs.back().present()) draft.inputs.pop_back();
}

}  // namespace tandem
