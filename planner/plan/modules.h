// Where a plan's steps belong in the model: modules, as the names of its nodes tell them.
#pragma once
#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace tandem {

// A node's name in its parts: "layer1.0.conv1" and "/layer1/layer1.0/conv1/Conv" begin with layer1 and 0. Never empty: a name without
// parts is one.
std::vector<std::string> parts_of_name(std::string_view name);

// The parts of the name of the node that a step came from; of an update that came from none "updates", of what else did "other".
// Empty for steps that are no launch.
std::vector<std::string> module_of(const DeviceProgram& program, const Step& step);

// By exchange, whether it carries gradients of the plan's parameters: others have values of the model.
IdVector<ExchangeId, bool> carry_gradients(const Plan& plan);

}  // namespace tandem
