// What values say of a tensor that a formula reads. Weights that were drawn or trained pass none of these tests.
#pragma once
#include "graph/tensor.h"

namespace tandem {

bool all_alike(const Tensor& tensor);   // one number, however often
bool all_finite(const Tensor& tensor);
// Some entries are −1e4 or less (−∞ too) and all others 0 or 1; or there are just two values and one of them is 0.
bool is_mask(const Tensor& tensor);
// Whole numbers, four at least and not all one: places in a grid, sizes, numbers of things.
bool is_grid(const Tensor& tensor);
// Along the last axis with more than one element (of one: none) each column takes evenly spaced values, each several times, as a
// grid of places does; or one value.
bool is_lattice(const Tensor& tensor);
// Along the last axis but one (of a vector: the only one) each column follows v[i+1] + v[i−1] = k · v[i]: a sine or cosine
// (a table of positions), or an arithmetic or geometric progression (positions, frequencies). Five entries at least, or four in
// eight columns that change, and columns that do not change are few. Axes before these two count matrices (ALiBi's slopes times distances,
// by head). `rounding`: how far, relative to the largest, entries may lie beside it.
bool is_table(const Tensor& tensor, double rounding = 0);
// Square matrices (five rows at least) whose entries depend on the distance from the diagonal alone: zeros on one side of it, a progression
// or a sine on the other, as the decays of a retention are.
bool is_decay(const Tensor& tensor, double rounding = 0);

}  // namespace tandem
