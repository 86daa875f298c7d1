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
  // The node of one of these operators that makes `v`, which nothing else reads.
  NodeId only(ValueId v, std::initializer_list<std::string_view> ops) const {
    if (!v.present() || uses[v] != 1) return {};
    const NodeId p = graph[v].producer;
    if (!p.present() || graph[p].outputs[0] != v) return {};
    return std::find(ops.begin(), ops.end(), graph[p].op->name) != ops.end() ? p : NodeId{};
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
using Rule = bool (*)(const Pair&, Node& fused);

bool add_bias(const Pair& p, Node& fused) {
  if (p.first.inputs.size() > 2 && p.first.inputs[2].present()) return false;
  if (p.first.attributes.has("activation")) return false;
  const ValueId y = p.first.outputs[0];
  const ValueId bias = p.second.inputs[0] == y ? p.second.inputs[1] : p.second.inputs[0];
  if (p.to[p.second.outputs[0]].type != p.to[y].type || !is_channel_bias(p.to, bias, p.to[y].type.shape)) return false;
  fused = p.first;
  fused.inputs.resize(3);
  const std::int64_t channels = p.to[y].type.shape[1];
  fused.inputs[2] =
      p.to[bias].type.shape.rank() == 1 ? bias : GraphBuilder(p.to, p.second.name, p.second.origin).reshape(bias, Shape{channels});
  return true;
}

// A product of tokens [N,T,I] is that of rows [N·T,I], reshaped: a bias along the last axis is the product's.
bool add_bias_before_reshape(const Pair& p, Node& fused) {
  if (!p.match.only(p.match.graph[p.before].inputs[0], {"InnerProduct"}).present()) return false;
  const Node product = p.to[p.to[p.first.inputs[0]].producer];
  if (product.op->name != "InnerProduct" || product.inputs.size() > 2 || product.attributes.has("activation")) return false;
  const ValueId y = p.first.outputs[0], bias = p.second.inputs[0] == y ? p.second.inputs[1] : p.second.inputs[0];
  const Shape out = p.to[y].type.shape, of = p.to[bias].type.shape;
  const std::int64_t features = p.to[product.outputs[0]].type.shape[1];
  if (p.to[p.second.outputs[0]].type != p.to[y].type || p.to[bias].kind != ValueKind::parameter) return false;
  if (out.rank() == 0 || out[out.rank() - 1] != features || of.rank() == 0 || of.elements() != features || of[of.rank() - 1] != features)
    return false;
  GraphBuilder b(p.to, p.second.name, p.second.origin);
  std::vector<ValueId> inputs = product.inputs;
  inputs.push_back(b.reshape(bias, Shape{features}));
  std::vector<std::string> origin = product.origin;
  add_origin(origin, p.second.origin);
  const NodeId id = p.to.add_node(*product.op, product.name, product.attributes, std::move(inputs), 1, origin);
  fused = p.first;
  fused.inputs[0] = p.to[id].outputs[0];
  return true;
}

bool add_relu(const Pair& p, Node& fused) {
  if (p.first.attributes.has("activation")) return false;
  fused = p.first;
  fused.attributes.set("activation", std::string("Relu"));
  return true;
}

bool add_clip(const Pair& p, Node& fused) {
  if (p.first.attributes.has("activation")) return false;
  fused = p.first;
  fused.attributes.set("activation", std::string("Clip"));
  for (const char* bound : {"min", "max"})
    if (p.second.attributes.has(bound)) fused.attributes.set(bound, p.second.attributes.real(bound));
  return true;
}

// A residual block's end: the normalized value, the other one, their Relu. Without that cuDNN has no kernel for the sum.
bool add_relu_to_normalized(const Pair& p, Node& fused) {
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
    return true;
  }
  return false;
}

// InnerProduct sums over all axes but the first: flattening before it is not needed, the weight is seen unflattened.
bool flatten_into_inner_product(const Pair& p, Node& fused) {
  const ValueId x = p.first.inputs[0], w = p.second.inputs[1];
  const Shape& from = p.to[x].type.shape;
  const Shape& flat = p.to[p.first.outputs[0]].type.shape;
  if (p.to[w].kind != ValueKind::parameter || from.rank() < 3 || flat.rank() != 2 || from[0] != flat[0] || from.rank() > 5) return false;
  Shape wide = from;
  wide[0] = p.to[w].type.shape[0];
  fused = p.second;
  fused.inputs[0] = x;
  fused.inputs[1] = GraphBuilder(p.to, p.second.name, p.second.origin).reshape(w, wide);
  return true;
}

// ... and so is transposing: the weight is seen transposed back.
bool transpose_into_inner_product(const Pair& p, Node& fused) {
  const Ints& perm = p.first.attributes.ints("perm");
  const ValueId w = p.second.inputs[1];
  if (perm[0] != 0 || p.to[w].kind != ValueKind::parameter) return false;
  fused = p.second;
  fused.inputs[0] = p.first.inputs[0];
  fused.inputs[1] = GraphBuilder(p.to, p.second.name, p.second.origin).transpose(w, inverse(perm));
  return true;
}

// What flows out of a convolution, through the Relu that made its input.
bool mask_gradient(const Pair& p, Node& fused) {
  const ValueId dx = p.first.outputs[0], y = p.second.inputs[1];
  if (p.second.inputs[0] != dx || p.first.inputs.size() > 2 || p.to[y].type != p.to[dx].type) return false;
  fused = p.first;
  fused.inputs.push_back(y);
  return true;
}

// What flows out of a fork into the normalization before it: the kernel adds it up.
bool add_up_gradients(const Pair& p, Node& fused) {
  const ValueId sum = p.first.outputs[0], a = p.first.inputs[0], b = p.first.inputs[1];
  if (p.second.inputs[1] != sum || p.second.inputs.size() > 8 || p.to[a].type != p.to[sum].type || p.to[b].type != p.to[sum].type)
    return false;
  fused = p.second;
  fused.inputs[1] = a;
  fused.inputs.resize(8);
  fused.inputs.push_back(b);
  return true;
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

Graph round(const Graph& graph, std::span<const Row> rows, const Fuses& fuses, bool& changed) {
  const Match match(graph);
  GraphCopy copy(graph);
  changed = false;
  for (const Node& node : graph.nodes) {
    bool fused_here = false;
    for (const Row& row : rows) {
      if (row.second != node.op->name || fused_here || (row.asked && !fuses)) continue;
      for (const ValueId in : node.inputs) {
        NodeId before = match.only(in, row.first);
        if (!before.present() || fused_here) continue;
        const ValueId mapped = copy.map(in);
        if (!copy.to[mapped].producer.present()) continue;
        copy.copy(node);
        const Node second = copy.to.nodes.back();
        copy.to.nodes.pop_back();
        const Node first = copy.to[copy.to[mapped].producer];
        Node fused;
        if (!row.rule({copy.to, first, second, match, before}, fused)) continue;
        if (row.asked && !offered(fuses, copy.to, fused, fused.outputs.size())) continue;
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

Graph fuse(const Graph& graph, std::span<const Row> rows, const Fuses& fuses) {
  Graph now = graph;
  for (bool changed = true; changed;) {
    now = round(now, rows, fuses, changed);
    if (changed) now = simplify(now);
  }
  return now;
}

}  // namespace

// Bias and activation into the producing node, flatten + InnerProduct; BatchNormalization + Add + Relu where that is offered. Before
// differentiation. For predictions no backend is asked.
Pass fuse_layers() {
  return {.name = "fuse_layers",
          .run = [](Graph g, PassContext& c) { return fuse(g, layer_rows, c.training() ? c.fuses : Fuses()); },
          .needs = {Property::primitive},
          .why = "a bias and an activation cost no pass over memory"};
}

// Relu's gradient into that of the convolution behind it, and the sum of two gradients into that of the normalization before a fork,
// where that is offered. After differentiation.
Pass fuse_gradients() {
  return {.name = "fuse_gradients",
          .run = [](Graph g, PassContext& c) { return fuse(g, gradient_rows, c.fuses); },
          .needs = differentiated,
          .why = "gradients are masked and added where they are written"};
}

}  // namespace tandem::pass_rows
