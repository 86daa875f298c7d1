// Rows from one distance to another, on the emulation.
#include "kernels/cuda/native/pitch.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tandem::cuda {
namespace {

struct alignas(16) Pack16 {
  std::uint16_t numbers[8];
};

const PitchCopy copies[] = {
    {3, 5, 5, 8}, {3, 5, 8, 5}, {40, 1001, 1001, 1008}, {40, 1001, 1008, 1001}, {7, 64, 100, 64}, {1, 1, 1, 8},          {1, 7, 8, 7},
    {9, 3, 3, 8}, {9, 3, 8, 3}, {513, 17, 40, 24},      {2, 8, 8, 8},           {100, 2, 3, 2},   {1, 4099, 4104, 4099}, {5, 1, 8, 1}};

TEST(PitchCopies, MoveRowsAndFillTheRest) {
  for (const PitchCopy& c : copies) {
    std::vector<std::uint16_t> x(static_cast<std::size_t>(c.rows * c.from)), wanted(static_cast<std::size_t>(c.rows * c.to), 0);
    std::iota(x.begin(), x.end(), std::uint16_t{1});
    for (std::int64_t row = 0; row < c.rows; ++row) std::copy_n(x.begin() + row * c.from, c.width, wanted.begin() + row * c.to);
    constexpr std::uint16_t guard = 0xABCD;
    std::vector<Pack16> memory(static_cast<std::size_t>(ceil_div(c.rows * c.to, 8) + 1));
    auto* const y = reinterpret_cast<std::uint16_t*>(memory.data());
    std::fill_n(y, 8 * memory.size(), guard);
    pitch_copy(c, reinterpret_cast<const std::byte*>(x.data()), reinterpret_cast<std::byte*>(y))(nullptr);
    EXPECT_EQ(std::vector(y, y + wanted.size()), wanted) << c.rows << " rows of " << c.width << ", " << c.from << " to " << c.to;
    EXPECT_EQ(std::vector(y + wanted.size(), y + 8 * memory.size()), std::vector<std::uint16_t>(8 * memory.size() - wanted.size(), guard));
  }
}

}  // namespace
}  // namespace tandem::cuda
