// What one kernel can do at once becomes one node. Every backend has kernels for layers with a bias and an activation; of other
// forms the backends of the plan are asked.
#include <algorithm>

#include "graph/views.h"
#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"
#include "planner/rewrite/simplify.h"

namespace tandem::pass_rows {
namespace {

struct Match {
  const Graph& graph;
  IdVector<ValueId, int> uses;

  explicit Match(const Graph& g) : graph(g), uses(g.uses()) {}
  // The node of one of these operators that makes `v`.
  NodeId made_by(ValueId v, std::initializer_list<std::string_view> ops) const {
    const NodeId p = v.present() ? graph[v].producer : NodeId{};
    if (!p.present() || graph[p].outputs[0] != v) return {};
    return std::find(ops.begin(), ops.end(), graph[p].op->name) != ops.end() ? p : NodeId{};
  }
  // ... which nothing else reads.
  NodeId only(ValueId v, std::initializer_list<std::string_view> ops) const {
    return v.present() && uses[v] == 1 ? made_by(v, ops) : NodeId{};
  }
};

// A bias fits a layer's output [N,C,...] where it is a parameter with C elements, along axis 1.
bool is_channel_bias(const Graph& g, ValueId bias, const Shape& out) {
  const Value& b = g[bias];
  if (b.kind != ValueKind::parameter || out.rank() < 2 || b.type.shape.elements() != out[1]) return false;
  const int offset = out.rank() - b.type.shape.rank();
  if (offset < 0) return false;
  for (int i = 0; i < b.type.shape.rank(); ++i)
    if (b.type.shape[i] != (i + offset == 1 ? out[1] : 1)) return false;
  return offset <= 1;
}

// Each rule may turn the node (at hand, with its inputs in the new graph) and its only-used producer into one.
struct Pair {
  Graph& to;
  const Node& first;   // the producer as it stands in the new graph
  const Node& second;
  const Match& match;  // the old graph
  NodeId& before;      // the node there whose outputs but the first the fused one makes too, where it is of its operator
};
// Gives the reason where it does not.
using Rule = std::string_view (*)(const Pair&, Node& fused);

constexpr std::string_view done{}, no_match = "they are no such pair", has_bias = "it has a bias already",
                                   has_activation = "it has an activation already",
                                   other_types = "their values are of different types or shapes";

std::string_view add_bias(const Pair& p, Node& fused) {
  if (p.first.inputs.size() > 2 && p.first.inputs[2].present()) return has_bias;
  if (p.first.attributes.has("activation")) return has_activation;
  const ValueId y = p.first.outputs[0];
  const ValueId bias = p.second.inputs[0] == y ? p.second.inputs[1] : p.second.inputs[0];
  if (p.to[p.second.outputs[0]].type != p.to[y].type) return other_types;
  if (!is_channel_bias(p.to, bias, p.to[y].type.shape)) return "what is added is no parameter with one element a channel";
  fused = p.first;
  fused.inputs.resize(3);
  const std::int64_t channels = p.to[y].type.shape[1];
  fused.inputs[2] =
      p.to[bias].type.shape.rank() == 1 ? bias : GraphBuilder(p.to, p.second.name, p.second.origin).reshape(bias, Shape{channels});
  return done;
}

// A product of tokens [N,T,I] is that of rows [N·T,I], reshaped: a bias along the last axis is the product's.
std::string_view add_bias_before_reshape(const Pair& p, Node& fused) {
  if (!p.match.only(p.match.graph[p.before].inputs[0], {"InnerProduct"}).present()) return no_match;
  const Node product = p.to[p.to[p.first.inputs[0]].producer];
  if (product.op->name != "InnerProduct") return no_match;
  if (product.inputs.size() > 2) return has_bias;
  if (product.attributes.has("activation")) return has_activation;
  const ValueId y = p.first.outputs[0], bias = p.second.inputs[0] == y ? p.second.inputs[1] : p.second.inputs[0];
  const Shape out = p.to[y].type.shape, of = p.to[bias].type.shape;
  const std::int64_t features = p.to[product.outputs[0]].type.shape[1];
  if (p.to[p.second.outputs[0]].type != p.to[y].type) return other_types;
  if (p.to[bias].kind != ValueKind::parameter || out.rank() == 0 || out[out.rank() - 1] != features || of.rank() == 0 ||
      of.elements() != features || of[of.rank() - 1] != features)
    return "what is added is no parameter with one element a feature";
  GraphBuilder b(p.to, p.second.name, p.second.origin);
  std::vector<ValueId> inputs = product.inputs;
  inputs.push_back(b.reshape(bias, Shape{features}));
  std::vector<std::string> origin = product.origin;
  add_origin(origin, p.second.origin);
  const NodeId id = p.to.add_node(*product.op, product.name, product.attributes, std::move(inputs), 1, origin);
  fused = p.first;
  fused.inputs[0] = p.to[id].outputs[0];
  return done;
}

std::string_view add_relu(const Pair& p, Node& fused) {
  if (p.first.attributes.has("activation")) return has_activation;
  fused = p.first;
  fused.attributes.set("activation", std::string("Relu"));
  return done;
}

std::string_view add_clip(const Pair& p, Node& fused) {
  if (p.first.attributes.has("activation")) return has_activation;
  fused = p.first;
  fused.attributes.set("activation", std::string("Clip"));
  for (const char* bound : {"min", "max"})
    if (p.second.attributes.has(bound)) fused.attributes.set(bound, p.second.attributes.real(bound));
  return done;
}

// A residual block's end: the normalized value, the other one, their Relu. Without that cuDNN has no kernel for the sum.
std::string_view add_relu_to_normalized(const Pair& p, Node& fused) {
  for (const std::size_t i : {0, 1}) {
    const NodeId normalization = p.match.only(p.match.graph[p.before].inputs[i], {"BatchNormalizationTraining"});
    if (!normalization.present()) continue;
    const ValueId y = p.first.inputs[i], addend = p.first.inputs[1 - i];
    const Node& now = p.to[p.to[y].producer];
    if (now.attributes.has("activation") || now.inputs.size() > 3 || p.to[addend].type != p.to[y].type) continue;
    fused = now;
    fused.inputs.push_back(addend);
    fused.attributes.set("activation", std::string("Relu"));
    p.before = normalization;
    return done;
  }
  return "no addend is the result of a normalization alone, of the sum's shape, that nothing else reads";
}

// InnerProduct sums over all axes but the first: flattening before it is not needed, the weight is seen unflattened.
std::string_view flatten_into_inner_product(const Pair& p, Node& fused) {
  const ValueId x = p.first.inputs[0], w = p.second.inputs[1];
  const Shape& from = p.to[x].type.shape;
  const Shape& flat = p.to[p.first.outputs[0]].type.shape;
  if (p.to[w].kind != ValueKind::parameter) return "the product's second operand is no parameter";
  if (from.rank() < 3 || flat.rank() != 2 || from[0] != flat[0] || from.rank() > 5) return "it does not flatten all axes but the first";
  Shape wide = from;
  wide[0] = p.to[w].type.shape[0];
  fused = p.second;
  fused.inputs[0] = x;
  fused.inputs[1] = GraphBuilder(p.to, p.second.name, p.second.origin).reshape(w, wide);
  return done;
}

// ... and so is transposing: the weight is seen transposed back.
std::string_view transpose_into_inner_product(const Pair& p, Node& fused) {
  const Ints& perm = p.first.attributes.ints("perm");
  const ValueId w = p.second.inputs[1];
  if (p.to[w].kind != ValueKind::parameter) return "the product's second operand is no parameter";
  if (perm[0] != 0) return "it moves the axis of samples";
  fused = p.second;
  fused.inputs[0] = p.first.inputs[0];
  fused.inputs[1] = GraphBuilder(p.to, p.second.name, p.second.origin).transpose(w, inverse(perm));
  return done;
}

// What flows out of a convolution, through the Relu that made its input.
std::string_view mask_gradient(const Pair& p, Node& fused) {
  const ValueId dx = p.first.outputs[0], y = p.second.inputs[1];
  if (p.second.inputs[0] != dx) return no_match;
  if (p.first.inputs.size() > 2) return "it masks what it writes already";
  if (p.to[y].type != p.to[dx].type) return other_types;
  fused = p.first;
  fused.inputs.push_back(y);
  return done;
}

// What flows out of a fork into the normalization before it: the kernel adds it up.
std::string_view add_up_gradients(const Pair& p, Node& fused) {
  const ValueId sum = p.first.outputs[0], a = p.first.inputs[0], b = p.first.inputs[1];
  if (p.second.inputs[1] != sum) return no_match;
  if (p.second.inputs.size() > 8) return "it adds another value already";
  if (p.to[a].type != p.to[sum].type || p.to[b].type != p.to[sum].type) return other_types;
  fused = p.second;
  fused.inputs[1] = a;
  fused.inputs.resize(8);
  fused.inputs.push_back(b);
  return done;
}

struct Row {
  std::string_view second;
  std::initializer_list<std::string_view> first;
  Rule rule;
  bool asked = false;  // the plan's backends decide
};
const Row layer_rows[] = {
    {"Add", {"Conv", "InnerProduct"}, add_bias},
    {"Add", {"Reshape"}, add_bias_before_reshape},
    {"Relu", {"Add"}, add_relu_to_normalized, true},
    {"Relu", {"Conv", "InnerProduct", "BatchNormalization", "BatchNormalizationTraining"}, add_relu},
    {"Clip", {"BatchNormalizationTraining"}, add_clip, true},
    {"InnerProduct", {"Reshape"}, flatten_into_inner_product},
    {"InnerProduct", {"Transpose"}, transpose_into_inner_product},
};

const Row gradient_rows[] = {
    {"ReluBackward", {"ConvolutionBackwardData"}, mask_gradient, true},
    {"BatchNormalizationBackward", {"Add"}, add_up_gradients, true},
};

struct Missed {
  NodeId first, second;  // of the graph that the round begins with
  std::string why;
};

Graph round(const Graph& graph, std::span<const Row> rows, const Fuses& fuses, bool& changed, std::vector<Missed>& missed) {
  const Match match(graph);
  GraphCopy copy(graph);
  changed = false;
  missed.clear();
  for (NodeId n{0}; n.index < std::ssize(graph.nodes); ++n.index) {
    const Node& node = graph[n];
    bool fused_here = false;
    for (const Row& row : rows) {
      if (row.second != node.op->name || fused_here || (row.asked && !fuses)) continue;
      for (const ValueId in : node.inputs) {
        NodeId before = match.made_by(in, row.first);
        if (!before.present() || fused_here) continue;
        const auto miss = [&](std::string why) { missed.push_back({graph[in].producer, n, std::move(why)}); };
        if (match.uses[in] != 1) {
          miss(concat("the result of the first has ", match.uses[in], " readers"));
          continue;
        }
        const ValueId mapped = copy.map(in);
        if (!copy.to[mapped].producer.present()) continue;
        copy.copy(node);
        const Node second = copy.to.nodes.back();
        copy.to.nodes.pop_back();
        const Node first = copy.to[copy.to[mapped].producer];
        Node fused;
        std::string_view why = row.rule({copy.to, first, second, match, before}, fused);
        if (why == done && row.asked && !offered(fuses, copy.to, fused, fused.outputs.size())) why = not_offered;
        if (why != done) {
          if (why != no_match) miss(std::string(why));
          continue;
        }
        // The fused node makes the second one's output, and the others of the one whose operator it has; the first stays, unread,
        // until simplify removes it.
        std::vector<std::string> origin = fused.origin;  // people look for the node that does the work
        for (const Node* n : {&first, &second}) add_origin(origin, n->origin);
        const NodeId id =
            copy.to.add_node(*fused.op, node.name, fused.attributes, fused.inputs, static_cast<int>(fused.outputs.size()), origin);
        const Node made = copy.to[id];
        copy.to[made.outputs[0]].name = graph[node.outputs[0]].name;
        copy.set(node.outputs[0], made.outputs[0]);
        const Node& same = graph[before].op == fused.op ? graph[before] : node;
        if (same.op == fused.op)
          for (std::size_t i = 1; i < made.outputs.size(); ++i) copy.set(same.outputs[i], made.outputs[i]);
        fused_here = changed = true;
      }
    }
    if (!fused_here) copy.copy(node);
  }
  return copy.finish();
}

Graph fuse(const Graph& graph, std::span<const Row> rows, const Fuses& fuses, const PassContext& context) {
  Graph now = graph;
  std::vector<Missed> missed;
  for (bool changed = true; changed;) {
    Graph next = round(now, rows, fuses, changed, missed);
    if (changed) now = simplify(next);
  }
  for (Missed& m : missed) context.not_fused(now[m.first], now[m.second], std::move(m.why));
  return now;
}

}  // namespace

// Bias and activation into the producing node, flatten + InnerProduct; BatchNormalization + Add + Relu where that is offered. Before
// differentiation. For predictions no backend is asked.
Pass fuse_layers() {
  return {.name = "fuse_layers",
          .run = [](Graph g, PassContext& c) { return fuse(g, layer_rows, c.training() ? c.fuses : Fuses(), c); },
          .needs = {Property::primitive},
          .why = "a bias and an activation cost no pass over memory"};
}

// Relu's gradient into that of the convolution behind it, and the sum of two gradients into that of the normalization before a fork,
// where that is offered. After differentiation.
Pass fuse_gradients() {
  return {.name = "fuse_gradients",
          .run = [](Graph g, PassContext& c) { return fuse(g, gradient_rows, c.fuses, c); },
          .needs = differentiated,
          .why = "gradients are masked and added where they are written"};
}

}  // namespace tandem::pass_rows
