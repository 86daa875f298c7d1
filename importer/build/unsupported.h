// What is said of an operator that there is no row for.
#pragma once
#include <string>

#include "importer/flat/flat_model.h"

namespace tandem {

// The reason, and where there is one what to do: the exporter's option that avoids the operator, or where to cut the model.
std::string unsupported(const FlatNode& node);

}  // namespace tandem
