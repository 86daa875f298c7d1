// What --tie makes of a model: one tensor follows another, transposed where the shapes say so. tie_weights.cpp does it while the
// model is flattened; here is what the others ask.
#pragma once
#include "importer/flat_model.h"

namespace tandem {

std::string listed(const std::vector<std::string>& items);  // "a, b, ... (7 in all)"
Tensor transposed(const Tensor& matrix);  // of any dtype; others than matrices stay as they are
bool follows(const FlatModel& model, Symbol s);  // the option tie made it follow another

}  // namespace tandem
