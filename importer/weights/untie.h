// One initializer that several operands read, as exporters leave equal ones, made as many as there are readers.
#pragma once
#include <string>
#include <vector>

#include "importer/flat/flat_model.h"
#include "importer/message/external_data.h"
#include "importer/message/onnx_messages.h"

namespace tandem {

// Where several operands of the model's own graph read a float initializer that a pattern names, the first keeps it and each
// of the others gets a copy, "NAME@2" and so on, with what the file says of it. The model then holds these initializers, and
// so does its export. Returns how many were added. Fails (usage) where a pattern names nothing that several operands read.
int untie(onnx::ModelProto& model, ExternalData& external, const std::vector<std::string>& patterns);

// An operand that reads a tensor which the exporter kept in place of an equal one of another parameter, by the notes of the calls; `owner`:
// that parameter, as calls name it, or, where it is not known, the node.
struct Merged {
  std::string tensor;
  const onnx::NodeProto* node = nullptr;
  int input = 0;
  std::string owner;
};
std::vector<Merged> merged_by_calls(const FlatModel& model);  // of what is trained or a running statistic
// Each owner gets the tensor that the file lacks: under the owner's own name where `tensor` bears its own, with notes that say so. `merged`
// holds nodes of `model`.
int untie(onnx::ModelProto& model, ExternalData& external, const std::vector<Merged>& merged, const Signature& signature);

// Names of the scales and biases that an exporter is taken to have merged: trained, read by several nodes, all values alike, in a
// model that shares no matrix or filter, as one does that uses a layer twice; no notes of calls say that the model shares them.
std::vector<std::string> merged_by_exporter(const FlatModel& model);

}  // namespace tandem
