// A placement as an ONNX file's device configuration says it.
#pragma once
#include "planner/options.h"

namespace tandem {

// options.configuration for this model, by these rules where ONNX leaves it open (docs/across-devices.md):
// Nodes of one pipeline stage work on the devices that their results are on; where nothing is said of these, the stages share the devices
// equally, in their order. Without stages nodes work on the devices that their results are on. Devices that nobody names are a group, too.
// What is said of weights and inputs is where they lie, the rest follows. Along an axis of devices that nothing is split along, samples
// are. Fails (usage) where the devices are others in number, or the tensors lie on no one mesh.
PlacementRequest configured(const Graph& model, const CompileOptions& options);

// The configuration that a plan is: of parameters, inputs and, where there are several groups, of nodes. `name`: its name. Fails (usage) on
// unequal parts.
DeviceConfiguration configuration_of(const Plan& plan, std::string name);

}  // namespace tandem
