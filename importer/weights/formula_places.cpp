#include "importer/weights/formula_places.h"

#include <algorithm>

namespace tandem {

FormulaPlaces::FormulaPlaces(const FlatModel& model, const std::vector<Uses>& uses)
    : model_(model), uses_(uses), producers_(model.symbols.size()) {
  note_producers(model.main);
}

void FormulaPlaces::note_producers(const FlatBody& body) {
  for (const FlatNode& node : body.nodes) {
    for (const Symbol out : node.outputs)
      if (out.present()) producers_[static_cast<std::size_t>(out.index)] = &node;
    for (const FlatBody& inner : node.bodies) note_producers(inner);
  }
}

// A filter of one channel along one axis, a filter of one place, or a matrix, either way.
Bank FormulaPlaces::bank_of(const Held& held) const {
  const OperandRole role = uses(held).strongest();
  const Shape& s = held.type.shape;
  if (!held.data || !is_large(role) || role == OperandRole::embedding || s.rank() < 2 || s.elements() == 0) return Bank::none;
  const Tensor& values = *held.data;
  if (role == OperandRole::matrix) {
    if (s.rank() != 2) return Bank::none;
    const Filters rows = rows_of(values, s[0]), columns = columns_of(values, s[1]);
    return std::max({windowed_sines(rows), windowed_sines(columns), triangles(rows), triangles(columns)});
  }
  const std::int64_t longest = *std::max_element(s.begin() + 1, s.end());
  if (s[0] * longest != s.elements()) return Bank::none;
  return std::max(windowed_sines(rows_of(values, s[0])), triangles(rows_of(values, s[0])));
}

// A value that a loop begins with and that its body replaces; what the body hands on as it is may be a weight.
bool FormulaPlaces::first_state_of_loop(const Held& held) const {
  const Uses::Reader& reader = uses(held).reader;
  if (!reader.node || !reader.node->domain.empty() || reader.node->bodies.size() != 1) return false;
  const FlatBody& body = reader.node->bodies[0];
  const bool loop = reader.node->op == "Loop", scan = reader.node->op == "Scan";
  const std::size_t lengths = scan && reader.node->opset < 9 ? 1 : 0;  // an operand that the body does not take
  const auto input = static_cast<std::size_t>(reader.input) - lengths, first = std::size_t{loop ? 2U : 0U},
             output = loop ? input - 1 : input;
  const auto states =
      scan ? body.inputs.size() - static_cast<std::size_t>(std::clamp<std::int64_t>(reader.node->attributes.integer("num_scan_inputs", 0),
                                                                                    0, static_cast<std::int64_t>(body.inputs.size())))
           : body.inputs.size();
  if ((!loop && !scan) || input < first || input >= states || output >= body.outputs.size()) return false;
  Symbol made = body.outputs[output];
  for (auto node = body.nodes.rbegin(); node != body.nodes.rend(); ++node)  // later nodes first
    if (node->op == "Identity" && node->inputs.size() == 1 && node->outputs.size() == 1 && node->outputs[0] == made) made = node->inputs[0];
  return made != body.inputs[input];
}

// Joined to the real part right before a Fourier transform.
bool FormulaPlaces::imaginary(const Held& held) const {
  const Uses& u = uses(held);
  return u.reader.node && u.reader.input == 0 && !u.direct && held.type.shape.rank() > 1 &&
         held.type.shape[held.type.shape.rank() - 1] == 1 && u.reader.node->domain.empty() && u.reader.node->op == "DFT";
}

// The shares w, from 0 to 1, of a + (b - a)·w, where a and b were picked from one value by places that are known: an interpolation
// written out.
bool FormulaPlaces::interpolates(const Held& held, const Tensor& values) const {
  const Uses::Reader& reader = uses(held).reader;
  if (!reader.node || reader.node->op != "Mul" || !uses(held).direct || reader.node->inputs.size() != 2) return false;
  const FlatNode* difference = producer(reader.node->inputs[static_cast<std::size_t>(1 - reader.input)]);
  if (!difference || difference->op != "Sub" || difference->inputs.size() != 2) return false;
  const Symbol from = picked_from(difference->inputs[0]);
  const std::vector<double> shares = values.to_doubles();
  return from.present() && from == picked_from(difference->inputs[1]) &&
         std::all_of(shares.begin(), shares.end(), [](double s) { return s >= 0 && s <= 1; });
}

// What `s` was picked from by known places; absent where it was not.
Symbol FormulaPlaces::picked_from(Symbol s) const {
  const FlatNode* node = producer(s);
  while (node && (node->op == "Transpose" || node->op == "Reshape" || node->op == "Unsqueeze" || node->op == "Squeeze") &&
         !node->inputs.empty())
    node = producer(node->inputs[0]);
  if (!node || (node->op != "Gather" && node->op != "GatherND") || node->inputs.size() != 2) return {};
  const FlatNode* made = producer(node->inputs[1]);
  const bool known = made ? made->op == "Constant"
                          : std::any_of(model_.main.initializers.begin(), model_.main.initializers.end(),
                                        [&](const FlatInitializer& i) { return i.symbol == node->inputs[1]; });
  return known ? node->inputs[0] : Symbol{};
}

// A vector added to a product right away.
bool FormulaPlaces::bias_of_product(const Held& held) const {
  const Uses::Reader& reader = uses(held).reader;
  if (!reader.node || role_of(*reader.node, reader.input) != OperandRole::addend || reader.node->inputs.size() != 2) return false;
  const Symbol other = reader.node->inputs[static_cast<std::size_t>(1 - reader.input)];
  const FlatNode* product = other.present() ? producers_[static_cast<std::size_t>(other.index)] : nullptr;
  const Shape& s = held.type.shape;
  if (!product || s.rank() == 0 || s.elements() != *std::max_element(s.begin(), s.end())) return false;
  const OperandRole right = role_of(*product, 1);
  return right == OperandRole::matrix || right == OperandRole::filter || right == OperandRole::transposed_filter;
}

}  // namespace tandem
