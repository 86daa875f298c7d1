// LSTM, GRU and RNN written out: the product of all steps by W is one, then each step by itself, or one node for all of them.
#include <algorithm>

#include "graph/operators/recurrent.h"
#include "graph/operators/rules.h"

namespace tandem {
namespace {

constexpr std::int64_t most_steps = 4096;  // that are written out

RecurrentSizes sizes_of(const Graph& graph, const Node& node) {
  const Shape &x = graph[node.inputs[0]].type.shape, &r = graph[node.inputs[2]].type.shape;
  const bool batch_first = node.attributes.integer("layout") != 0;
  return {x[batch_first ? 1 : 0], x[batch_first ? 0 : 1], x[2], r[2], r[0]};
}

bool goes_backwards(const Attributes& a, std::int64_t direction) { return direction == 1 || a.text("direction") == "reverse"; }

// An operand of states, [D,B,H] whatever the layout; absent where it is.
ValueId state(ExpandContext& e, int input) {
  if (!e.has_x(input)) return {};
  return e.attributes().integer("layout") != 0 ? e.transpose(e.x(input), {1, 0, 2}) : e.x(input);
}

// Lengths, where some sequence may be shorter than X.
ValueId lengths(ExpandContext& e, std::int64_t steps) {
  if (!e.has_x(4)) return {};
  const Value& value = e.graph()[e.x(4)];
  if (value.kind == ValueKind::constant && value.data) {
    const std::vector<std::int64_t> known = value.data->to_int64s();
    if (std::all_of(known.begin(), known.end(), [&](std::int64_t n) { return n >= steps; })) return {};
  }
  return e.x(4);
}

struct Bias {
  ValueId of_products;  // [D·G·H]
  ValueId of_reset;     // [D,H]: GRU's last gate, where its product by R is formed before r is applied
};
Bias biases(ExpandContext& e, const CellFacts& cell, const RecurrentSizes& s) {
  if (!e.has_x(3)) return {};
  const std::int64_t rows = cell.gates * s.H;
  const bool linear = cell.cell == Cell::gru && e.attributes().integer("linear_before_reset") != 0;
  const auto part = [&](std::int64_t begin, std::int64_t end) { return slice_axis(e, e.x(3), 1, begin, end); };
  if (!linear) return {e.reshape(e.add(part(0, rows), part(rows, 2 * rows)), {s.D * rows}), {}};
  const ValueId summed = e.add(part(0, 2 * s.H), part(rows, rows + 2 * s.H));
  const ValueId all = e.emit("Concat", {summed, part(2 * s.H, rows)}, {{"axis", std::int64_t{1}}});
  return {e.reshape(all, {s.D * rows}), part(rows + 2 * s.H, 2 * rows)};
}

// x·Wᵀ + b of all steps and directions: [T,B,D·G·H].
ValueId projected(ExpandContext& e, const CellFacts& cell, const RecurrentSizes& s, ValueId bias) {
  const std::int64_t columns = s.D * cell.gates * s.H;
  const ValueId x = e.attributes().integer("layout") != 0 ? e.transpose(e.x(0), {1, 0, 2}) : e.x(0);
  std::vector<ValueId> operands{e.reshape(x, {s.T * s.B, s.I}), e.reshape(e.x(1), {columns, s.I})};
  if (bias.present()) operands.push_back(bias);
  return e.reshape(e.emit("InnerProduct", std::move(operands)), {s.T, s.B, columns});
}

// One direction, step by step.
class Direction {
 public:
  Direction(ExpandContext& e, const RecurrentSizes& s, std::int64_t direction)
      : e_(e), a_(e.attributes()), cell_(facts_of(e.node().op->name)), s_(s), d_(direction), dtype_(e.type(e.x(0)).dtype) {
    r_ = e.reshape(of_direction(e.x(2)), {cell_.gates * s.H, s.H});
    if (e.has_x(7)) p_ = of_direction(e.x(7));
  }

  // What belongs to this direction of [D,...], as [...] or, of [D,n], [1,n].
  ValueId of_direction(ValueId v) const {
    if (!v.present()) return v;
    Shape shape = e_.shape(v);
    const ValueId mine = s_.D > 1 ? slice_axis(e_, v, 0, d_, d_ + 1) : v;
    if (shape.rank() < 3) return mine;
    shape.dims.erase(shape.dims.begin());
    return e_.reshape(mine, shape);
  }

  ValueId reset_bias, h, c;
  // From x·Wᵀ + b of this step.
  void step(ValueId x) {
    if (cell_.cell == Cell::lstm) return lstm(x);
    if (cell_.cell == Cell::gru) return gru(x);
    h = activated(0, plus(x, product(h, r_)));
  }

 private:
  ValueId product(ValueId a, ValueId b) const { return a.present() ? e_.emit("MatMul", {a, b}, {{"transB", std::int64_t{1}}}) : a; }
  ValueId plus(ValueId a, ValueId b) const { return !b.present() ? a : !a.present() ? b : e_.add(a, b); }
  ValueId times(ValueId a, ValueId b) const { return b.present() ? e_.mul(a, b) : b; }
  ValueId gates(ValueId x, int axis, std::int64_t first, std::int64_t end) const {
    return slice_axis(e_, x, axis, first * s_.H, end * s_.H);
  }
  ValueId but_one(ValueId x) const { return e_.sub(e_.scalar(1, dtype_), x); }
  ValueId peephole(int gate, ValueId cell) const { return p_.present() ? times(gates(p_, 1, gate, gate + 1), cell) : p_; }

  // ONNX clips what goes into an activation; as ONNX Runtime reads that, an LSTM's cell on its way to h is none of it.
  ValueId activated(int function, ValueId x) const {
    if (a_.has("clip") && function < 2) x = e_.emit("Clip", {x}, {{"min", -a_.real("clip")}, {"max", a_.real("clip")}});
    const std::size_t i = static_cast<std::size_t>(d_ * cell_.functions + function);
    const std::string& name = std::get<Strings>(*a_.find("activations"))[i];
    const float alpha = a_.floats("alphas")[i], beta = a_.floats("betas")[i];
    if (name == "Affine") return e_.add(e_.mul(x, static_cast<double>(alpha)), static_cast<double>(beta));
    if (name == "ScaledTanh") return e_.mul(e_.emit("Tanh", {e_.mul(x, static_cast<double>(beta))}), static_cast<double>(alpha));
    if (name == "HardSigmoid") return e_.emit(name, {x}, {{"alpha", alpha}, {"beta", beta}});
    if (name == "LeakyRelu" || name == "ThresholdedRelu" || name == "Elu") return e_.emit(name, {x}, {{"alpha", alpha}});
    return e_.emit(name, {x});
  }

  void lstm(ValueId x) {
    const ValueId all = plus(x, product(h, r_));
    const ValueId i = activated(0, plus(gates(all, 1, 0, 1), peephole(0, c)));
    const bool coupled = a_.integer("input_forget") != 0;
    const ValueId kept = !c.present() ? c : coupled ? but_one(i) : activated(0, plus(gates(all, 1, 2, 3), peephole(2, c)));
    const ValueId candidate = e_.mul(i, activated(1, gates(all, 1, 3, 4)));
    c = c.present() ? e_.add(e_.mul(kept, c), candidate) : candidate;
    const ValueId o = activated(0, plus(gates(all, 1, 1, 2), peephole(1, c)));
    h = e_.mul(o, activated(2, c));
  }

  void gru(ValueId x) {
    const bool linear = a_.integer("linear_before_reset") != 0;
    const ValueId both = plus(gates(x, 1, 0, 2), product(h, gates(r_, 0, 0, 2)));
    const ValueId z = activated(0, gates(both, 1, 0, 1)), r = activated(0, gates(both, 1, 1, 2));
    const ValueId rh = gates(r_, 0, 2, 3);
    const ValueId recurrent = linear ? times(r, plus(product(h, rh), reset_bias)) : product(times(r, h), rh);
    const ValueId candidate = e_.mul(but_one(z), activated(1, plus(gates(x, 1, 2, 3), recurrent)));
    h = h.present() ? e_.add(candidate, e_.mul(z, h)) : candidate;
  }

  ExpandContext& e_;
  const Attributes& a_;
  const CellFacts& cell_;
  RecurrentSizes s_;
  std::int64_t d_;
  DType dtype_;
  ValueId r_, p_;
};

}  // namespace

bool has_usual_form(const Graph& graph, const Node& node) {
  const CellFacts& cell = facts_of(node.op->name);
  const Attributes& a = node.attributes;
  if (a.has("clip") || a.integer("input_forget") != 0 || (node.inputs.size() > 7 && node.inputs[7].present())) return false;
  const Strings& names = std::get<Strings>(*a.find("activations"));
  const bool relu = cell.cell == Cell::rnn && std::all_of(names.begin(), names.end(), [](const std::string& n) { return n == "Relu"; });
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!relu && names[i] != cell.defaults[i % static_cast<std::size_t>(cell.functions)]) return false;
  return graph[node.inputs[0]].type.shape.elements() > 0;
}

FusedRecurrence fused_recurrence(ExpandContext& e) {
  const CellFacts& cell = facts_of(e.node().op->name);
  const RecurrentSizes s = sizes_of(e.graph(), e.node());
  const Bias bias = biases(e, cell, s);
  const Strings& names = std::get<Strings>(*e.attributes().find("activations"));
  FusedRecurrence f;
  f.attributes = {{"cell", std::string(cell.name)},
                  {"direction", e.attributes().text("direction")},
                  {"linear_before_reset", std::int64_t{cell.cell == Cell::gru && e.attributes().integer("linear_before_reset") != 0}},
                  {"relu", std::int64_t{names[0] == "Relu"}}};
  f.inputs = {projected(e, cell, s, bias.of_products), e.x(2), state(e, 5), state(e, 6), lengths(e, s.T), bias.of_reset};
  while (!f.inputs.back().present()) f.inputs.pop_back();
  return f;
}

std::vector<ValueId> recurrent_outputs(ExpandContext& e, ValueId y, ValueId y_h, ValueId y_c) {
  std::vector<ValueId> outputs{y, y_h, y_c};
  outputs.resize(e.node().outputs.size());
  const bool batch_first = e.attributes().integer("layout") != 0;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (batch_first && outputs[i].present()) outputs[i] = e.transpose(outputs[i], i == 0 ? Ints{2, 0, 1, 3} : Ints{1, 0, 2});
  return outputs;
}

std::vector<ValueId> expand_recurrent(ExpandContext& e) {
  const CellFacts& cell = facts_of(e.node().op->name);
  const RecurrentSizes s = sizes_of(e.graph(), e.node());
  if (s.T > most_steps)
    fail(cell.name, " '", e.node().name, "': ", s.T, " steps would be written out one by one, at most ", most_steps,
         " are: only the CPU has a kernel for all of them, and for the usual activations alone");
  const DType dtype = e.type(e.x(0)).dtype;
  const Bias bias = biases(e, cell, s);
  const ValueId all = projected(e, cell, s, bias.of_products), lens = lengths(e, s.T), first_h = state(e, 5), first_c = state(e, 6);
  const ValueId lens_of_rows = lens.present() ? e.reshape(lens, {s.B, 1}) : lens, zero = e.scalar(0, dtype);
  const auto wanted = [&](std::size_t output) { return output < e.node().outputs.size() && e.node().outputs[output].present(); };

  std::vector<ValueId> goes_on(static_cast<std::size_t>(lens.present() ? s.T : 0));  // by step: whether a sequence has it
  for (std::size_t t = 0; t < goes_on.size(); ++t)
    goes_on[t] = e.emit("Less", {e.graph().add_constant(concat(e.node().name, "/step"),
                                                        Tensor::of<std::int32_t>(Shape{}, std::vector{static_cast<std::int32_t>(t)})),
                                 lens_of_rows});
  std::vector<ValueId> all_y, all_h, all_c;
  for (std::int64_t d = 0; d < s.D; ++d) {
    Direction direction(e, s, d);
    const std::int64_t rows = cell.gates * s.H;
    const ValueId mine = s.D > 1 ? slice_axis(e, all, 2, d * rows, (d + 1) * rows) : all;
    direction.h = direction.of_direction(first_h);
    direction.c = direction.of_direction(first_c);
    direction.reset_bias = direction.of_direction(bias.of_reset);
    std::vector<ValueId> y(static_cast<std::size_t>(s.T));
    for (std::int64_t n = 0; n < s.T; ++n) {
      const std::int64_t t = goes_backwards(e.attributes(), d) ? s.T - 1 - n : n;
      const ValueId h = direction.h, c = direction.c;
      direction.step(e.reshape(slice_axis(e, mine, 0, t, t + 1), {s.B, rows}));
      ValueId out = direction.h;
      if (lens.present()) {
        const ValueId valid = goes_on[static_cast<std::size_t>(t)];
        const auto kept = [&](ValueId now, ValueId before) { return e.emit("Where", {valid, now, before.present() ? before : zero}); };
        out = kept(direction.h, {});
        direction.h = kept(direction.h, h);
        if (direction.c.present()) direction.c = kept(direction.c, c);
      }
      y[static_cast<std::size_t>(t)] = e.reshape(out, {1, 1, s.B, s.H});
    }
    if (wanted(0)) all_y.push_back(e.emit("Concat", y, {{"axis", std::int64_t{0}}}));
    if (wanted(1)) all_h.push_back(e.reshape(direction.h, {1, s.B, s.H}));
    if (wanted(2)) all_c.push_back(e.reshape(direction.c, {1, s.B, s.H}));
  }
  const auto joined = [&](const std::vector<ValueId>& parts, std::int64_t axis) {
    return parts.empty() ? ValueId{} : parts.size() == 1 ? parts[0] : e.emit("Concat", parts, {{"axis", axis}});
  };
  return recurrent_outputs(e, joined(all_y, 1), joined(all_h, 0), joined(all_c, 0));
}

}  // namespace tandem
