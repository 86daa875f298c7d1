// The launches of a sort: what fits a block in one, and of longer runs a launch for each step that does not.
#include "kernels/cuda/native/sorted_places.h"

#include <algorithm>

namespace tandem::cuda {

Launches sort_launches(std::uint64_t* keys, std::int64_t padded) {
  const std::int64_t within = std::min<std::int64_t>(padded, keys_of_block);
  const auto block = [&](std::int64_t first, std::int64_t last) {
    return launches_of(SortBlockBody{keys, first, last, static_cast<int>(within)}, padded / within);
  };
  std::vector<Launches> steps{block(2, within)};
  for (std::int64_t run = 2 * within; run <= padded; run *= 2) {
    for (std::int64_t distance = run / 2; distance >= within; distance /= 2)
      steps.push_back(launches_over(SortStepBody{keys, run, distance, padded / 2}, padded / 2));
    steps.push_back(block(run, run));
  }
  return in_turn(std::move(steps));
}

}  // namespace tandem::cuda
