#include "importer/build/decomposed.h"

namespace tandem {

std::span<const Decomposed> decomposed() {
  static constexpr Decomposed rows[] = {
      {"", "ConcatFromSequence", {11}, true},
      {"", "If", {1, 11, 13, 16, 19, 21, 23, 24, 25}, true},
      {"", "Loop", {1, 11, 13, 16, 19, 21, 23, 24, 25}, true},
      {"", "Optional", {15, 28}, true},
      {"", "OptionalGetElement", {15, 18, 28}, true},
      {"", "OptionalHasElement", {15, 18, 28}, false},
      {"", "Scan", {8, 9, 11, 16, 19, 21, 23, 24, 25}, true},
      {"", "SequenceAt", {11}, true},
      {"", "SequenceConstruct", {11}, true},
      {"", "SequenceEmpty", {11}, false},
      {"", "SequenceErase", {11}, true},
      {"", "SequenceInsert", {11}, true},
      {"", "SequenceLength", {11}, false},
      {"", "SequenceMap", {17}, true},
      {"", "SplitToSequence", {11, 24}, true},
      {"ai.onnx.ml", "LinearClassifier", {1}, true},
      {"ai.onnx.ml", "LinearRegressor", {1}, true},
      {"ai.onnx.preview", "FlexAttention", {1}, true},
  };
  return rows;
}

}  // namespace tandem
