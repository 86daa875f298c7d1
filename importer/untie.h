// One initializer that several operands read, as exporters leave equal ones, made as many as there are readers.
#pragma once
#include <string>
#include <vector>

#include "importer/external_data.h"
#include "tandem_onnx.pb.h"

namespace tandem {

// Where several operands of the model's own graph read a float initializer that a pattern names, the first keeps it and each
// of the others gets a copy, "NAME@2" and so on, with what the file says of it. The model then holds these initializers, and
// so does its export. Returns how many were added. Fails (usage) where a pattern names nothing that several operands read.
int untie(onnx::ModelProto& model, ExternalData& external, const std::vector<std::string>& patterns);

}  // namespace tandem
