// Which parameters are split, where it was asked that it be found out.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "planner/options.h"

namespace tandem {

using ChosenParts = std::map<ValueId, Part>;  // by parameter, or by what is known (is_known)

// Whether it is a parameter of the template: no state of the optimizer, no copy.
inline bool is_of_template(const Value& v) {
  return v.kind == ValueKind::parameter && v.role == ValueRole::plain;
}

// Tensor parallelism. A layer's weight is split by its results (columns), and so is all that is computed of them by parts; the layers
// that read those are split by what they sum over (rows), so that the block ends in one sum. The operators' rules say what is computed
// by parts: a block is taken where they need nothing gathered, neither forward nor backward. `mesh` is the axis that layers are split
// over. `whole` gets a line for each weight that could begin a block and stays whole, with the reason.
// Source: Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism", 2019.
ChosenParts parts_of_layers(const Graph& graph, const MeshAxis& mesh, std::vector<std::string>& whole);

// The same where it was said which parameters are split, and how: of weights that are known, as quantized ones are, those that can be
// split with them. Returns the parameters' parts, too.
ChosenParts parts_of_known(const Graph& graph, const MeshAxis& mesh, ChosenParts parameters);

// ZeRO: every parameter that is trained is split over the replicas, along the first of its axes that gives each of them something. With
// `frozen`, and where none is trained, so are those that nothing changes; others stay whole. Of `layers`, which lie in so many parts on
// the devices of a replica, the replicas share out the parts. A parameter of which the optimizer needs all is whole on one replica;
// replicas have about as much of these each.
// Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020.
ChosenParts parts_of_parameters(const Graph& graph, const MeshAxis& mesh, const ChosenParts& layers, std::int64_t layers_parts,
                                const OptimizerOptions& optimizer, bool frozen);

// Every parameter that is trained and has an axis lies whole on the device at one of these positions of the mesh, and the others have
// nothing of it. Homes have about as much each.
ChosenParts parameters_at_home(const Graph& graph, const MeshAxis& mesh, std::span<const std::size_t> homes);

}  // namespace tandem
