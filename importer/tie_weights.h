// Initializers that follow another one: trained as one, and each written back with the other's values, transposed where shapes say so.
#pragma once
#include "importer/flat_model.h"

namespace tandem {

Tensor transposed(const Tensor& matrix);  // of any dtype; others than matrices stay as they are
bool follows(const FlatModel& model, Symbol s);  // the option tie made it follow another

}  // namespace tandem
