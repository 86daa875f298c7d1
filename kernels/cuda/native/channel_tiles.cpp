#include "kernels/cuda/native/channel_tiles.h"

#include <algorithm>
#include <bit>

namespace tandem::cuda {

ChannelMatrix as_one(const Shape& shape, const KernelOptions& options) {
  return {1, shape[1] == 0 ? 0 : shape.elements() / shape[1], shape[1], multiprocessors_of(options)};
}
ChannelMatrix by_samples(const Shape& shape, const KernelOptions& options) {
  const std::int64_t of_sample = shape[0] * shape[1];
  return {shape[0], of_sample == 0 ? 0 : shape.elements() / of_sample, shape[1], multiprocessors_of(options)};
}

ChannelTiles tiles_of(const ChannelMatrix& m, int width) {
  constexpr std::int64_t blocks_of_one = 4, least_rows = 4;  // of a multiprocessor; of a thread
  ChannelTiles t{m.samples, m.rows, static_cast<std::int32_t>(m.channels / width), 1, 1, 1};
  const auto packs = static_cast<std::uint32_t>(std::max(t.packs, 1));
  t.columns = static_cast<std::int32_t>(std::min<std::uint32_t>(std::bit_ceil(packs), 32));
  t.tiles = static_cast<std::int32_t>(ceil_div(packs, t.columns));
  const std::int64_t wanted = m.multiprocessors * blocks_of_one / std::max<std::int64_t>(1, t.samples * t.tiles),
                     most = t.rows / (tile_threads / t.columns * least_rows);
  t.splits = static_cast<std::int32_t>(std::max<std::int64_t>(1, std::min(wanted, most)));
  // Shares are rounded up, so that fewer splits may have all rows: none is without.
  if (t.rows > 0) t.splits = static_cast<std::int32_t>(ceil_div(t.rows, t.share()));
  return t;
}

}  // namespace tandem::cuda
