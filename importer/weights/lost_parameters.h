// Parameters that the file's signature lists and that the file does not hold.
#pragma once
#include "importer/flat/flat_model.h"

namespace tandem {

// Tells of normalizations and parameters that the file lacks; of tensors that the exporter computed from parameters and that train
// otherwise than these would (FlatModel::computed; neither a copy that follows one nor moved numbers of one); and of parts of one parameter
// that overlap.
void warn_of_lost_parameters(FlatModel& model);

}  // namespace tandem
