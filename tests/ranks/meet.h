// A rank that meets the others and leaves again.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "ranks/world.h"

namespace tandem::test {

// What a rank fails with; empty where it meets the others and all sum to 3 · ranks.
inline std::string meet(const WorldOptions& options) {
  try {
    World world(options);
    float value = 3;
    std::byte* const buffer = reinterpret_cast<std::byte*>(&value);
    world.all_reduce({&buffer, 1}, 1, DType::float32, 0);
    EXPECT_EQ(value, static_cast<float>(3 * options.ranks));
    world.leave();
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::communication);
    return e.what();
  }
}

}  // namespace tandem::test
