// What --tie makes of a model: one tensor follows another, transposed where the shapes say so; and so does a copy of a parameter that
// the exporter notes as such (a head that is an embedding, transposed). tie_weights.cpp does it while the model is flattened; here is
// what the others ask.
#pragma once
#include <optional>

#include "importer/flat_model.h"

namespace tandem {

std::string listed(const std::vector<std::string>& items);  // "a, b, ... (7 in all)"
Tensor transposed(const Tensor& matrix);  // of any dtype; others than matrices stay as they are
bool follows(const FlatModel& model, Symbol s);  // it follows another
// The parameter that `s` is a copy of, by the exporter's note and by its values.
std::optional<Tie> copy_of_parameter(const FlatModel& model, Symbol s);

}  // namespace tandem
