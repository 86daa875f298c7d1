// The kernel of a plan's step, as the backend makes it from what the plan kept of its description.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernels/backends.h"
#include "planner/plan/plan.h"

namespace tandem {

std::string text_of_step(const Plan& plan, const DeviceProgram& program, StepId id);  // "step 3 (MatMul, onednn.matmul, from 'fc1')"

// Fails (device) where the backend has none that matches: of that name, with these layouts, in this workspace.
std::unique_ptr<Kernel> make_kernel(const Backend& backend, const Plan& plan, std::size_t device, const Step& step,
                                    const LaunchStep& launch);

// Makes the kernels of all devices that are here, each once, as a session would, and lets them go. Fails as make_kernel does, naming
// device and step. Gives a line for each device that is not here, with the reason: its kernels were not checked.
std::vector<std::string> check_kernels(const Plan& plan, Backends backends);

}  // namespace tandem
