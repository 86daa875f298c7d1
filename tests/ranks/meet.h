// A rank that meets the others and leaves again.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "ranks/world.h"

namespace tandem::test {

// What a rank fails with; empty where it meets the others, all sum to 3 · ranks, and each opens a line to each.
inline std::string meet(const WorldOptions& options) {
  try {
    World world(options);
    float value = 3;
    std::byte* const buffer = reinterpret_cast<std::byte*>(&value);
    world.all_reduce({&buffer, 1}, 1, DType::float32, 0);
    EXPECT_EQ(value, static_cast<float>(3 * options.ranks));
    std::vector<DeviceLine> lines;  // each finds each
    for (int low = 0; low < options.ranks; ++low)
      for (int high = low + 1; high < options.ranks; ++high) lines.push_back({{low}, {high}, low, high});
    world.open_lines(std::move(lines));
    world.leave();
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::communication);
    return e.what();
  }
}

}  // namespace tandem::test
