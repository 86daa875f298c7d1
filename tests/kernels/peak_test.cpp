// What the machine is said to have and to do. Rates depend on it and on what else it does: what holds anywhere is tested.
#include "kernels/cpu/peak.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/cores.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/onednn/primitive.h"

namespace tandem {
namespace {

bool has(std::string_view name) {
  const std::vector<std::string_view> sets = instruction_sets();
  return std::find(sets.begin(), sets.end(), name) != sets.end();
}

TEST(Peak, WhatOtherPartsUseIsThere) {
  EXPECT_EQ(machine_isa() == Isa::avx512, has("AVX-512") && has("AVX2"));
  EXPECT_TRUE(!onednn::has_bf16() || has("AVX512_BF16") || has("AMX-BF16"));
  EXPECT_EQ(onednn::has_bf16(), onednn_isa().find("BF16") != std::string_view::npos || onednn_isa().find("AMX") != std::string_view::npos)
      << onednn_isa();
  EXPECT_TRUE(has("AMX-TILE") || !has("AMX-BF16"));
}

TEST(Peak, EachFormatIsMeasured) {
  const std::vector<Peak> peaks = measure_peaks();
  const auto measured = [&](std::string_view format) {
    return std::any_of(peaks.begin(), peaks.end(), [&](const Peak& p) { return p.format == format; });
  };
  EXPECT_TRUE(measured("fp32"));
  EXPECT_EQ(measured("bf16"), has("AVX512_BF16") || has("AMX-BF16"));
  // A core that does no vector's multiply-add in two cycles at 1 GHz would be an odd one, and none does 64 lanes a cycle at 8.
  const auto cores = static_cast<double>(usable_cores().size());
  for (const Peak& p : peaks) {
    EXPECT_GT(p.flops, 1e9 * 4) << p.format << ' ' << p.instructions;
    EXPECT_TRUE(p.format != "fp32" || p.flops < cores * 64 * 2 * 8e9) << p.instructions << ": " << p.flops;
  }
}

TEST(Peak, MemoryIsMeasured) {
  const double bandwidth = measure_bandwidth();
  EXPECT_GT(bandwidth, 1e8);
  EXPECT_LT(bandwidth, 1e13);
}

}  // namespace
}  // namespace tandem
