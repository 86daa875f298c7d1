// A step as trace events, which Perfetto and chrome://tracing show: a process for each device, a thread for each of its streams, a slice
// for each step, and flows between the slices of an exchange. The format is Chrome's "Trace Event Format", as JSON.
#pragma once
#include <string>

#include "planner/plan/timeline.h"

namespace tandem {

std::string trace_of(const Plan& plan);  // as planned
// As planned, and beneath it what was measured: by device, of the written out plan's steps.
std::string trace_of(const Plan& plan, const std::vector<Timeline>& measured);

}  // namespace tandem
