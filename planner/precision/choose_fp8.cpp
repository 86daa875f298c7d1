// Which products are computed in 8 bits: those of a layer's weight, forward and in both gradients. As recipes have it, the first and the
// last layer stay in 16 bits (raw data and scores want more digits; an embedding is a first layer), and so do products of two activations
// (attention). Tensor cores take sizes that are multiples of 16.
// Source: Micikevicius et al., "FP8 Formats for Deep Learning", 2022; cuBLASLt's requirements for 8-bit products.
#include <algorithm>

#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

constexpr std::int64_t multiple = 16;
constexpr std::string_view layers[] = {"Conv", "ConvTranspose", "Gather", "InnerProduct", "MatMul", "RecurrentTraining"};

bool is_weight(const Graph& graph, ValueId v) {
  while (v.present() && graph[v].producer.present()) {
    const Node& node = graph[graph[v].producer];
    if (node.op->name != "Cast" && node.op->name != "Reshape" && node.op->name != "Transpose") return false;
    v = node.inputs[0];
  }
  return v.present() && graph[v].kind == ValueKind::parameter;
}

bool is_layer(const Graph& graph, const Node& node) {
  return std::find(std::begin(layers), std::end(layers), node.op->name) != std::end(layers) &&
         std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return is_weight(graph, v); });
}

using Marks = IdVector<ValueId, bool>;

bool any_of(const Marks& marks, const std::vector<ValueId>& values) {
  return std::any_of(values.begin(), values.end(), [&](ValueId v) { return v.present() && marks[v]; });
}
void mark(Marks& marks, const std::vector<ValueId>& values) {
  for (const ValueId v : values)
    if (v.present()) marks[v] = true;
}

// What is computed from a layer's output, and what a layer reads or is computed for one.
Marks behind_layers(const Graph& graph, const std::vector<bool>& is_layer) {
  Marks behind(graph.values.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    if (is_layer[n] || any_of(behind, graph.nodes[n].inputs)) mark(behind, graph.nodes[n].outputs);
  return behind;
}
Marks before_layers(const Graph& graph, const std::vector<bool>& is_layer) {
  Marks before(graph.values.size());
  for (std::size_t n = graph.nodes.size(); n-- > 0;)
    if (is_layer[n] || any_of(before, graph.nodes[n].outputs)) mark(before, graph.nodes[n].inputs);
  return before;
}

std::string name_of(const Node& node) { return node.origin.empty() ? node.name : node.origin[0]; }

// "2 of sizes that are no multiples of 16 ('fc1', ...)"
struct Kept {
  std::string_view why;
  int count = 0;
  std::string first;
  std::string text() const { return concat(count, ' ', why, " ('", first, count > 1 ? "', ...)" : "')"); }
};

Graph choose_fp8(Graph graph, const CompileOptions& o, std::vector<std::string>& notes) {
  if (o.precision != Precision::fp8) return graph;
  std::vector<bool> layer;
  for (const Node& node : graph.nodes) layer.push_back(is_layer(graph, node));
  const Marks behind = behind_layers(graph, layer), before = before_layers(graph, layer);
  int chosen = 0;
  Kept first{"first"}, last{"last"}, odd{"of sizes that are no multiples of 16"};
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    if (node.op->name != "InnerProduct") continue;
    const Shape& w = graph[node.inputs[1]].type.shape;
    Kept* const kept = !any_of(behind, node.inputs)                                                      ? &first
                       : !any_of(before, node.outputs)                                                   ? &last
                       : w[0] % multiple != 0 || w.elements() / std::max<std::int64_t>(1, w[0]) % multiple != 0 ? &odd
                                                                                                         : nullptr;
    if (!kept) {
      node.attributes.set("fp8", std::int64_t{1});
      ++chosen;
    } else if (kept->count++ == 0) {
      kept->first = name_of(node);
    }
  }
  std::string line = concat("precision fp8 is experimental: ", chosen, chosen == 1 ? " product is" : " products are",
                            " computed in 8 bits, everything else as in bf16");
  std::string_view separator = "; of products by weights stay in bf16 ";
  for (const Kept* kept : {&first, &last, &odd})
    if (kept->count > 0) {
      line += concat(separator, kept->text());
      separator = ", ";
    }
  notes.push_back(std::move(line));
  return graph;
}

}  // namespace

// Marks the products that are computed in 8 bits where the precision has them (attribute `fp8`, which their gradients take over), and
// says which are. After mixed_precision, before differentiation.
Pass choose_fp8() {
  return {.name = "choose_fp8",
          .run = [](Graph g, PassContext& c) { return choose_fp8(std::move(g), c.options, c.warnings); },
          .needs = {Property::primitive},
          .why = "gradients take the mark over"};
}

}  // namespace tandem::pass_rows
