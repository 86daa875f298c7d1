#include "planner/rewrite/pattern.h"

#include <algorithm>
#include <cmath>

namespace tandem {

bool same_number(double a, double b) { return std::abs(a - b) <= 1e-5 * std::abs(b); }

ValueId Pattern::through(ValueId v) const {
  for (;;) {
    if (!v.present() || !graph_[v].producer.present()) return v;
    const Node& node = graph_[graph_[v].producer];
    const std::string_view op = node.op->name;
    if (op != "Identity" && op != "Cast" && op != "CastLike") return v;
    if (graph_[node.inputs[0]].type != graph_[v].type) return v;
    v = node.inputs[0];
  }
}

const Node* Pattern::made_by(ValueId v, std::string_view op) const {
  const Node* const node = tandem::made_by(graph_, through(v), op);
  return node && node->op->domain.empty() ? node : nullptr;
}

std::optional<double> Pattern::number(ValueId v) const {
  v = through(v);
  return v.present() ? known_number(graph_[v]) : std::nullopt;
}

bool Pattern::is_number(ValueId v, double expected) const {
  const std::optional<double> n = number(v);
  return n && same_number(*n, expected);
}

bool Pattern::Product::take(ValueId factor) {
  const auto it = std::find(factors.begin(), factors.end(), factor);
  if (it == factors.end()) return false;
  factors.erase(it);
  return true;
}

Pattern::Product Pattern::product(ValueId v) const {
  Product p;
  multiply(p, v, true);
  return p;
}

void Pattern::multiply(Product& p, ValueId v, bool root) const {
  constexpr std::size_t most = 8;  // factors of any formula here: others need not be looked through
  if (const auto n = number(v)) {
    p.number *= *n;
    return;
  }
  const bool inside = root || (p.factors.size() < most && read_once(v) && read_once(through(v)));
  if (const Node* const mul = inside ? made_by(v, "Mul") : nullptr) {
    for (const ValueId in : mul->inputs) multiply(p, in, false);
    return;
  }
  if (const Node* const div = inside ? made_by(v, "Div") : nullptr)
    if (const auto n = number(div->inputs[1]); n && *n != 0) {
      p.number /= *n;
      return multiply(p, div->inputs[0], false);
    }
  if (const Node* const pow = inside ? made_by(v, "Pow") : nullptr)
    if (const auto n = number(pow->inputs[1]); n && (*n == 2 || *n == 3)) {
      for (int i = 0; i < static_cast<int>(*n); ++i) multiply(p, pow->inputs[0], false);
      return;
    }
  p.factors.push_back(through(v));
}

}  // namespace tandem
