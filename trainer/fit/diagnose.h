// Why a training step gave values that are not finite.
#pragma once
#include "planner/compile.h"
#include "planner/loss/labels.h"
#include "runtime/session.h"
#include "trainer/feed/feed.h"

namespace tandem {

// A step as it was before it ran: what the weights were and what it was given, by target, of the whole batch.
struct StepMaterial {
  std::vector<NamedTensor> weights, teacher;  // by role
  std::vector<std::pair<FeedTarget, const std::byte*>> inputs;
  std::int64_t batch = 0;
  StepState state;
};

// The first parameter that holds what is not finite; empty: none does.
std::string lost_parameter(const Session& session);

// Runs the step anew on the first device, slice by slice as the devices took it, with every value looked at: "Exp 'x' made
// inf from 'scores' (-3.1 to 103.2)". Empty: all values of the step are finite, forward and backward.
std::string find_not_finite(const GraphSource& source, std::span<const Labels> losses, const CompileOptions& options, Backends backends,
                            const StepMaterial& step);

}  // namespace tandem
