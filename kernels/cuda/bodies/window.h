// Windows that slide over up to three spatial axes, channels last.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

// Three spatial axes; unused leading ones have size 1. Their places are below 2^31.
struct WindowGeometry {
  std::int32_t input[3], output[3], kernel[3], stride[3], begin[3], end[3], dilation[3];
  Divider by_stride[3], by_dilation[3];
};
struct Place3 {
  std::int32_t at[3];
  TANDEM_DEVICE static Place3 of(std::int64_t linear, const std::int32_t (&size)[3]) {
    const auto number = static_cast<std::uint32_t>(linear), first = static_cast<std::uint32_t>(size[1]),
               second = static_cast<std::uint32_t>(size[2]);
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

// How many taps of a window that begins at `start` lie below `bound` along an axis.
TANDEM_DEVICE std::int32_t taps_below(const WindowGeometry& g, int d, std::int32_t start, std::int32_t bound) {
  if (start >= bound) return 0;
  const auto taps = static_cast<std::int32_t>(g.by_dilation[d].divide(static_cast<std::uint32_t>(bound - 1 - start))) + 1;
  return taps < g.kernel[d] ? taps : g.kernel[d];
}

// f(place): each input place that the window at an output place meets, the padding left out, in order.
template <class F>
TANDEM_DEVICE void each_input(const WindowGeometry& g, std::int64_t output, F&& f) {
  const Place3 at = Place3::of(output, g.output);
  std::int32_t first[3], count[3];
  for (int d = 0; d < 3; ++d) {
    const std::int32_t start = at.at[d] * g.stride[d] - g.begin[d], before = taps_below(g, d, start, 0);
    first[d] = start + before * g.dilation[d];
    count[d] = taps_below(g, d, start, g.input[d]) - before;
  }
  for (std::int32_t a = 0; a < count[0]; ++a)
    for (std::int32_t b = 0; b < count[1]; ++b) {
      std::int32_t place = ((first[0] + a * g.dilation[0]) * g.input[1] + first[1] + b * g.dilation[1]) * g.input[2] + first[2];
      for (std::int32_t c = 0; c < count[2]; ++c, place += g.dilation[2]) f(static_cast<std::int64_t>(place));
    }
}
// f(place, weight): each output place whose window meets an input place with a tap, in order, with the product of what `weigh(axis, place
// along it)` gives.
template <class Weigh, class F>
TANDEM_DEVICE void each_output(const WindowGeometry& g, std::int64_t input, Weigh&& weigh, F&& f) {
  const Place3 at = Place3::of(input, g.input);
  std::int32_t first[3], last[3];
  for (int d = 0; d < 3; ++d) {
    const std::int32_t end = at.at[d] + g.begin[d], begin = end - (g.kernel[d] - 1) * g.dilation[d];
    const auto reached = static_cast<std::int32_t>(g.by_stride[d].divide(static_cast<std::uint32_t>(end)));
    first[d] = begin <= 0 ? 0 : static_cast<std::int32_t>(g.by_stride[d].divide(static_cast<std::uint32_t>(begin + g.stride[d] - 1)));
    last[d] = reached < g.output[d] ? reached : g.output[d] - 1;
  }
  // Dilated windows have no tap between theirs.
  const auto meets = [&](int d, std::int32_t o) {
    const std::int32_t distance = at.at[d] + g.begin[d] - o * g.stride[d];
    return static_cast<std::int32_t>(g.by_dilation[d].divide(static_cast<std::uint32_t>(distance))) * g.dilation[d] == distance;
  };
  for (std::int32_t a = first[0]; a <= last[0]; ++a) {
    const std::int32_t of_a = weigh(0, a);
    if (!meets(0, a)) continue;
    for (std::int32_t b = first[1]; b <= last[1]; ++b) {
      const std::int32_t of_b = of_a * weigh(1, b);
      if (!meets(1, b)) continue;
      for (std::int32_t c = first[2]; c <= last[2]; ++c)
        if (meets(2, c)) f(static_cast<std::int64_t>(a * g.output[1] + b) * g.output[2] + c, of_b * weigh(2, c));
    }
  }
}

}  // namespace tandem::cuda
