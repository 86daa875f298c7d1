// What became of each class in an evaluation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem {

// A yes or no has the classes 0 and 1.
struct ClassTable {
  std::int64_t classes = 0;
  std::vector<std::int64_t> right, predicted, support;  // by class: predicted and right, predicted, labelled
  std::vector<std::int64_t> confusion;                  // [label, prediction] where it is a metric; empty beyond 1000 classes

  // 0 where nothing was predicted, or labelled
  double precision(std::size_t c) const;
  double recall(std::size_t c) const;
  double f1(std::size_t c) const;
  double iou(std::size_t c) const;
};

}  // namespace tandem
