// Loops that let the processor round to bfloat16 give what those give that round by themselves, to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "graph/half.h"
#include "kernels/cpu/isa.h"

namespace tandem {
namespace {

TEST(RoundedBfloat16, IsRoundedAsByHand) {
  if (!rounds_to_bfloat16()) GTEST_SKIP() << "the processor has no AVX512_BF16, or TANDEM_ISA leaves it out";
  constexpr int channels = 40, rows = 500;  // whole vectors, and some of one
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<BFloat16> x(rows * channels), addend(x.size()), by_hand(x.size()), by_processor(x.size());
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = to_bfloat16(std::ldexp(1 + static_cast<float>(random() % 128) / 128, static_cast<int>(random() % 40) - 20));
    addend[i] = i % 3 == 0 ? to_bfloat16(to_float(x[i]) / 256)  // half a unit: a tie
                           : to_bfloat16(normal(random) * to_float(x[i]));
  }
  const float odd[] = {infinity, -infinity, std::nanf(""), 3.4e38F, -3.4e38F, 0, -0.0F};
  for (std::size_t i = 0; i < std::size(odd); ++i) x[i * 97] = addend[i * 97] = to_bfloat16(odd[i]);
  const std::vector<float> zeros(48, 0), ones(48, 1);
  const vector::BatchNormalizations* const loops = vector_table().batch_normalizations;
  for (auto [run, y] : {std::pair(&loops[1], &by_hand), std::pair(&loops[2], &by_processor)})
    run->apply({x.data(),
                addend.data(),
                y->data(),
                {rows, channels, channels},
                zeros.data(),
                ones.data(),
                zeros.data(),
                -infinity,
                infinity,
                false});
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(by_hand[i].bits, by_processor[i].bits) << to_float(x[i]) << " + " << to_float(addend[i]);
}

}  // namespace
}  // namespace tandem
