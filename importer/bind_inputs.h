// Sizes for a model's symbolic dimensions, and which inputs carry the batch.
#pragma once
#include <vector>

#include "importer/flat_model.h"

namespace tandem {

// The batch that the file's inputs hard-code, or 1 where it is symbolic.
std::int64_t batch_of_file(const std::vector<ModelInput>& inputs);
bool batch_is_symbolic(const std::vector<ModelInput>& inputs);

struct BoundInput {
  TensorType type;
  bool batched = false;  // axis 0 is the batch
  bool usable = false;   // else a problem says why
  std::string assumed;   // what a user should know of the choice; else empty
};
// A size given for a dimension that no input has becomes a problem.
void check_dims(const std::vector<ModelInput>& inputs, const ImportOptions& options, std::vector<Problem>& problems);

// One row an input. A dimension without a size becomes a problem that names it and how to give it.
std::vector<BoundInput> bind_inputs(const std::vector<ModelInput>& inputs, const ImportOptions& options, std::int64_t batch,
                                    std::vector<Problem>& problems);

}  // namespace tandem
