// Writes BatchNormalizationTraining out as its formula, with the two sums behind mean and variance taken over all devices, so
// that every device normalizes by the statistics of the whole batch.
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

// With n the elements of a channel over all devices:
//   mean = AllReduce(sum x) / n,  variance = AllReduce(sum (x - mean)^2) / n,
//   y = (x - mean) / sqrt(variance + epsilon) * scale + bias
Graph synchronize_batch_norm(const Graph& graph, std::int64_t samples, std::int64_t batch) {
  GraphCopy copy(graph);
  for (const Node& node : graph.nodes) {
    if (node.op->name != "BatchNormalizationTraining") {
      copy.copy(node);
      continue;
    }
    const Node n = copy.mapped(node);
    GraphBuilder b(copy.to, node.name, node.origin);
    const Shape shape = b.shape(n.inputs[0]);
    Shape channel = shape;
    Ints axes;
    for (int i = 0; i < shape.rank(); ++i)
      if (i != 1) {
        axes.push_back(i);
        channel[i] = 1;
      }
    const double count =
        static_cast<double>(shape.elements()) / static_cast<double>(shape[1]) / static_cast<double>(samples) * static_cast<double>(batch);
    const auto mean_of = [&](ValueId x) { return b.mul(b.emit("AllReduce", {b.reduce_sum(x, axes, true)}), 1 / count); };
    const ValueId mean = mean_of(n.inputs[0]);
    const ValueId centered = b.sub(n.inputs[0], mean);
    const ValueId variance = mean_of(b.mul(centered, centered));
    const ValueId inverse = b.emit("Reciprocal", {b.emit("Sqrt", {b.add(variance, node.attributes.real("epsilon", 1e-5F))})});
    const ValueId scale = b.mul(inverse, b.reshape(n.inputs[1], channel));
    const ValueId y = b.add(b.mul(centered, scale), b.reshape(n.inputs[2], channel));
    const ValueId outputs[] = {y, b.reshape(mean, Shape{shape[1]}), b.reshape(variance, Shape{shape[1]})};
    copy.replace(node, outputs);
  }
  return copy.finish();
}

}  // namespace

Pass synchronize_batch_norm() {
  return {.name = "synchronize_batch_norm",
          .run = [](Graph g, PassContext& c) { return synchronize_batch_norm(g, c.samples, c.options.batch); },
          .needs = {Property::primitive},
          .when = [](const PassContext& c) { return c.synchronized(); },
          .why = "every device normalizes by the statistics of the whole batch",
          .required = "each device would normalize by its own samples"};
}

}  // namespace tandem::pass_rows
