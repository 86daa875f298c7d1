#pragma once
#include "importer/flat_model.h"

namespace tandem {

Tensor transposed(const Tensor& matrix);  // of any dtype; others than matrices stay as they are
bool follows(const FlatModel& model, Symbol s);  // --tie made it follow another

}  // namespace tandem
