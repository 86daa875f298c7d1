// Multi-device configurations of a model (IR 11): read and held against it, which onnx.checker does not do, and written.
#pragma once
#include <string>
#include <vector>

#include "graph/device_configuration.h"
#include "importer/message/onnx_messages.h"

namespace tandem {

// `nodes`: what the graph calls each of the model's nodes. Annotations of the model's own nodes are read, not those of functions and
// subgraphs. What is said of a weight or an input by several nodes has to be the same; of a result its own node's word counts. Fails
// (model) at the first fault, naming node, tensor and field.
std::vector<DeviceConfiguration> device_configurations(const onnx::ModelProto& model, const std::vector<std::string>& nodes);

// Writes the configuration in place of one of its name, and each node's share of it: what is said of its weights, inputs and results; of
// several groups of devices also those of each node. The model becomes one of IR 11.
void annotate(onnx::ModelProto& model, const DeviceConfiguration& configuration, const std::vector<std::string>& nodes);

}  // namespace tandem
