// What --tie makes of a model: one tensor follows another, transposed where the shapes say so; and so does what the exporter notes as
// computed from one parameter alone and is a copy of it (a head that is an embedding, transposed; a bias of another shape), a part of it,
// or of what else was computed from it, or c + p or c - p (1 - mix beside mix): copies.cpp. It is done while the model is flattened; here
// is what the others ask.
#pragma once
#include <optional>

#include "importer/flat/flat_model.h"

namespace tandem {

std::string listed(const std::vector<std::string>& items);  // "a, b, ... (7 in all)"
// of the model's own graph; null where there is none
const FlatInitializer* find_initializer(const FlatModel& model, std::string_view name);
bool equal(const Tensor& a, const Tensor& b);
Tensor transposed(const Tensor& matrix);  // of any dtype; others than matrices stay as they are
bool follows(const FlatModel& model, Symbol s);  // it follows another
Tensor followed(const Tie& tie, const Tensor& leader);  // what the follower holds
// The parameter that `s` was computed from in one of these ways, by the exporter's note and by its values.
std::optional<Tie> copy_of_parameter(const FlatModel& model, Symbol s);
void tie_copies(FlatModel& model);
void tie_weights(FlatModel& model, const WeightOptions& options);
void warn_of_equal_tensors(FlatModel& model);
void warn_of_halves(FlatModel& model);  // weights of 16 bits

}  // namespace tandem
