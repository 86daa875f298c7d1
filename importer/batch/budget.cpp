// Each limit is a fixed allowance and a multiple of what the file itself holds; limits.h has the numbers.
#include "importer/batch/budget.h"

#include <algorithm>

#include "importer/message/limits.h"

namespace tandem {
namespace {

// Adds to a sum that stays at its limit once it has passed it.
bool add(std::int64_t& sum, std::int64_t more, std::int64_t limit) {
  sum = more > limit - sum ? limit : sum + more;
  return sum < limit;
}

std::int64_t of_file(std::int64_t least, std::int64_t times, std::int64_t file) {
  constexpr std::int64_t largest = std::int64_t{1} << 50;
  return least + times * std::min(file, largest);
}

}  // namespace

void Budget::make_constant(std::int64_t bytes) {
  if (bytes > one_) fail("the constant that is computed here would take ", bytes, " bytes, more than the ", one_, " allowed");
  const std::int64_t limit = of_file(limits::constants_bytes, limits::constants_factor, file_);
  if (!add(made_, bytes, limit))
    fail("the constants that are computed from this file take more than the ", limit, " bytes allowed for all (", limits::constants_bytes,
         " and ", limits::constants_factor, " times the file's own ", file_, ")");
}

void Budget::fold(std::int64_t read, std::int64_t made) {
  const std::int64_t limit = of_file(limits::folded_bytes, limits::folded_factor, file_);
  if (!add(moved_, read, limit) || !add(moved_, made, limit))
    fail("computing the constants of this file reads and writes more than the ", limit, " bytes allowed for all (", limits::folded_bytes,
         " and ", limits::folded_factor, " times the file's own ", file_, "): it would take too long");
}

void Budget::make_weight(std::int64_t bytes) {
  const std::int64_t limit = one_ * limits::weight_factor;
  if (bytes > limit - weights_)
    fail("the weight that is made here would take ", bytes, " bytes, with those before it more than the ", limit, " bytes allowed");
  weights_ += bytes;
}

}  // namespace tandem
