// The passes that make a graph for predictions of a model.
#include "planner/passes/pass.h"
#include "planner/passes/passes.h"

namespace tandem {
namespace {

constexpr Pass passes[] = {
    {"drop_straight_through", [](Graph g, PassContext&) { return drop_straight_through(g); }},
    {"give_bytes", [](Graph g, PassContext& c) { return give_bytes(g, c.options); }, 0, 0, 0, [](const PassContext& c) { return !c.options.given_bytes.empty(); }},
    {"expand_dialects", [](Graph g, PassContext&) { return expand_dialects(g, false); }},
    {"match_activations", [](Graph g, PassContext&) { return match_activations(g); }},
    {"match_normalization", [](Graph g, PassContext& c) { return match_normalization(g, c.fuses); }},
    {"match_recurrent", [](Graph g, PassContext& c) { return match_recurrent(g, c.fuses, false); }},
    {"match_group_normalization", [](Graph g, PassContext& c) { return match_group_normalization(g, c.fuses); }},
    {"expand", [](Graph g, PassContext&) { return expand(g, false); }, 0, +Property::primitive},
    {"drop_straight_through_of_parts", [](Graph g, PassContext&) { return drop_straight_through(g); }, +Property::primitive},  // quantizers'
    {"simplify", [](Graph g, PassContext&) { return simplify(g); }, 0, 0, +Property::primitive},  // what was a view of a parameter is a parameter
    {"expand_again", [](Graph g, PassContext&) { return expand_again(std::move(g), false); }, 0, +Property::primitive},
    {"match_attention", [](Graph g, PassContext& c) { return match_attention(g, c.fuses, false); }, +Property::primitive},
    {"fuse_layers", [](Graph g, PassContext&) { return fuse_layers(g); }, +Property::primitive},
    {"mixed_precision", [](Graph g, PassContext& c) { return mixed_precision(g, c.options.precision); }, +Property::primitive},
    {"fold_casts", [](Graph g, PassContext& c) { return fold_casts(g, c.fuses); }, +Property::primitive},
    {"fuse_activations", [](Graph g, PassContext& c) { return fuse_activations(g, c.fuses); }, +Property::primitive},
    {"place", [](Graph g, PassContext& c) { return place(std::move(g), *c.placement, c.warnings); }, +Property::primitive, 0, 0,
     [](const PassContext& c) { return c.placed(); }},
    {"forget_samples", [](Graph g, PassContext&) { return forget_samples(std::move(g)); }, +Property::primitive},
    {"fuse_elementwise", [](Graph g, PassContext&) { return fuse_elementwise(g); }, +Property::primitive},
    {"keep_parameters", [](Graph g, PassContext& c) { return keep_parameters(g, *c.parameters_of); }, +Property::primitive, 0, 0,
     [](const PassContext& c) { return c.parameters_of != nullptr; }},
};

}  // namespace

std::span<const Pass> inference_passes() { return passes; }

}  // namespace tandem
