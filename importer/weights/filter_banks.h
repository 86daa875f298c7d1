// Banks of filters that a formula gave: windowed sines (Fourier and cosine transforms, constant-Q), triangles (mel). Weights that were
// drawn or trained are none.
#pragma once
#include <optional>

#include "graph/tensor.h"

namespace tandem {

// How the filters of a bank lie in a tensor of floats: a row or a column each.
struct Filters {
  const Tensor* tensor = nullptr;
  std::int64_t filters = 0, samples = 0, filter_stride = 0, sample_stride = 0;  // strides in elements
};
Filters rows_of(const Tensor& tensor, std::int64_t rows);
Filters columns_of(const Tensor& tensor, std::int64_t columns);

// By a look at one filter: whether it may be that all are sines or progressions.
bool may_be_sines(const Filters& bank);

enum class Bank { none, near, exact };  // near: within some percent, as one that was trained further

// Four filters at least. A sine under a window that is itself a sum of few sines (Hann, Hamming, Blackman, none) follows a short
// symmetric recurrence, whatever its frequency, phase and length; zeros at its ends do not count. At least half of the filters tell, and
// all that do agree.
Bank windowed_sines(const Filters& bank);
// Nothing below zero; each filter rises along a line and falls along one, or all together sum to 1 between the first and the last peak;
// most entries are 0, and no filter begins before the one in front of it.
Bank triangles(const Filters& bank);

// Whether the filters are at right angles to each other, to 1e-4 of their lengths: principal components, whitened or not.
bool orthogonal(const Filters& bank);

}  // namespace tandem
