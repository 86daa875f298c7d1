// Where a step's time goes, by the kernels of the plan's first device.
#pragma once
#include <functional>
#include <vector>

#include "runtime/session.h"

namespace tandem {

// Seconds of each of the first device's steps in one timed run, as Session::run_timed gives them.
using TimedRun = std::function<std::vector<double>()>;

// The median of `rounds` runs, step by step.
std::vector<double> median_seconds(const TimedRun& run, int rounds);

// On stderr, one line for all steps that one kernel runs: time, share, number, rate of arithmetic and of memory. Longest first.
void print_by_kernel(const Plan& plan, const std::vector<double>& seconds);
// On stderr, one line for each step, beside what the plan expects of it.
void print_by_step(const Plan& plan, const std::vector<double>& seconds);

}  // namespace tandem
