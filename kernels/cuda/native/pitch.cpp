#include "kernels/cuda/native/pitch.h"

#include "kernels/cuda/bodies/pitch.h"
#include "kernels/cuda/native/launches.h"
#include "kernels/cuda/native/nest.h"

namespace tandem::cuda {

Launches pitch_copy(const PitchCopy& c, const std::byte* x, std::byte* y) {
  const PitchBody<std::uint16_t> body{.x = reinterpret_cast<const std::uint16_t*>(x),
                                      .y = reinterpret_cast<std::uint16_t*>(y),
                                      .elements = static_cast<std::uint32_t>(c.rows * c.to),
                                      .pitch = divider(c.to),
                                      .width = static_cast<std::uint32_t>(c.width),
                                      .from = c.from};
  return launches_over(body, ceil_div(c.rows * c.to, PitchBody<std::uint16_t>::pack_width));
}

}  // namespace tandem::cuda
