// The products that choose_fp8 marked, and their gradients, take operands of 8 bits: values and weights in E4M3, gradients in E5M2, each
// rounded once, however many products read it, and laid out so that every product sums along rows (ProductFp8). The scales are state of the
// run:
// a row for each tensor that is rounded, by its largest magnitudes in the last steps. Before products are fused with what has no form in 8
// bits.
#include <map>

#include "graph/fp8.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

constexpr const char* state_name = "tandem.fp8";
constexpr std::int64_t margin = 0;  // powers of two that scales stay below what the history allows

class Quantizing {
 public:
  explicit Quantizing(const Graph& graph, bool several) : graph_(graph), copy_(graph), several_(several) {
    for (const Node& node : graph.nodes) note(node);
  }

  Graph run() {
    if (tensors_.empty()) return graph_;
    const Shape shape{static_cast<std::int64_t>(tensors_.size()), Fp8Row::count};
    state_ = copy_.to.add_value({.name = state_name,
                                 .type = {DType::float32, shape},
                                 .kind = ValueKind::parameter,
                                 .role = ValueRole::optimizer_state,
                                 .template_shape = shape});
    for (const Node& node : graph_.nodes) {
      if (!is_marked(node))
        copy_.copy(node);
      else if (node.op->name == "InnerProduct")
        forward(node);
      else if (node.op->name == "InnerProductBackwardData")
        backward_data(node);
      else
        backward_weights(node);
    }
    update();
    return copy_.finish();
  }

 private:
  struct Tensor {
    bool transposed = false;  // is wanted, too
    std::int64_t slot = 0;
    std::vector<ValueId> outputs{};  // of QuantizeFp8, once it is there
  };
  static bool is_marked(const Node& node) { return node.attributes.has("fp8") && node.op->name.starts_with("InnerProduct"); }

  void note(const Node& node) {
    if (!is_marked(node)) return;
    const bool data = node.op->name == "InnerProductBackwardData", weights = node.op->name == "InnerProductBackwardWeights";
    note(node.inputs[0], data ? gradients : values, weights);
    note(node.inputs[1], weights ? gradients : values, data || weights);
  }
  void note(ValueId v, DType type, bool transposed) {
    Tensor& t = tensors_.try_emplace({v, type}, Tensor{.slot = static_cast<std::int64_t>(tensors_.size())}).first->second;
    t.transposed = t.transposed || transposed;
  }

  // The value, with all axes but the first as one.
  ValueId rows(GraphBuilder& b, ValueId v) {
    const Shape shape = b.shape(v);
    return b.reshape(v, {shape[0], shape.elements() / std::max<std::int64_t>(1, shape[0])});
  }

  const Tensor& quantized(ValueId old, DType type) {
    Tensor& t = tensors_.at({old, type});
    if (!t.outputs.empty()) return t;
    GraphBuilder b(copy_.to, concat("fp8/", graph_[old].name),
                   graph_[old].producer.present() ? graph_[graph_[old].producer].origin : std::vector<std::string>{});
    t.outputs = b.emit("QuantizeFp8", {rows(b, copy_.map(old)), state_}, {{"to", static_cast<std::int64_t>(type)}, {"slot", t.slot}},
                       t.transposed ? 4 : 3);
    return t;
  }

  // Sums may be taken in fewer bits where `fast`: of values, not of gradients.
  ValueId product(const Node& node, const Tensor& a, bool a_transposed, const Tensor& w, bool w_transposed, ValueId bias, bool fast) {
    const auto side = [](const Tensor& t, bool transposed) { return t.outputs[transposed ? 3 : 0]; };
    std::vector<ValueId> inputs{side(a, a_transposed), side(w, w_transposed), a.outputs[1], w.outputs[1]};
    if (bias.present()) inputs.push_back(bias);
    Attributes attributes{{"fast", std::int64_t{fast}}};
    if (node.attributes.has("activation")) attributes.set("activation", node.attributes.text("activation"));
    return GraphBuilder(copy_.to, node.name, node.origin).emit("ProductFp8", std::move(inputs), std::move(attributes));
  }

  void forward(const Node& node) {
    const ValueId bias = node.inputs.size() > 2 ? copy_.map(node.inputs[2]) : ValueId{};
    const ValueId y = product(node, quantized(node.inputs[0], values), false, quantized(node.inputs[1], values), false, bias, true);
    copy_.replace(node, std::span(&y, 1));
  }
  void backward_data(const Node& node) {
    const ValueId dx =
        in_shape(node, product(node, quantized(node.inputs[0], gradients), false, quantized(node.inputs[1], values), true, {}, false));
    copy_.replace(node, std::span(&dx, 1));
  }
  void backward_weights(const Node& node) {
    std::vector<ValueId> given{
        in_shape(node, product(node, quantized(node.inputs[1], gradients), true, quantized(node.inputs[0], values), true, {}, false))};
    if (node.outputs.size() > 1)
      given.push_back(GraphBuilder(copy_.to, node.name, node.origin).reduce_sum(copy_.map(node.inputs[1]), {0}, false));
    copy_.replace(node, given);
  }
  ValueId in_shape(const Node& node, ValueId v) {
    return GraphBuilder(copy_.to, node.name, node.origin).reshape(v, graph_[node.outputs[0]].type.shape);
  }

  // On several devices each has seen its part of a tensor: they agree on the largest.
  void update() {
    std::vector<ValueId> inputs(tensors_.size() + 1);
    Ints types(tensors_.size());
    inputs[0] = state_;
    GraphBuilder b(copy_.to, "fp8", {});
    for (const auto& [key, t] : tensors_) {
      const auto slot = static_cast<std::size_t>(t.slot);
      inputs[slot + 1] = several_ ? b.emit("AllReduce", {t.outputs[2]}, {{"max", std::int64_t{1}}}) : t.outputs[2];
      types[slot] = static_cast<std::int64_t>(key.second);
    }
    b.emit("Fp8ScaleUpdate", std::move(inputs), {{"to", std::move(types)}, {"margin", margin}});
  }

  static constexpr DType values = DType::float8e4m3fn, gradients = DType::float8e5m2;
  const Graph& graph_;
  GraphCopy copy_;
  const bool several_;
  ValueId state_;
  std::map<std::pair<ValueId, DType>, Tensor> tensors_;  // by value of the old graph
};

Graph quantize_products(const Graph& graph, const PassContext& c) {
  if (c.options.precision != Precision::fp8) return graph;
  if (c.placement && (c.placement->groups.size() > 1 || (!c.placement->groups.empty() && c.placement->groups[0].axes.size() > 1)))
    fail(ExitCode::usage, "precision fp8 with a placement on several groups or along several axes: expected one group along one axis");
  return Quantizing(graph, c.placed()).run();
}

}  // namespace

// What is marked becomes ProductFp8 of rounded operands, whose scales are state of the run, updated once a step; several devices agree on
// them. After differentiation. Fails (usage) where devices are placed otherwise than in a row.
Pass quantize_products() {
  return {.name = "quantize_products",
          .run = [](Graph g, PassContext& c) { return quantize_products(g, c); },
          .needs = differentiated,
          .why = "products in 8 bits need scales of their operands",
          .required = "no kernel computes what choose_fp8 has marked, which can be left out"};
}

}  // namespace tandem::pass_rows
