// What the constants of one graph may take: a small hostile file cannot ask for gigabytes or minutes by many nodes of which
// each is small. Counted in bytes, not seconds, so that the same file is taken or refused on every machine.
#pragma once
#include <cstdint>

#include "graph/shape.h"

namespace tandem {

class Budget {
 public:
  // What the file holds, its external data included, may be made larger some times over (limits.h).
  Budget(std::int64_t file_bytes, std::int64_t fold_limit) : file_(file_bytes), one_(fold_limit) {}

  // Each fails, naming what was being done, where one thing or all together are beyond the limits.
  void make_constant(std::int64_t bytes);
  void fold(std::int64_t read, std::int64_t made);  // operands read, results written
  void make_weight(std::int64_t bytes);

 private:
  std::int64_t file_, one_;
  std::int64_t made_ = 0, moved_ = 0, weights_ = 0;
};

}  // namespace tandem
