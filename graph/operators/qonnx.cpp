// QONNX's quantizers, as Brevitas and QKeras export them: numbers of any width as floats that take few values. The gradient passes straight
// through each rounding, as Brevitas trains; of Quant to what lies within its range, and to the scale.
#include <cmath>

#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

constexpr const char* qonnx = "qonnx.custom_op.general";

struct Rounding {
  const char* name;
  const char* magnitudes;  // what rounds |x| + offset, with x's sign; null: `numbers` rounds x itself
  const char* numbers;
  double offset;
};
constexpr Rounding roundings[] = {
    {"ROUND", nullptr, "Round", 0}, {"CEIL", nullptr, "Ceil", 0},      {"FLOOR", nullptr, "Floor", 0},      {"UP", "Ceil", nullptr, 0},
    {"DOWN", "Floor", nullptr, 0},  {"HALF_UP", "Floor", nullptr, 0.5}, {"HALF_DOWN", "Ceil", nullptr, -0.5},
};
const Rounding* rounding_of(const Attributes& a, const char* absent) {
  const std::string name = a.text("rounding_mode", absent);
  for (const Rounding& r : roundings)
    if (r.name == name) return &r;
  return nullptr;
}

// x rounded, with x's gradient.
ValueId rounded(ExpandContext& e, ValueId x, const Rounding& r) {
  ValueId y;
  if (r.numbers)
    y = e.emit(r.numbers, {x});
  else
    y = e.mul(e.emit("Sign", {x}), e.emit(r.magnitudes, {e.add(e.emit("Abs", {x}), r.offset)}));
  return e.emit("StraightThrough", {x, y});
}

double bits_of(InferContext& c, const char* name) {
  if (!c.attributes().has(name)) c.fail(name, " is missing");
  const double bits = static_number(c.attributes(), name, 0);
  if (!(bits > 0 && bits <= 64)) c.fail(name, " is ", bits, ", expected more than 0 and at most 64");
  return bits;
}
void infer_quantizer(InferContext& c, const char* absent) {
  if (!rounding_of(c.attributes(), absent))
    c.fail("rounding_mode is '", c.attributes().text("rounding_mode", absent),
           "', expected ROUND, CEIL, FLOOR, UP, DOWN, HALF_UP or HALF_DOWN");
  c.set_output(0, c.input(0).dtype, broadcast_inputs(c, 0, 3));
}

bool is_zero(ExpandContext& e, ValueId v) {
  const Value& value = e.graph()[v];
  if (value.kind != ValueKind::constant) return false;
  for (const double n : value.data->to_doubles())
    if (n != 0) return false;
  return true;
}
ValueId shifted(ExpandContext& e, ValueId x, double direction) {
  if (is_zero(e, e.x(2))) return x;
  return direction > 0 ? e.add(x, e.x(2)) : e.sub(x, e.x(2));
}

std::vector<ValueId> expand_quant(ExpandContext& e) {
  const Attributes& a = e.attributes();
  const double bits = static_number(a, "bitwidth", 0);
  const bool is_signed = a.integer("signed", 1) != 0, narrow = a.integer("narrow", 0) != 0;
  const double values = std::exp2(is_signed ? bits - 1 : bits);
  const Attributes bounds{{"min", static_cast<float>(is_signed ? (narrow ? 1 : 0) - values : 0)},
                          {"max", static_cast<float>(values - 1 - (narrow && !is_signed ? 1 : 0))}};
  const Rounding& r = *rounding_of(a, "ROUND");
  const bool plain = r.name == std::string_view("ROUND");
  ValueId levels;
  if (plain && is_zero(e, e.x(2))) {
    levels = e.emit("QuantizeLevels", {e.x(0), e.x(1)}, bounds);
  } else {
    const ValueId x = shifted(e, e.div(e.x(0), e.x(1)), 1);
    levels = e.emit("QuantizeLevels", {plain ? x : rounded(e, x, r), e.scalar(1, e.type(x).dtype)}, bounds);
  }
  return {e.mul(shifted(e, levels, -1), e.x(1))};
}

std::vector<ValueId> expand_trunc(ExpandContext& e) {
  const Attributes& a = e.attributes();
  const ValueId whole = rounded(e, shifted(e, e.div(e.x(0), e.x(1)), 1), roundings[0]);
  const double dropped = std::exp2(static_number(a, "out_bitwidth", 0) - static_number(a, "in_bitwidth", 0));
  const ValueId kept = rounded(e, e.mul(whole, dropped), *rounding_of(a, "FLOOR"));
  return {e.mul(shifted(e, kept, -1), e.x(1))};
}

}  // namespace

// ±scale by x's sign
Operator bipolar_quant() {
  return {.name = "BipolarQuant", .domain = qonnx, .since = {1}, .inputs = {2, 2}, .types = {{"T", types::floats}},
          .infer = [](InferContext& c) { c.set_output(0, c.input(0).dtype, broadcast_inputs(c, 0, 2)); },
          .follow = follow_broadcast,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const DType dtype = e.type(e.x()).dtype;
            const ValueId sign = e.emit("Where", {e.emit("Less", {e.x(), e.scalar(0, dtype)}), e.scalar(-1, dtype), e.scalar(1, dtype)});
            return {e.mul(e.emit("StraightThrough", {e.x(), sign}), e.x(1))};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"X"}, {"scale", OperandRole::constant}}};
}

// (clamp(round(X / scale + zeropt)) − zeropt) · scale, within the range of so many bits
Operator quant() {
  return {.name = "Quant", .domain = qonnx, .since = {1}, .inputs = {3, 4}, .types = {{"T", types::floats}},
          .infer =
              [](InferContext& c) {
                bits_of(c, "bitwidth");
                infer_quantizer(c, "ROUND");
              },
          .follow = follow_broadcast,
          .expand = expand_quant,
          .static_operands = {{3, "bitwidth"}},
          .precision = PrecisionRole::parts,
          .operands = {{"X"}, {"scale", OperandRole::constant}, {"zeropt", OperandRole::constant}}};
}

// Of X in so many bits the first, as many as are wanted
Operator trunc() {
  return {.name = "Trunc", .domain = qonnx, .since = {1}, .inputs = {3, 5}, .types = {{"T", types::floats}},
          .infer =
              [](InferContext& c) {
                if (bits_of(c, "in_bitwidth") < bits_of(c, "out_bitwidth")) c.fail("out_bitwidth is larger than in_bitwidth");
                infer_quantizer(c, "FLOOR");
              },
          .follow = follow_broadcast,
          .expand = expand_trunc,
          .static_operands = {{3, "in_bitwidth"}, {4, "out_bitwidth"}},
          .precision = PrecisionRole::parts,
          .operands = {{"X"}, {"scale", OperandRole::constant}, {"zeropt", OperandRole::constant}}};
}

}  // namespace tandem::operator_rows
