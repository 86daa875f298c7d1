// Dropout of what is added in front of a normalization of rows, and of the gradient that comes back to it: the kernels draw where they read
// and write it, and no pass over memory is left for it. What is computed is the same to the bit.
#include "graph/operator.h"
#include "kernels/sample_runs.h"
#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

constexpr std::size_t addend = 3, random = 4, random_of_gradient = 7, gradient_copy = 3;

class DropoutFusing {
 public:
  DropoutFusing(const Graph& graph, const PassContext& context)
      : graph_(graph), copy_(graph), context_(context), readers_(graph.consumers()), is_output_(graph.values.size()) {
    for (const GraphOutput& out : graph.outputs) is_output_[out] = true;
  }

  Graph run() {
    for (const Node& node : graph_.nodes) {
      if (node.op->name == "RowNormalization" && drops_addend(node)) continue;
      if (node.op->name == "RowNormalizationBackward" && drops_gradient(node)) continue;
      if (node.outputs.size() == 1 && dropped_[node.outputs[0]].present()) {
        const ValueId now[] = {dropped_[node.outputs[0]]};
        copy_.replace(node, now);
      } else {
        copy_.copy(node);
      }
    }
    Graph graph = copy_.finish();
    drop_unread(graph);
    return graph;
  }

 private:
  bool read_once(ValueId v) const { return readers_[v].size() == 1 && !is_output_[v]; }

  // The normalization that drops as `dropout` does; none where its samples do not lie one behind the other.
  std::optional<Node> with_rule(const Node& node, const Node& dropout, std::size_t at) {
    const SampleRuns runs(dropout.attributes, graph_[dropout.inputs[0]].type.shape);
    if (!runs.consecutive()) return std::nullopt;
    Node drops = copy_.mapped(node);
    for (const char* const name : {"ratio", "layer"})
      if (const AttributeValue* const value = dropout.attributes.find(name)) drops.attributes.set(name, *value);
    if (runs.counted) drops.attributes.set("sample", runs.sample());
    drops.inputs.resize(at + 1);
    drops.inputs[at] = copy_.map(dropout.inputs[1]);
    add_origin(drops.origin, dropout.origin);
    return drops;
  }
  bool is_offered(const Node& node, const Node& dropout, const Node& drops, std::size_t outputs) const {
    if (offered(context_.fuses, copy_.to, drops, outputs)) return true;
    context_.not_fused(node, dropout, std::string(not_offered));
    return false;
  }

  bool drops_addend(const Node& node) {
    if (node.inputs.size() != addend + 1 || !read_once(node.inputs[addend])) return false;
    const Node* const dropout = made_by(graph_, node.inputs[addend], "DropoutTraining");
    std::optional<Node> drops = dropout ? with_rule(node, *dropout, random) : std::nullopt;
    if (!drops) return false;
    drops->inputs[addend] = copy_.map(dropout->inputs[0]);
    if (!is_offered(node, *dropout, *drops, node.outputs.size())) return false;
    copy_.copy(*drops, std::vector<ValueId>(drops->inputs), node.outputs.size());
    return true;
  }

  // The dropout that alone reads dx in 16 bits, or is one of dx's readers.
  const Node* dropout_of(const Node& node) const {
    const bool copied = node.outputs.size() > gradient_copy;
    const ValueId dx = node.outputs[copied ? gradient_copy : 0];
    if (copied && !read_once(dx)) return nullptr;
    for (const NodeId n : readers_[dx])
      if (graph_[n].op->name == "DropoutTraining" && graph_[n].inputs[0] == dx) return &graph_[n];
    return nullptr;
  }

  bool drops_gradient(const Node& node) {
    if (node.outputs.size() < 2 || node.inputs.size() > random_of_gradient) return false;
    const Node* const dropout = dropout_of(node);
    std::optional<Node> drops = dropout ? with_rule(node, *dropout, random_of_gradient) : std::nullopt;
    if (!drops) return false;
    drops->attributes.set("copy", static_cast<std::int64_t>(graph_[dropout->outputs[0]].type.dtype));
    if (!is_offered(node, *dropout, *drops, gradient_copy + 1)) return false;
    const NodeId id = copy_.copy(*drops, std::vector<ValueId>(drops->inputs), gradient_copy + 1);
    const ValueId now = copy_.to[id].outputs[gradient_copy];
    copy_.lies_as(now, dropout->outputs[0]);
    dropped_[dropout->outputs[0]] = now;
    return true;
  }

  const Graph& graph_;
  GraphCopy copy_;
  const PassContext& context_;
  IdVector<ValueId, std::vector<NodeId>> readers_;
  IdVector<ValueId, bool> is_output_;
  IdVector<ValueId, ValueId> dropped_ = IdVector<ValueId, ValueId>(graph_.values.size());  // of a dropout's result what now stands for it
};

}  // namespace

// Dropout joins the normalization of rows behind it, and its gradient the normalization's, where that is offered. After forget_samples.
Pass fuse_dropouts() {
  return {.name = "fuse_dropouts",
          .run = [](Graph g, PassContext& c) { return c.fuses ? DropoutFusing(g, c).run() : std::move(g); },
          .needs = differentiated,
          .why = "what is dropped is read and written once less"};
}

}  // namespace tandem::pass_rows
