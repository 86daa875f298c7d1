// Sorts places by rows (bodies/sorted_places.h).
#pragma once
#include <bit>

#include "kernels/cuda/bodies/sorted_places.h"
#include "kernels/cuda/native/launches.h"

namespace tandem::cuda {

inline std::int64_t padded_keys(std::int64_t count) { return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count))); }
inline std::int64_t bytes_of_keys(std::int64_t count) {
  return align_up(padded_keys(count) * static_cast<std::int64_t>(sizeof(std::uint64_t)));
}
inline bool can_be_sorted(std::int64_t count, std::int64_t rows) {
  return count < std::int64_t{1} << 31 && rows < static_cast<std::int64_t>(no_row);
}

Launches sort_launches(std::uint64_t* keys, std::int64_t padded);

// The keys of `count` places, sorted; rows.row(i) is place i's, −1: none.
template <class Rows>
Launches sorted_keys(std::uint64_t* keys, const Rows& rows, std::int64_t count) {
  const std::int64_t padded = padded_keys(count);
  return in_turn({launches_over(SortKeysBody<Rows>{keys, rows, count, padded}, padded), sort_launches(keys, padded)});
}

}  // namespace tandem::cuda
