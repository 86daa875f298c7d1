// What operands of a kernel hold while it is timed, where numbers alike to noise, or zeros, would have it do less than in a step.
#pragma once
#include <optional>

#include "graph/step_scalars.h"
#include "kernels/kernel.h"

namespace tandem {

// Whether an operand has the type of the step's scalars: noise in StepScalars::skip would tell an update to do nothing. Another vector of
// that type may have a zero among its numbers, too.
inline bool may_be_scalars(const Operand& o) { return o.dtype == DType::float32 && o.shape == Shape{StepScalars::count}; }

// From `least` to `most`, both among them.
struct TimedIntegers {
  std::int64_t least = 0, most = 0;
  auto operator<=>(const TimedIntegers&) const = default;
};

// What input `input` of the kernel holds, where it is known to be of integers that mean something: lengths of sequences are all steps, and
// indices are spread over what they pick from. Absent: zeros will do.
std::optional<TimedIntegers> timed_integers(const KernelDescription& description, std::size_t input);

}  // namespace tandem
