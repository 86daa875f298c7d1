// Whether a plan fits on its devices.
#pragma once
#include <functional>

#include "planner/options.h"

namespace tandem {

// Fails (device) where a device has less memory than the plan puts there, or less that is free (options.free_memory, where
// that is known), with where the memory goes and the largest batch that fits, which `compile` is asked for.
void check_memory(const Plan& plan, CompileOptions options, const std::function<Plan(const CompileOptions&)>& compile);

}  // namespace tandem
