// Sizes for a model's symbolic dimensions, as a reading of its batch has them.
#pragma once
#include <vector>

#include "importer/batch/batch_reading.h"
#include "importer/flat/flat_model.h"

namespace tandem {

struct BoundInput {
  TensorType type;        // as the file has it
  int axis = no_samples;  // that holds the samples
  bool usable = false;    // else a problem says why
};
// A size or an axis given for what no input has becomes a problem.
void check_dims(const std::vector<ModelInput>& inputs, const ImportOptions& options, std::vector<Problem>& problems);

// An input that holds `batch` samples along `axis`. A dimension without a size becomes a problem that names it and how to give it.
BoundInput bind_input(const ModelInput& input, const ImportOptions& options, int axis, std::int64_t batch, std::vector<Problem>& problems);

// The names (size_name) of dimensions that have no size.
std::vector<std::string> dims_without_size(const std::vector<ModelInput>& inputs, const ImportOptions& options,
                                           const BatchReading& reading);

}  // namespace tandem
