// TrainingInfoProto: what of it tandem follows (training_step.h), and what its loss adds to the model.
#pragma once
#include <memory>
#include <optional>

#include "importer/message/external_data.h"
#include "importer/message/onnx_messages.h"
#include "importer/message/training_step.h"

namespace tandem {

// The step of the only algorithm there is; none: the file brings none. Fails (model) where it is another than tandem plans, naming the
// node, or several that follow each other.
std::optional<TrainingStep> training_step_of(const onnx::ModelProto& model, ExternalData& external);

// The algorithm's variables as they are behind so many further steps.
void set_variables(onnx::ModelProto& model, const TrainingStep& step, const std::map<std::string, Tensor>& states, std::int64_t steps);

// The nodes, inputs and initializers of the algorithm that the loss is computed by become the model's, and the loss its output.
struct AddedLoss {
  int nodes = 0, inputs = 0, initializers = 0, outputs = 0;  // at the end of each list
};
AddedLoss add_loss(onnx::ModelProto& model, const TrainingStep& step);
void remove_loss(onnx::ModelProto& model, const AddedLoss& added);

// A model of no inputs that gives first values: the initializations, one behind the other, its outputs named after what they are
// bound to. Null: the file has none.
std::unique_ptr<onnx::ModelProto> initialization_of(const onnx::ModelProto& model);

}  // namespace tandem
