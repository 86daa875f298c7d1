// Elements of 16 bits whose type no template tells: those of tables of tensors.
#pragma once
#include "kernels/cuda/bodies/pack.h"

namespace tandem::cuda {

enum class Narrow : std::uint8_t { bfloat16, float16 };

// `width` of them from element `i` on.
template <int width, class T>
TANDEM_DEVICE void load_narrow(Narrow type, const void* x, std::int64_t i, Pack<T, width>& to) {
  const Pack<std::uint16_t, width> from = read_at<width>(static_cast<const std::uint16_t*>(x), i);
  for (int k = 0; k < width; ++k)
    to.v[k] = static_cast<T>(type == Narrow::bfloat16 ? to_float(BFloat16{from.v[k]}) : to_float(Half{from.v[k]}));
}
template <int width, class T>
TANDEM_DEVICE void store_narrow(Narrow type, void* y, std::int64_t i, const Pack<T, width>& from) {
  Pack<std::uint16_t, width> to;
  for (int k = 0; k < width; ++k) {
    const auto v = static_cast<float>(from.v[k]);
    to.v[k] = type == Narrow::bfloat16 ? to_bfloat16(v).bits : to_half(v).bits;
  }
  write_at(static_cast<std::uint16_t*>(y), i, to);
}

}  // namespace tandem::cuda
