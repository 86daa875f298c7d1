// In which order devices issue the steps of their schedules.
#pragma once
#include <vector>

#include "planner/plan/plan.h"

namespace tandem {

// A step of a program, for a micro-batch.
struct Issue {
  StepId step;
  int entry = -1;  // of the program's schedule; -1: once a step
};

// What stages send each other in a micro-batch, both ends of it: it may go on beside what a device computes.
bool is_between_stages(const DeviceProgram& program, const Step& step);

// By buffer that whose memory it lies in.
IdVector<BufferId, BufferId> roots_of(const DeviceProgram& program);
// By buffer the first chunk that uses it, whose slot it lies in: that is free last. -1: none does.
IdVector<BufferId, int> chunks_of(const DeviceProgram& program);

// By program, every step once for each micro-batch. All devices issue what they exchange in one order, that of a step in which each takes
// the planned times. So no devices wait for each other in a circle, even where each does one thing at a time. What is sent may come as soon
// as the receiver's slot is free; until then the sender goes on, but for what takes the slot it sends from. Where schedules allow no such
// order, what is left is issued as it stands.
IdVector<ProgramId, std::vector<Issue>> issue_order(const Plan& plan);

}  // namespace tandem
