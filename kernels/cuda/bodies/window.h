// Windows that slide over up to three spatial axes, channels last.
#pragma once
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

// Three spatial axes; unused leading ones have size 1. Their places are below 2^31.
struct WindowGeometry {
  std::int32_t input[3], output[3], kernel[3], stride[3], begin[3], end[3], dilation[3];
};
struct Place3 {
  std::int32_t at[3];
  TANDEM_DEVICE static Place3 of(std::int64_t linear, const std::int32_t (&size)[3]) {
    const auto number = static_cast<std::uint32_t>(linear), first = static_cast<std::uint32_t>(size[1]), second = static_cast<std::uint32_t>(size[2]);
    const std::uint32_t rows = number / second;
    return {{static_cast<std::int32_t>(rows / first), static_cast<std::int32_t>(rows % first), static_cast<std::int32_t>(number % second)}};
  }
};

// The input place of a tap of the window at an output place: its linear number, -1 in the padding, -2 beyond it.
TANDEM_DEVICE std::int64_t input_place(const WindowGeometry& g, const Place3& output, const Place3& tap) {
  std::int64_t linear = 0;
  int outside = 0;
  for (int d = 0; d < 3; ++d) {
    const std::int32_t i = output.at[d] * g.stride[d] - g.begin[d] + tap.at[d] * g.dilation[d];
    if (i < 0 || i >= g.input[d]) outside = i >= g.input[d] + g.end[d] ? -2 : outside == -2 ? -2 : -1;
    linear = linear * g.input[d] + i;
  }
  return outside != 0 ? outside : linear;
}
// The output place whose window meets an input place with a tap, or -1.
TANDEM_DEVICE std::int64_t output_place(const WindowGeometry& g, const Place3& input, const Place3& tap) {
  std::int64_t linear = 0;
  for (int d = 0; d < 3; ++d) {
    const std::int32_t o = input.at[d] + g.begin[d] - tap.at[d] * g.dilation[d];
    if (o < 0 || o % g.stride[d] != 0 || o / g.stride[d] >= g.output[d]) return -1;
    linear = linear * g.output[d] + o / g.stride[d];
  }
  return linear;
}
TANDEM_DEVICE std::int64_t volume(const std::int32_t (&size)[3]) { return static_cast<std::int64_t>(size[0]) * size[1] * size[2]; }

// f(place): each input place that the window at an output place meets, the padding left out, in order.
template <class F>
TANDEM_DEVICE void each_input(const WindowGeometry& g, std::int64_t output, F&& f) {
  const Place3 at = Place3::of(output, g.output);
  const std::int64_t taps = volume(g.kernel);
  for (std::int64_t k = 0; k < taps; ++k)
    if (const std::int64_t p = input_place(g, at, Place3::of(k, g.kernel)); p >= 0) f(p);
}
// f(place): each output place whose window meets an input place, in order.
template <class F>
TANDEM_DEVICE void each_output(const WindowGeometry& g, std::int64_t input, F&& f) {
  const Place3 at = Place3::of(input, g.input);
  for (std::int64_t k = volume(g.kernel); k-- > 0;)
    if (const std::int64_t o = output_place(g, at, Place3::of(k, g.kernel)); o >= 0) f(o);
}

}  // namespace tandem::cuda
