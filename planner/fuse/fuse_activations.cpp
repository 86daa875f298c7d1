// An activation behind a product, and an activation's gradient behind the product that what flows in comes from: one node each, where
// that is offered. The activation's operand, which its gradient wants, is then the product's second output.
#include <algorithm>
#include <map>

#include "graph/operator.h"
#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"
#include "planner/rewrite/simplify.h"

namespace tandem::pass_rows {
namespace {

struct Activation {
  std::string_view op, gradient;
};
constexpr Activation activations[] = {{"GeluErf", "GeluErfBackward"}, {"GeluTanh", "GeluTanhBackward"}, {"Relu", "ReluBackward"}};

const Activation* find(std::string_view op, std::string_view Activation::*role) {
  const auto row = std::find_if(std::begin(activations), std::end(activations), [&](const Activation& a) { return a.*role == op; });
  return row != std::end(activations) ? row : nullptr;
}

class Fusing {
 public:
  Fusing(const Graph& graph, const PassContext& context)
      : graph_(graph),
        copy_(graph),
        context_(context),
        readers_(graph.consumers()),
        is_output_(graph.values.size()),
        behind_(graph.nodes.size()) {
    for (const GraphOutput& out : graph.outputs) is_output_[out] = true;
  }

  Graph run() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) find_product_of({static_cast<int>(n)});
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (!forward({static_cast<int>(n)}) && !backward(node)) copy_.copy(node);
    }
    return simplify(copy_.finish());
  }

 private:
  // What a value is but for its shape.
  ValueId through(ValueId v) const {
    while (const Node* const view = made_by(graph_, v, "Reshape")) v = view->inputs[0];
    return v;
  }
  static std::string_view why_not(const Node& product) {
    if (product.attributes.has("fp8")) return "products of 8-bit operands have no form with an activation";
    return product.attributes.has("activation") || product.outputs.size() > 1 ? "the product has another activation already" : "";
  }
  bool read_once(ValueId v) const { return readers_[v].size() == 1 && !is_output_[v]; }

  // A program of elementwise nodes computes the activation with what follows it: to write it apart would cost more.
  bool joins_a_program(const Node& activation) const {
    const ValueId y = activation.outputs[0];
    if (!read_once(y)) return false;
    const Node& reader = graph_[readers_[y][0]];
    return reader.op->elementwise && graph_[reader.outputs[0]].type.dtype == graph_[y].type.dtype;
  }

  void find_product_of(NodeId n) {
    const Node& node = graph_[n];
    if (node.op->name == "Relu" || !find(node.op->name, &Activation::op) || joins_a_program(node)) return;  // Relu is the layer's already
    const ValueId x = through(node.inputs[0]);
    const Node* const product = made_by(graph_, x, "InnerProduct");
    if (!product) return;
    if (const std::string_view why =
            behind_[graph_[x].producer].present() ? "the product has another activation already" : why_not(*product);
        why.empty())
      behind_[graph_[x].producer] = n;
    else
      context_.not_fused(*product, node, std::string(why));
  }

  bool read_beside(ValueId v, NodeId activation) const {
    if (is_output_[v]) return true;
    return std::any_of(readers_[v].begin(), readers_[v].end(), [&](NodeId n) {
      return n != activation && (graph_[n].op->name != "Reshape" || read_beside(graph_[n].outputs[0], activation));
    });
  }

  // The product with the activation; the activation's own node is then a view of its output.
  bool forward(NodeId n) {
    const Node& node = graph_[n];
    if (const auto found = done_.find(n); found != done_.end()) {
      const ValueId y = GraphBuilder(copy_.to, node.name, node.origin).reshape(found->second, graph_[node.outputs[0]].type.shape);
      const ValueId now[] = {y};
      copy_.replace(node, now);
      return true;
    }
    if (!behind_[n].present()) return false;
    const Node& activation = graph_[behind_[n]];
    Node product = copy_.mapped(node);
    product.attributes.set("activation", std::string(activation.op->name));
    const bool kept = read_beside(node.outputs[0], behind_[n]);
    if (!offered(context_.fuses, copy_.to, product, kept ? 2 : 1)) {
      context_.not_fused(node, activation, std::string(not_offered));
      return false;
    }
    std::vector<std::string> origin = node.origin;
    add_origin(origin, activation.origin);
    const NodeId id = copy_.to.add_node(*product.op, product.name, product.attributes, product.inputs, kept ? 2 : 1, origin);
    const ValueId y = copy_.to[id].outputs[0];
    if (kept) copy_.set(node.outputs[0], copy_.to[id].outputs[1]);
    done_[behind_[n]] = y;
    return true;
  }

  bool backward(const Node& node) {
    const Activation* const activation = find(node.op->name, &Activation::gradient);
    if (!activation) return false;
    ValueId dy = node.inputs[0];
    for (; read_once(dy) && dy != through(dy); dy = graph_[graph_[dy].producer].inputs[0]) {
    }
    const Node* const product = made_by(graph_, dy, "InnerProductBackwardData");
    if (!product) return false;
    const auto miss = [&](std::string why) {
      context_.not_fused(*product, node, std::move(why));
      return false;
    };
    if (const std::string_view why = why_not(*product); !why.empty()) return miss(std::string(why));
    if (!read_once(dy)) return miss("the result of the first has other readers, too");
    if (product->inputs.size() > 2 || graph_[dy].type.dtype != graph_[node.outputs[0]].type.dtype ||
        graph_[node.inputs[1]].type != graph_[node.outputs[0]].type)
      return miss("their values are of different types or shapes");
    Node fused = copy_.mapped(*product);
    fused.attributes.set("activation", std::string(activation->op));
    GraphBuilder b(copy_.to, node.name, node.origin);
    fused.inputs.push_back(b.reshape(copy_.map(node.inputs[1]), graph_[dy].type.shape));
    if (!offered(context_.fuses, copy_.to, fused, 1)) return miss(std::string(not_offered));
    add_origin(fused.origin, node.origin);
    const NodeId id = copy_.to.add_node(*fused.op, fused.name, fused.attributes, fused.inputs, 1, fused.origin);
    const ValueId now[] = {b.reshape(copy_.to[id].outputs[0], graph_[node.outputs[0]].type.shape)};
    copy_.replace(node, now);
    return true;
  }

  const Graph& graph_;
  GraphCopy copy_;
  const PassContext& context_;
  IdVector<ValueId, std::vector<NodeId>> readers_;
  IdVector<ValueId, bool> is_output_;
  IdVector<NodeId, NodeId> behind_;       // of a product: the activation that becomes part of it
  std::map<NodeId, ValueId> done_;        // of an activation: what the product with it writes
};

}  // namespace

// Gelu behind a product, and Gelu's and Relu's gradients behind the product that they are of, into that product, where that is offered.
// After differentiation, in training.
Pass fuse_activations() {
  return {.name = "fuse_activations",
          .run = [](Graph g, PassContext& c) { return c.fuses ? Fusing(g, c).run() : std::move(g); },
          .needs = differentiated,
          .why = "an activation costs no pass over the product's result"};
}

}  // namespace tandem::pass_rows
