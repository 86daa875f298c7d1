// Random streams: what tells a node's random numbers from all others'.
#pragma once
#include "graph/operators/rules.h"

namespace tandem {

// From the node's name and `part`, where it draws several times, so that it does not depend on the batch size or on the order of
// passes; no other node of the graph has it.
std::int64_t random_stream(ExpandContext& e, std::string_view part = {});

// The graph input that tells seed, step and first sample (docs/internal-operators.md).
ValueId random_state(ExpandContext& e);

// What is drawn in `drawn` is counted by sample: sets the attributes axis, outer and inner, and appends the operand that says on several
// devices how the samples are split. Nothing where there are no samples: then all devices draw the same.
void count_by_sample(ExpandContext& e, const Shape& drawn, Attributes& attributes, std::vector<ValueId>& inputs);
void check_samples(InferContext& c, const Shape& drawn);  // those attributes
BatchPlace samples_of(const Attributes& attributes);      // and where they say that the samples lie

}  // namespace tandem
