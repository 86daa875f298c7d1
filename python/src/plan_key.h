// What a plan was made for, as text: as long as it is the same, the model and its optimizer's states stay where they are.
#pragma once
#include <string>

#include "options/options.h"

namespace tandem::python {

std::string plan_key(const Options& options, const ModelOptions& settled);

}  // namespace tandem::python
