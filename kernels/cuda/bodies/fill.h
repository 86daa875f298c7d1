// Memory filled with one element.
#pragma once
#include <cstdint>

#include "kernels/cuda/bodies/thread.h"

namespace tandem::cuda {

template <class Unit>
struct FillBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  Unit* y;
  Unit value;
  std::int64_t elements;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) y[i] = value;
  }
};

}  // namespace tandem::cuda
