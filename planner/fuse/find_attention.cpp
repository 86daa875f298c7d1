#include "planner/fuse/find_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "graph/operator.h"
#include "graph/views.h"
#include "planner/rewrite/graph_copy.h"

namespace tandem {
namespace {

// From here on a score has no share in the softmax whatever the others are: e^(-10⁹ + s) is 0 in float32.
constexpr double unreachable = -1e9;

class Matcher {
 public:
  Matcher(const Graph& graph, bool training) : graph_(graph), uses_(graph.uses()), differentiable_(graph.values.size()) {
    if (!training) return;
    for (const ValueId p : trainable_parameters(graph)) differentiable_[p] = true;
    for (const Node& node : graph.nodes)
      if (std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return v.present() && differentiable_[v]; }))
        for (const ValueId out : node.outputs)
          if (const DType t = out.present() ? type(out).dtype : DType::undefined; is_float(t) || is_small_float(t))
            differentiable_[out] = true;
  }

  std::optional<FoundAttention> find(const Node& product) const {
    if (product.op->name != "MatMul" || turns(product, "transA") || turns(product, "transB")) return std::nullopt;
    FoundAttention f;
    f.v = product.inputs[1];
    ValueId p = product.inputs[0];
    if (rank(p) != rank(f.v) || !equal_leads(shape(p), shape(f.v)) || shape(product.outputs[0]).elements() == 0) return std::nullopt;
    f.scores = shape(p);
    p = through_reshapes(f, p);
    if (const Node* n = single(p, "DropoutTraining")) {
      f.dropout = graph_[p].producer;
      p = through_reshapes(f, n->inputs[0]);
    }
    p = through_guard(f, p);
    const Node* const softmax = made_by(p, "Softmax");
    if (!softmax || softmax->attributes.integer("axis") != rank(p) - 1 || uses_[p] != (f.guarded == 2 ? 2 : 1)) return std::nullopt;
    f.softmax = graph_[p].producer;
    const std::optional<FoundAttention> found = walk(f, softmax->inputs[0], false);
    if (!found || !check(*found)) return std::nullopt;
    return found;
  }

 private:
  const TensorType& type(ValueId v) const { return graph_[v].type; }
  const Shape& shape(ValueId v) const { return graph_[v].type.shape; }
  int rank(ValueId v) const { return shape(v).rank(); }
  static bool turns(const Node& n, const char* name) { return n.attributes.integer(name, 0) != 0; }
  static bool equal_leads(const Shape& a, const Shape& b) {
    return a.rank() > 2 && std::equal(a.begin(), a.end() - 2, b.begin(), b.end() - 2);
  }
  static bool equal_ends(const Shape& a, const Shape& b) {
    return a.rank() > 1 && b.rank() > 1 && std::equal(a.end() - 2, a.end(), b.end() - 2);
  }

  const Node* made_by(ValueId v, std::string_view op) const { return tandem::made_by(graph_, v, op); }
  const Node* single(ValueId v, std::string_view op) const { return uses_[v] == 1 ? made_by(v, op) : nullptr; }
  std::optional<double> number(ValueId v) const { return known_number(graph_[v]); }
  // v = x · factor: x, else nothing. Of Mul either operand may be the number.
  ValueId unscaled(ValueId v, double& factor) const {
    for (const auto& [op, number_at] : {std::pair{"Mul", 0}, std::pair{"Mul", 1}, std::pair{"Div", 1}}) {
      const Node* const n = made_by(v, op);
      if (!n) continue;
      const ValueId x = n->inputs[static_cast<std::size_t>(1 - number_at)];
      const std::optional<double> c = number(n->inputs[static_cast<std::size_t>(number_at)]);
      if (!c || type(x) != type(v)) continue;
      factor *= *op == 'M' ? *c : 1 / *c;
      return x;
    }
    return {};
  }

  // Scores of all heads may be seen as [B·H,S,T] or [B,H,S,T].
  ValueId through_reshapes(FoundAttention& f, ValueId v) const {
    for (const Node* n = single(v, "Reshape"); n && equal_ends(shape(v), shape(n->inputs[0])); n = single(v, "Reshape")) {
      v = n->inputs[0];
      if (rank(v) > f.scores.rank()) f.scores = shape(v);
    }
    return v;
  }

  // Where(IsNaN(p), 0, p), or Where(ReduceMax(mask) == −∞, 0, p).
  ValueId through_guard(FoundAttention& f, ValueId v) const {
    const Node* const choice = single(v, "Where");
    if (!choice || number(choice->inputs[1]) != 0.0 || type(choice->inputs[2]) != type(v)) return v;
    const ValueId p = choice->inputs[2];
    if (const Node* n = single(choice->inputs[0], "IsNaN"); n && n->inputs[0] == p) {
      f.guarded = 2;
      return p;
    }
    const Node* const equal = single(choice->inputs[0], "Equal");
    const Node* const most = equal ? single(equal->inputs[0], "ReduceMax") : nullptr;
    if (!most || number(equal->inputs[1]) != -std::numeric_limits<double>::infinity()) return v;
    if (most->attributes.ints("axes") != Ints{rank(most->inputs[0]) - 1} || most->attributes.integer("keepdims", 1) == 0) return v;
    f.guarded = 1;
    f.guard_of = most->inputs[0];
    return p;
  }

  // From what the softmax is of up to the product. `scaled`: what is above is multiplied by a number, and so would be a mask.
  std::optional<FoundAttention> walk(FoundAttention f, ValueId s, bool scaled) const {
    if (uses_[s] != 1) return std::nullopt;
    s = through_reshapes(f, s);
    if (rank(s) > f.scores.rank()) f.scores = shape(s);
    if (const Node* product = single(s, "MatMul")) return finish(std::move(f), *product);
    double factor = 1;
    if (const ValueId x = unscaled(s, factor); x.present()) {
      f.scale *= factor;
      return walk(std::move(f), x, true);
    }
    if (scaled) return std::nullopt;
    if (const Node* sum = made_by(s, "Add"))
      for (const std::size_t i : {0, 1}) {
        const ValueId x = sum->inputs[i], mask = sum->inputs[1 - i];
        FoundAttention with = f;
        if (type(x) != type(s) || differentiable_[mask] || !add(with, mask, shape(s))) continue;
        if (auto found = walk(std::move(with), x, false)) return found;
      }
    if (const Node* choice = made_by(s, "Where"))
      for (const std::size_t i : {1, 2}) {
        const ValueId x = choice->inputs[i];
        const std::optional<double> fill = number(choice->inputs[3 - i]);
        FoundAttention with = f;
        if (type(x) != type(s) || !fill || !choose(with, choice->inputs[0], i == 2, *fill)) continue;
        if (auto found = walk(std::move(with), x, false)) return found;
      }
    return std::nullopt;
  }

  // A mask that is added: a known triangle, truth as 0 and −∞, or numbers.
  bool add(FoundAttention& f, ValueId mask, const Shape& scores) const {
    if (rank(mask) > scores.rank()) return false;
    if (mask == f.guard_of) f.guard_of = {};
    FoundAttention parted = f;
    if (part(parted, mask) && parted.causal && !f.causal)
      f = parted;
    else
      add_whole(f, mask);
    return true;
  }
  // One that is a sum is each of its addends.
  bool part(FoundAttention& f, ValueId mask) const {
    if (const Node* sum = made_by(mask, "Add")) return part(f, sum->inputs[0]) && part(f, sum->inputs[1]);
    return add_whole(f, mask);
  }
  bool add_whole(FoundAttention& f, ValueId mask) const {
    if (triangle(f, mask, false, unreachable)) return true;
    const double nothing = -std::numeric_limits<double>::infinity();
    const Node* const choice = made_by(mask, "Where");
    for (const std::size_t i : {1, 2})
      if (choice && number(choice->inputs[i]) == 0.0 && number(choice->inputs[3 - i]) == nothing &&
          choose(f, choice->inputs[0], i == 2, nothing))
        return true;
    f.addends.push_back(mask);
    return true;
  }

  bool choose(FoundAttention& f, ValueId condition, bool drops_kept, double fill) const {
    if (rank(condition) > 4) return false;
    if (triangle(f, condition, drops_kept, fill)) return true;
    if (f.keep.present()) return false;
    f.keep = condition;
    f.drops_kept = drops_kept;
    f.fill = fill;
    return true;
  }

  // Whether it is known and hides all keys behind the query's own (and `offset` more).
  bool triangle(FoundAttention& f, ValueId mask, bool drops_kept, double fill) const {
    const std::int64_t S = f.scores[f.scores.rank() - 2], T = f.scores[f.scores.rank() - 1];
    for (const Node* n = made_by(mask, "Expand"); n && equal_ends(shape(mask), shape(n->inputs[0])); n = made_by(mask, "Expand"))
      mask = n->inputs[0];
    const Value& value = graph_[mask];
    if (value.kind != ValueKind::constant || value.type.shape.elements() != S * T || rank(mask) < 2 || shape(mask)[rank(mask) - 1] != T ||
        shape(mask)[rank(mask) - 2] != S)
      return false;
    const bool truth = value.type.dtype == DType::boolean;
    if (fill > unreachable) return false;
    const std::vector<double> numbers = value.data->to_doubles();
    const auto hidden = [&](double x) { return truth ? (x != 0) == drops_kept : x <= unreachable; };
    const auto seen = [&](double x) { return truth ? (x != 0) != drops_kept : x == 0; };
    std::int64_t offset = -1;
    while (offset + 1 < T && seen(numbers[static_cast<std::size_t>(offset + 1)])) ++offset;
    if (offset < 0) return false;
    for (std::int64_t i = 0; i < S; ++i)
      for (std::int64_t j = 0; j < T; ++j)
        if (const double x = numbers[static_cast<std::size_t>(i * T + j)]; !(j <= i + offset ? seen(x) : hidden(x))) return false;
    if (offset == T - 1) return true;  // hides nothing
    f.offset = f.causal ? std::min(f.offset, offset) : offset;
    f.causal = true;
    return true;
  }

  std::optional<FoundAttention> finish(FoundAttention f, const Node& product) const {
    if (turns(product, "transA")) return std::nullopt;
    f.turned = turns(product, "transB");
    f.q = product.inputs[0];
    for (ValueId x = f.q; x.present(); x = unscaled(x, f.scale)) f.q = x;
    f.k = product.inputs[1];
    if (rank(f.q) != rank(f.k) || !equal_leads(shape(f.q), shape(f.k))) return std::nullopt;
    f.key_order.resize(static_cast<std::size_t>(rank(f.k)));
    std::iota(f.key_order.begin(), f.key_order.end(), 0);
    while (true) {
      if (const ValueId x = unscaled(f.k, f.scale); x.present()) {
        f.k = x;
      } else if (const Node* n = made_by(f.k, "Transpose")) {
        for (std::int64_t& axis : f.key_order) axis = n->attributes.ints("perm")[static_cast<std::size_t>(axis)];
        f.k = n->inputs[0];
      } else {
        return f;
      }
    }
  }

  bool check(const FoundAttention& f) const {
    const DType dtype = type(f.q).dtype;
    if ((dtype != DType::float32 && dtype != DType::float64) || f.scores.rank() < 3 || f.scores.rank() > 4 || f.scores.elements() == 0)
      return false;
    if (f.guard_of.present() || !std::isfinite(f.scale)) return false;
    if (f.keep.present() && !f.addends.empty() && f.fill != -std::numeric_limits<double>::infinity()) return false;
    return true;
  }

  const Graph& graph_;
  IdVector<ValueId, int> uses_;
  IdVector<ValueId, bool> differentiable_;
};

}  // namespace

FindAttention attention_finder(const Graph& graph, bool training) {
  return [matcher = std::make_shared<const Matcher>(graph, training)](const Node& product) { return matcher->find(product); };
}

}  // namespace tandem
