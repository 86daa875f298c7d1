// Switches a template's BatchNormalization and Dropout nodes to inference.
#pragma once
#include "importer/flat/flat_model.h"

namespace tandem {

// Changes those nodes of `copy`, a copy of `original` (which `flat` points into), that ask for training: the attribute
// training_mode and BatchNormalization's training outputs, the training_mode operand of Dropout. A node whose training
// outputs are read by others stays, and so does one that has statistics of its own (own_statistics.h).
void set_inference_mode(const FlatModel& flat, const onnx::ModelProto& original, onnx::ModelProto& copy);

}  // namespace tandem
