#include "planner/hash_of_request.h"

#include "base/hash.h"
#include "planner/check_options.h"
#include "planner/loss/external_loss.h"
#include "planner/loss/labels.h"
#include "planner/passes/run_passes.h"

namespace tandem {
namespace {

// print() leaves out what large tensors hold.
void add_values(Hash& hash, const Graph& graph) {
  for (const Value& value : graph.values)
    if (value.kind == ValueKind::constant) hash.add(value.data->bytes());
  for (const Node& node : graph.nodes)
    for (const auto& [name, attribute] : node.attributes)
      if (const auto* tensor = std::get_if<Tensor>(&attribute)) hash.add(tensor->bytes());
}

// Of one device, which says nothing.
CompileOptions without_devices(CompileOptions o) {
  o.devices = {DeviceSpec{}};
  o.parallel = {.micro_batches = o.parallel.micro_batches};
  o.configuration.reset();
  o.placement.reset();
  o.passes = {.without = o.passes.without};
  return o;
}

}  // namespace

std::string hash_of_request(const GraphSource& source, const CompileOptions& asked) {
  const CompileOptions o = without_devices(of_micro_batch(asked));
  const bool training = o.mode == PlanMode::training;
  const Losses losses = training && !has_external_loss(o) ? losses_of(source, o) : Losses();
  PassContext context{.options = o, .samples = o.batch, .losses = training ? &losses : nullptr};
  const Graph graph = run_passes(passes_of(o.mode), source(o.batch), context);
  Hash hash;
  hash.add(print(graph));
  add_values(hash, graph);
  return hash.text();
}

}  // namespace tandem
