// What an exporter looked up in a parameter, or repeated it to, stands in the file once for each place: a bias by distance for each pair of
// words, a row for each token. Such rows are one, and train as one. That a tensor is of that kind is said by the exporter's note (computed
// from one parameter, by a lookup or a repetition among others) and by its values: a quarter of the rows at least is like another, to the
// last bit.
#pragma once
#include <optional>

#include "importer/flat/flat_model.h"

namespace tandem {

std::optional<LookedUp> repeated_rows(const Tensor& whole);
Tensor rows_of(const LookedUp& l, const Tensor& whole);   // [rows, length of `axis`]
Tensor whole_of(const LookedUp& l, const Tensor& rows);

bool stands_for_samples(const FlatModel& model, const Tensor& tensor);  // an axis holds the samples of the file's own batch, all the same
// By note and values; none where the samples of the file's own batch stand in it, which are followed.
std::optional<LookedUp> looked_up(const FlatModel& model, Symbol s);
const LookedUp* looked_up_there(const FlatModel& model, Symbol s);  // what find_looked_up found
void find_looked_up(FlatModel& model);  // of trained tensors that follow no other

}  // namespace tandem
