// Activations as exporters write them out become the operators they are: Gelu in both forms, Swish, HardSwish. Each is then one
// pass over memory forward and one back, in which only its operand is kept.
#include <cmath>

#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"
#include "planner/rewrite/pattern.h"

namespace tandem::pass_rows {
namespace {

struct Activation {
  std::string_view op;
  ValueId x;
  Attributes attributes;
};
using Product = Pattern::Product;

// The other operand of a sum, where one is this number.
ValueId plus(const Pattern& p, ValueId v, double number) {
  const Node* const add = p.made_by(v, "Add");
  if (!add) return {};
  for (const std::size_t i : {0, 1})
    if (p.is_number(add->inputs[i], number)) return add->inputs[1 - i];
  return {};
}

// x of c·x; absent where it is another product.
ValueId multiple(const Pattern& p, ValueId v, double c) {
  const Product product = p.product(v);
  return product.is(c) && product.factors.size() == 1 ? product.factors[0] : ValueId{};
}

bool is_power(const Pattern& p, ValueId v, double number, ValueId x, std::size_t times) {
  const Product product = p.product(v);
  return product.is(number) && product.factors == std::vector<ValueId>(times, x);
}

// √(2/π) (x + 0.044715 x³), or √(2/π) x (1 + 0.044715 x²)
bool is_gelu_bend(const Pattern& p, ValueId v, ValueId x) {
  constexpr double cubic = 0.044715;
  Product product = p.product(v);
  if (!product.is(std::sqrt(2 / M_PI))) return false;
  if (product.take(x)) {
    const ValueId rest = product.factors.size() == 1 ? plus(p, product.factors[0], 1) : ValueId{};
    return rest.present() && is_power(p, rest, cubic, x, 2);
  }
  const Node* const sum = product.factors.size() == 1 ? p.made_by(product.factors[0], "Add") : nullptr;
  if (!sum) return false;
  for (const std::size_t i : {0, 1})
    if (p.through(sum->inputs[i]) == x && is_power(p, sum->inputs[1 - i], cubic, x, 3)) return true;
  return false;
}

// c · x · f, of two factors in either order: rule(x, f) says what that is.
template <class Rule>
std::optional<Activation> of_two(const Product& product, const Rule& rule) {
  if (product.factors.size() != 2) return std::nullopt;
  for (const std::size_t i : {0, 1})
    if (auto found = rule(product.factors[i], product.factors[1 - i])) return found;
  return std::nullopt;
}

// ½ x (1 + erf(x/√2)), ½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))
std::optional<Activation> gelu(const Pattern& p, const Product& product) {
  if (!product.is(0.5)) return std::nullopt;
  return of_two(product, [&](ValueId x, ValueId f) -> std::optional<Activation> {
    const ValueId bend = plus(p, f, 1);
    if (!bend.present()) return std::nullopt;
    if (const Node* const erf = p.made_by(bend, "Erf"); erf && multiple(p, erf->inputs[0], M_SQRT1_2) == x)
      return Activation{"Gelu", x, {}};
    if (const Node* const tanh = p.made_by(bend, "Tanh"); tanh && is_gelu_bend(p, tanh->inputs[0], x))
      return Activation{"Gelu", x, {{"approximate", std::string("tanh")}}};
    return std::nullopt;
  });
}

// x · sigmoid(αx); the sigmoid must be read nowhere else, or it would be computed twice.
std::optional<Activation> swish(const Pattern& p, const Product& product) {
  if (!product.is(1)) return std::nullopt;
  return of_two(product, [&](ValueId x, ValueId f) -> std::optional<Activation> {
    const Node* const sigmoid = p.made_by(f, "Sigmoid");
    if (!sigmoid || !p.read_once(sigmoid->outputs[0])) return std::nullopt;
    if (p.through(sigmoid->inputs[0]) == x) return Activation{"Swish", x, {}};
    const Product argument = p.product(sigmoid->inputs[0]);
    if (argument.factors != std::vector<ValueId>{x}) return std::nullopt;
    return Activation{"Swish", x, {{"alpha", static_cast<float>(argument.number)}}};
  });
}

// x · hard_sigmoid(x; 1/6, 1/2), x · clip(x + 3, 0, 6) / 6
std::optional<Activation> hard_swish(const Pattern& p, const Product& product) {
  return of_two(product, [&](ValueId x, ValueId f) -> std::optional<Activation> {
    if (const Node* const hard = product.is(1) ? p.made_by(f, "HardSigmoid") : nullptr) {
      const Attributes& a = hard->attributes;
      if (p.through(hard->inputs[0]) == x && same_number(static_cast<double>(a.real("alpha", 0.2F)), 1.0 / 6) &&
          a.real("beta", 0.5F) == 0.5F)
        return Activation{"HardSwish", x, {}};
    }
    if (const Node* const clip = product.is(1.0 / 6) ? p.made_by(f, "Clip") : nullptr) {
      const Attributes& a = clip->attributes;
      if (a.has("min") && a.has("max") && a.real("min") == 0 && a.real("max") == 6 && p.through(plus(p, clip->inputs[0], 3)) == x)
        return Activation{"HardSwish", x, {}};
    }
    return std::nullopt;
  });
}

std::optional<Activation> activation(const Pattern& p, const Node& node) {
  if (!node.op->domain.empty() || (node.op->name != "Mul" && node.op->name != "Div")) return std::nullopt;
  const TensorType type = p.graph()[node.outputs[0]].type;
  if (!is_float(type.dtype)) return std::nullopt;
  const Product product = p.product(node.outputs[0]);
  for (const auto rule : {gelu, swish, hard_swish})
    if (auto found = rule(p, product); found && p.graph()[found->x].type == type) return found;
  return std::nullopt;
}

Graph match_activations(const Graph& graph) {
  const Pattern pattern(graph);
  GraphCopy copy(graph);
  for (const Node& node : graph.nodes) {
    const auto found = activation(pattern, node);
    if (!found) {
      copy.copy(node);
      continue;
    }
    const NodeId id = copy.to.add_node(internal_operator(found->op), node.name, found->attributes, {copy.map(found->x)}, 1,
                                       origin_of(graph, node, std::span(&found->x, 1)));
    const ValueId y = copy.to[id].outputs[0];
    copy.to[y].name = graph[node.outputs[0]].name;
    copy.set(node.outputs[0], y);
  }
  return copy.finish();
}

}  // namespace

// Activations that are written out (Gelu, Swish, HardSwish) become the operators that they are. Before expand.
Pass match_activations() {
  return {.name = "match_activations",
          .run = [](Graph g, PassContext&) { return match_activations(g); },
          .why = "one kernel in place of those of the formula"};
}

}  // namespace tandem::pass_rows
