// Random streams: what tells a node's random numbers from all others'.
#pragma once
#include "graph/operators/rules.h"

namespace tandem {

// From the node's name and `part`, where it draws several times, so that it does not depend on the batch size or on the order of
// passes; no other node of the graph has it.
std::int64_t random_stream(ExpandContext& e, std::string_view part = {});

// The graph input that tells seed, step and first sample (docs/internal-operators.md).
ValueId random_state(ExpandContext& e);

}  // namespace tandem
