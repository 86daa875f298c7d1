// Averages of running statistics, beside those of the weights: whoever takes an average of the weights wants the statistics that
// go with it, as torch.optim.swa_utils.AveragedModel(use_buffers=True) and timm's ModelEmaV2 have them.
#include <cstddef>

#include "graph/operator.h"
#include "graph/step_scalars.h"
#include "graph/updates.h"
#include "planner/update/gradient_parts.h"
#include "planner/update/optimizer.h"

namespace tandem {

// From what the node of a running statistic reads, not from what it gives: updates stand last. Skipped steps leave the average. Of the
// micro-batches of a step the last one moves it, by the last of step_shares.
void average_statistics(Graph& graph, const StepScalarsOf& by_group) {
  ValueId shares;
  for (const ValueId in : graph.inputs)
    if (graph[in].role == ValueRole::step_state && graph[in].of == step_shares) shares = in;
  for (std::size_t n = 0, count = graph.nodes.size(); n < count; ++n) {
    if (!graph.nodes[n].op->keeps_statistic) continue;
    const ValueId running = graph.nodes[n].inputs[0], batch = graph.nodes[n].inputs[1], scalars = by_group.of(running);
    const double momentum = static_cast<double>(graph.nodes[n].attributes.real("momentum"));
    const Value statistic = graph[running];
    Value v{.name = concat(average_state, '/', statistic.name),
            .type = statistic.type,
            .kind = ValueKind::parameter,
            .role = ValueRole::optimizer_state,
            .of = statistic.name};
    v.source = statistic.source;
    v.template_shape = statistic.template_shape;
    v.placement = statistic.placement;
    const ValueId average = graph.add_value(std::move(v));
    GraphBuilder b(graph, concat("average/", statistic.name), {});
    const auto wide = [&](ValueId value) {
      return b.type(value).dtype == statistic.type.dtype
                 ? value
                 : b.emit("Cast", {value}, {{"to", static_cast<std::int64_t>(statistic.type.dtype)}});
    };
    const auto number = [&](ValueId of, std::int64_t at) {
      return b.reshape(b.emit("Slice", {of}, {{"starts", Ints{at}}, {"ends", Ints{at + 1}}, {"axes", Ints{0}}, {"steps", Ints{1}}}),
                       Shape{});
    };
    ValueId share = number(scalars, static_cast<std::int64_t>(offsetof(StepScalars, average) / sizeof(float)));
    if (shares.present()) share = b.mul(share, number(shares, graph[shares].type.shape[0] - 1));
    share = wide(share);
    const ValueId now = b.add(b.mul(running, momentum), b.mul(wide(batch), statistic_share(graph.nodes[n].attributes, 0)));
    const ValueId moved = b.add(average, b.mul(b.emit("Sub", {now, average}), share));
    graph.add_node(internal_operator("AssignUpdate"), concat("update/", graph[average].name), {{"tensors", std::int64_t{1}}},
                   {scalars, average, moved}, 1);
  }
}

}  // namespace tandem
