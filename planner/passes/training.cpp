// The passes that make a training graph of a model: forward, loss, backward, updates.
#include "planner/passes/pass.h"
#include "planner/passes/passes.h"

namespace tandem {
namespace {

Graph simplified(Graph g, PassContext&) { return simplify(g); }
constexpr unsigned with_gradients = Property::primitive | Property::loss | Property::gradients;

// All that the loss sees of the model.
Graph keep_logits(Graph graph, const CompileOptions& o) {
  const std::vector<ValueId> logits = logits_of(graph, o);
  graph.outputs.assign(logits.begin(), logits.end());
  return graph;
}

Graph with_loss(Graph graph, const PassContext& c) {
  attach_loss(graph, c.losses, c.samples, c.options, c.options.accuracy);
  return graph;
}

constexpr Pass passes[] = {
    {"give_bytes", [](Graph g, PassContext& c) { return give_bytes(g, c.options); }, 0, 0, 0, [](const PassContext& c) { return !c.options.given_bytes.empty(); }},
    {"freeze", [](Graph g, PassContext& c) { return freeze(g, c.options, c.warnings); }},
    {"keep_logits", [](Graph g, PassContext& c) { return keep_logits(std::move(g), c.options); }},
    {"expand_dialects", [](Graph g, PassContext&) { return expand_dialects(g, true); }},
    {"match_activations", [](Graph g, PassContext&) { return match_activations(g); }},
    {"match_normalization", [](Graph g, PassContext& c) { return match_normalization(g, c.fuses); }},
    {"match_recurrent", [](Graph g, PassContext& c) { return match_recurrent(g, c.fuses, true); }},
    {"match_group_normalization", [](Graph g, PassContext& c) { return match_group_normalization(g, c.fuses); }},
    {"expand", [](Graph g, PassContext&) { return expand(g, true); }, 0, +Property::primitive},
    {"synchronize_batch_norm", [](Graph g, PassContext& c) { return synchronize_batch_norm(g, c.samples, c.options.batch); }, +Property::primitive, 0, 0,
     [](const PassContext& c) { return c.synchronized(); }},
    {"simplify", simplified, 0, 0, +Property::primitive},  // what was a view of a parameter is a parameter, by which products go
    {"expand_again", [](Graph g, PassContext&) { return expand_again(std::move(g), true); }, 0, +Property::primitive},
    {"match_straight_through", [](Graph g, PassContext& c) { return match_straight_through(g, c.warnings); }, +Property::primitive},
    {"match_attention", [](Graph g, PassContext& c) { return match_attention(g, c.fuses, true); }, +Property::primitive},
    {"pool_before_relu", [](Graph g, PassContext&) { return pool_before_relu(g); }},
    {"simplify", simplified},
    {"fuse_layers", [](Graph g, PassContext& c) { return fuse_layers(g, c.fuses); }, +Property::primitive},
    {"attach_loss", [](Graph g, PassContext& c) { return with_loss(std::move(g), c); }, +Property::primitive, +Property::loss},
    {"simplify", simplified},
    {"mixed_precision", [](Graph g, PassContext& c) { return mixed_precision(g, c.options.precision); }, +Property::primitive},
    {"choose_fp8", [](Graph g, PassContext& c) { return choose_fp8(std::move(g), c.options, c.warnings); }, +Property::primitive},
    {"sum_channels", [](Graph g, PassContext& c) { return sum_channels(g, c.fuses); }, +Property::primitive},
    {"add_gradients", [](Graph g, PassContext& c) { return add_gradients(std::move(g), c.options, c.warnings); }, Property::primitive | Property::loss, +Property::gradients},
    {"drop_straight_through", [](Graph g, PassContext&) { return drop_straight_through(g); }, with_gradients},
    {"simplify", simplified},
    {"fuse_gradients", [](Graph g, PassContext& c) { return fuse_gradients(g, c.fuses); }, with_gradients},
    {"quantize_products", [](Graph g, PassContext& c) { return quantize_products(g, c.options, c.placed()); }, with_gradients},
    {"fuse_activations", [](Graph g, PassContext& c) { return fuse_activations(g, c.fuses); }, with_gradients},
    {"normalize_in_convolutions", [](Graph g, PassContext& c) { return normalize_in_convolutions(g, c.fuses); }, with_gradients},
    {"fold_casts", [](Graph g, PassContext& c) { return fold_casts(g, c.fuses); }, with_gradients},
    {"keep_gradients", [](Graph g, PassContext& c) { return keep_gradients(std::move(g), c.options); }, with_gradients},
    {"place", [](Graph g, PassContext& c) { return place(std::move(g), *c.placement, c.warnings); }, with_gradients, +Property::whole, 0,
     [](const PassContext& c) { return c.placed(); }},
    {"forget_samples", [](Graph g, PassContext&) { return forget_samples(std::move(g)); }, with_gradients},
    {"narrow_updates", [](Graph g, PassContext& c) { return narrow_updates(std::move(g), c.options.optimizer, c.fuses); }, with_gradients},
    {"append_updates", [](Graph g, PassContext& c) { return append_updates(std::move(g), c.options, &c.warnings); }, with_gradients, +Property::updated, +Property::gradients},
    {"fuse_elementwise", [](Graph g, PassContext&) { return fuse_elementwise(g); }, +Property::updated},
    {"bucket_sums", [](Graph g, PassContext& c) { return bucket_sums(std::move(g), c.options); }, Property::updated | Property::whole, 0, 0,
     [](const PassContext& c) { return c.placed(); }},
    {"running_variances", [](Graph g, PassContext& c) { return running_variances(g, c.fuses); }, +Property::updated},
    {"group_updates", [](Graph g, PassContext& c) { return group_updates(std::move(g), c.fuses); }, +Property::updated},
};

}  // namespace

std::span<const Pass> training_passes() { return passes; }

}  // namespace tandem
