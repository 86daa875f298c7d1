// Attention that stands in several nodes (find_attention.h) becomes the one node that a backend offers a kernel for.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/views.h"
#include "planner/fuse/find_attention.h"
#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"
#include "planner/rewrite/simplify.h"

namespace tandem::pass_rows {
namespace {

// Makes the one node, in the new graph.
class Writer {
 public:
  Writer(const Graph& from, GraphCopy& copy, const Node& product, const FoundAttention& f)
      : from_(from), copy_(copy), f_(f), b_(copy.to, product.name, origin_of(from, product, operands_of(from, f))), scores_(f.scores) {
    if (scores_.rank() == 3) scores_ = {scores_[0], 1, scores_[1], scores_[2]};
  }

  // Nothing where it is not offered.
  std::optional<ValueId> write(const Node& product, const Fuses& fuses, bool training) {
    const ValueId q = in_heads(copy_.map(f_.q));
    Ints order = f_.key_order;
    if (!f_.turned) std::swap(order[order.size() - 2], order[order.size() - 1]);
    const bool straight = std::is_sorted(order.begin(), order.end());
    ValueId k = copy_.map(f_.k), v = copy_.map(f_.v);
    k = in_heads(straight ? k : b_.transpose(k, order));
    v = in_heads(v);
    if (const auto fewer_k = unrepeated(k), fewer_v = unrepeated(v); fewer_k && fewer_v && b_.shape(*fewer_k)[1] == b_.shape(*fewer_v)[1]) {
      k = *fewer_k;
      v = *fewer_v;
    }
    Attributes attributes{{"scale", static_cast<float>(f_.scale)},
                          {"causal", std::int64_t{f_.causal}},
                          {"offset", f_.offset},
                          {"guarded", std::int64_t{f_.guarded}}};
    std::vector<ValueId> inputs{q, k, v};
    if (const ValueId m = mask(attributes); m.present()) inputs.push_back(m);
    if (f_.dropout.present()) {
      const Node& dropout = from_[f_.dropout];
      const std::optional<std::int64_t> inner = rows_of_a_sample(dropout);
      if (!inner) return std::nullopt;
      inputs.resize(4);
      for (std::size_t i = 1; i < dropout.inputs.size(); ++i) inputs.push_back(copy_.map(dropout.inputs[i]));
      for (const char* name : {"ratio", "layer"}) attributes.set(name, *dropout.attributes.find(name));
      attributes.set("inner", *inner);
    }
    const Operator& op = internal_operator("AttentionTraining");
    std::vector<TensorType> types;
    for (const ValueId in : inputs) types.push_back(in.present() ? b_.type(in) : TensorType{});
    const int outputs = !training ? 1 : hides_rows(attributes, inputs) ? 3 : 2;
    if (!offered(fuses, op, attributes, types, static_cast<std::size_t>(outputs))) return std::nullopt;
    const ValueId y = b_.emit(op.name, std::move(inputs), std::move(attributes), outputs)[0];
    return b_.reshape(y, from_[product.outputs[0]].type.shape);
  }

 private:
  // A number may hide all keys of a row, which then share alike. A mask that is known shows whether it does.
  bool hides_rows(const Attributes& attributes, const std::vector<ValueId>& inputs) const {
    if (inputs.size() < 4 || !inputs[3].present()) return false;
    const Value& mask = copy_.to[inputs[3]];
    if (mask.type.dtype == DType::boolean) return std::isfinite(attributes.real("fill", 0));
    if (mask.kind != ValueKind::constant || !mask.data) return true;
    constexpr double felt = -1e3;  // from here on adding a logarithm rounds it
    const std::vector<double> values = mask.data->to_doubles();
    const std::int64_t keys = mask.type.shape[3];
    for (std::int64_t row = 0; row < std::ssize(values); row += keys)
      if (*std::max_element(values.begin() + row, values.begin() + row + keys) < felt) return true;
    return false;
  }

  // How many of axis 0 of the scores [B,H,S,T] one sample has, 0 where it is not drawn by samples; nothing where they lie otherwise.
  std::optional<std::int64_t> rows_of_a_sample(const Node& dropout) const {
    const Attributes& a = dropout.attributes;
    if (!a.has("axis")) return 0;
    const Shape& drawn = from_[dropout.inputs[0]].type.shape;
    const std::int64_t samples = drawn[0] / a.integer("inner", 1);
    if (a.integer("axis") != 0 || a.integer("outer", 1) != 1 || samples == 0 || scores_[0] % samples != 0) return std::nullopt;
    return scores_[0] / samples;
  }
  static std::vector<ValueId> operands_of(const Graph& from, const FoundAttention& f) {
    std::vector<ValueId> operands{f.q, f.k, f.v, f.keep, f.guard_of};
    operands.insert(operands.end(), f.addends.begin(), f.addends.end());
    if (f.dropout.present()) operands.insert(operands.end(), from[f.dropout].inputs.begin() + 1, from[f.dropout].inputs.end());
    return operands;
  }

  // [N,S,D] or [B,H,S,D] as scores_ has samples and heads.
  ValueId in_heads(ValueId x) {
    const Shape s = b_.shape(x);
    return b_.reshape(x, {scores_[0], scores_[1], s[s.rank() - 2], s[s.rank() - 1]});
  }

  // What [B,H,T,D] repeats: Reshape(Expand(Reshape [B,H',1,T,D])) of [B,H',T,D].
  std::optional<ValueId> unrepeated(ValueId x) {
    const Graph& g = copy_.to;
    const auto before = [&](ValueId v, std::string_view op) {
      const Node* const node = made_by(g, v, op);
      return node ? node->inputs[0] : ValueId{};
    };
    const ValueId wide = before(x, "Reshape");
    const ValueId apart = wide.present() ? before(wide, "Expand") : ValueId{};
    if (!apart.present()) return std::nullopt;
    const Shape s = b_.shape(x), w = b_.shape(wide), a = b_.shape(apart);
    if (w.rank() != 5 || a != Shape{s[0], w[1], 1, s[2], s[3]} || w != Shape{s[0], w[1], w[2], s[2], s[3]} || w[1] * w[2] != s[1])
      return std::nullopt;
    return b_.reshape(apart, {s[0], w[1], s[2], s[3]});
  }

  // A mask's axes beside those of the scores, its last one whole.
  ValueId in_place(ValueId m) {
    Shape s = b_.shape(m);
    if (f_.scores.rank() == 3 && s.rank() == 3) {
      s = {s[0], 1, s[1], s[2]};
    } else if (f_.scores.rank() == 4 && s.rank() == 3 && s[0] == scores_[0] * scores_[1] && s[0] != scores_[1]) {
      s = {scores_[0], scores_[1], s[1], s[2]};  // it was met as [B·H,S,T]
    } else {
      while (s.rank() < 4) s.dims.insert(s.dims.begin(), 1);
    }
    m = b_.reshape(m, s);
    s.dims.back() = scores_[3];
    return b_.broadcast_to(m, s);
  }

  ValueId mask(Attributes& attributes) {
    const double nothing = -std::numeric_limits<double>::infinity();
    const DType dtype = from_[f_.q].type.dtype;
    if (f_.addends.empty() && !f_.keep.present()) return {};
    ValueId keep;
    if (f_.keep.present()) {
      keep = copy_.map(f_.keep);
      if (f_.drops_kept) keep = b_.emit("Not", {keep});
      keep = in_place(keep);
      if (f_.addends.empty()) {
        attributes.set("fill", static_cast<float>(f_.fill));
        return keep;
      }
    }
    ValueId sum = keep.present() ? b_.emit("Where", {keep, b_.scalar(0, dtype), b_.scalar(nothing, dtype)}) : ValueId{};
    for (const ValueId a : f_.addends) {
      const ValueId one = in_place(copy_.map(a));
      sum = sum.present() ? b_.add(sum, one) : one;
    }
    return sum;
  }

  const Graph& from_;
  GraphCopy& copy_;
  const FoundAttention& f_;
  GraphBuilder b_;
  Shape scores_;  // [B,H,S,T]
};

Graph match_attention(const Graph& graph, const Fuses& fuses, bool training) {
  if (!fuses) return graph;
  const FindAttention find = attention_finder(graph, training);
  GraphCopy copy(graph);
  bool changed = false;
  for (const Node& node : graph.nodes) {
    const std::optional<FoundAttention> found = find(node);
    if (const auto y = found ? Writer(graph, copy, node, *found).write(node, fuses, training) : std::nullopt) {
      copy.replace(node, std::span(&*y, 1));
      changed = true;
    } else {
      copy.copy(node);
    }
  }
  return changed ? simplify(copy.finish()) : graph;
}

}  // namespace

// Attention that a model writes out (products, scale, masks, softmax, dropout) becomes AttentionTraining where that is offered and
// computes the same. Once composites are expanded, before differentiation.
Pass match_attention() {
  return {.name = "match_attention",
          .run = [](Graph g, PassContext& c) { return match_attention(g, c.fuses, c.training()); },
          .needs = {Property::primitive},
          .why = "scores are never written"};
}

}  // namespace tandem::pass_rows
