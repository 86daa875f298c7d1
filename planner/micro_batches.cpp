#include "planner/micro_batches.h"

#include <algorithm>

namespace tandem {
namespace {

std::int64_t largest_divisor(std::int64_t of, std::int64_t most) {
  std::int64_t factor = (of + most - 1) / most;
  for (; factor * factor <= of; ++factor)
    if (of % factor == 0) return of / factor;
  while (of % std::min(factor, most) != 0) --factor;
  return std::min(factor, most);
}

}  // namespace

std::vector<std::int64_t> own_rows(const MicroBatches& parts) {
  std::vector<std::int64_t> own;
  std::int64_t rest = parts.last;
  while (rest > 0) {
    own.push_back(largest_divisor(parts.rows, rest));
    rest -= own.back();
  }
  own.insert(own.begin(), static_cast<std::size_t>(parts.count) - own.size(), parts.rows);
  return own;
}

std::vector<std::int64_t> places_of(const MicroBatches& parts) {
  std::vector<std::int64_t> places;
  std::int64_t first = 0;
  for (const std::int64_t own : own_rows(parts)) {
    for (std::int64_t row = 0; row < parts.rows; ++row) places.push_back(first + row % own);
    first += own;
  }
  return places;
}

MicroBatches micro_batches_of(std::int64_t batch, std::int64_t most) {
  constexpr std::int64_t tries = 1024;
  if (batch <= most) return {.count = 1, .rows = batch, .last = 0};
  MicroBatches best;
  for (std::int64_t rows = std::max<std::int64_t>(1, most); 2 * rows >= most && rows > most - tries; --rows) {
    MicroBatches parts{.count = batch / rows, .rows = rows, .last = batch % rows};
    for (std::int64_t rest = parts.last; rest > 0; ++parts.count) rest -= largest_divisor(rows, rest);
    if (best.rows == 0 || parts.batch() < best.batch()) best = parts;
    if (best.batch() == batch) break;
  }
  return best;
}

}  // namespace tandem
