// How many blocks share a tensor laid out channels last (bodies/channel_tiles.h), and how wide their accesses are.
#pragma once
#include "kernels/cuda/bodies/channel_tiles.h"
#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {

struct ChannelMatrix {
  std::int64_t samples, rows, channels, multiprocessors;
};
ChannelMatrix as_one(const Shape& shape, const KernelOptions& options);      // all samples' rows as one's
ChannelMatrix by_samples(const Shape& shape, const KernelOptions& options);
// Of packs of `width` channels. By shapes and the plan's device alone: it tells in what order sums are made.
ChannelTiles tiles_of(const ChannelMatrix& m, int width);
inline std::int64_t blocks_of(const ChannelTiles& t) { return t.samples * t.tiles * t.splits; }

// f.operator()<width>(): 16 bytes where the channels fill them, else an element.
template <class T, class F>
decltype(auto) visit_width(std::int64_t channels, F&& f) {
  constexpr int full = full_pack<T>;
  if constexpr (!std::is_same_v<T, double>)
    if (channels % full == 0) return f.template operator()<full>();
  return f.template operator()<1>();
}
template <class T>
ChannelTiles tiles_of(const ChannelMatrix& m) {
  return visit_width<T>(m.channels, [&]<int width>() { return tiles_of(m, width); });
}

}  // namespace tandem::cuda
