// A training step as ONNX's TrainingInfoProto.
#pragma once
#include "importer/message/onnx_messages.h"
#include "importer/message/training_step.h"

namespace tandem {

// training_info becomes the step: a label input, the loss, a Gradient of it with respect to all that is trained, and each weight's
// optimizer: w - r·g as arithmetic, ONNX's Momentum, Adagrad and Adam, or a function of the domain tandem.training whose body is
// ordinary arithmetic, where ONNX's formula is another. States are initializers with update_bindings; the initialization sets them to
// zero, and leaves the weights. Fails (usage) on what these words do not say, naming it.
void write_training_info(onnx::ModelProto& model, const TrainingStep& step);

}  // namespace tandem
