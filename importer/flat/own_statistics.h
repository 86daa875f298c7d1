// A BatchNormalization of a weight (scaled convolutions normalize theirs so) has no samples and no running statistics: it asks for training
// in inference, too, and divides by what the weight is at that moment. The exporter computes the operands mean and variance for it all the
// same, maybe of a copy that it turned, which does not follow the training.
#pragma once
#include "importer/flat/flat_model.h"

namespace tandem {

// Sets training_mode and own_statistics of such nodes: those whose X depends on no input of the model, and whose mean or variance is
// neither held nor a view of what is. They keep their mode when the model is built for inference and when it is exported.
void mark_own_statistics(FlatModel& model);
bool has_own_statistics(const FlatNode& node);

}  // namespace tandem
