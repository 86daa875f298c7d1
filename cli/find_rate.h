// --find-lr in place of a training.
#pragma once
#include "cli/command.h"
#include "trainer/model.h"

namespace tandem {

// Tests rates, and where it `writes` prints what was found and draws the picture.
void find_rate(const Invocation& call, Model& model, const Dataset& data, const FitOptions& options, bool writes);

}  // namespace tandem
