// What kernels that drop elements take from a node's attributes.
#pragma once
#include <algorithm>

#include "graph/attributes.h"
#include "kernels/cuda/bodies/dropout.h"

namespace tandem::cuda {

// By "ratio" and "layer", of samples of `sample` elements that lie one behind the other; 0: all elements are counted as one sample's.
inline DropoutRule dropout_rule(const Attributes& attributes, std::int64_t sample) {
  const double ratio = static_cast<double>(attributes.real("ratio", 0.5F));
  // A ratio of 1 drops all: no word reaches 2³², so the scale does it.
  return {.random = nullptr,
          .outside = 1,
          .samples = 1,
          .inside = sample,
          .threshold = static_cast<std::uint32_t>(std::min(ratio * 0x1p32, 0xffffffffp0)),
          .layer = static_cast<std::uint32_t>(attributes.integer("layer", 0)),
          .scale = ratio < 1 ? 1 / (1 - ratio) : 0.0,
          .counted = sample > 0,
          .run = 1,
          .stride = 0,
          .begin = 0};
}

}  // namespace tandem::cuda
