// What the emulation of a device shows of a body that is wrong: each would pass where blocks ran one after another, in order and in one
// memory.
#include "kernels/cuda/emulation/launch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/bodies/pack.h"

namespace tandem::cuda {
namespace {

// Notes which blocks ran, in which order.
struct NoteBody {
  static constexpr int threads = 32;
  static constexpr bool cooperative = true;
  std::vector<std::int64_t>* ran;
  template <class Thread>
  void operator()(const Thread& t) const {
    if (t.thread() == 0) ran->push_back(t.block());
    t.sync();
  }
};

std::vector<std::int64_t> blocks_of(std::int64_t blocks) {
  std::vector<std::int64_t> ran;
  emulation::run(NoteBody{&ran}, blocks);
  return ran;
}

#ifndef TANDEM_SANITIZED  // there the threads of two blocks write at the same time
TEST(Emulation, RunsAllBlocksInNoOrderThatABodyCouldGoBy) {
  std::set<std::vector<std::int64_t>> orders;
  for (int launch = 0; launch < 20; ++launch) {
    std::vector<std::int64_t> ran = blocks_of(12);
    orders.insert(ran);
    std::sort(ran.begin(), ran.end());
    EXPECT_EQ(ran, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  }
  EXPECT_GT(orders.size(), 10U);
}

TEST(Emulation, SamplesTheFirstTheMiddleAndTheLastBlocks) {
  const emulation::Sample sample(6);
  for (const std::int64_t blocks : {std::int64_t{7}, std::int64_t{1000}, (std::int64_t{1} << 31) - 1}) {
    std::vector<std::int64_t> ran = blocks_of(blocks);
    std::sort(ran.begin(), ran.end());
    EXPECT_EQ(ran, (std::vector<std::int64_t>{0, 1, blocks / 2, blocks / 2 + 1, blocks - 2, blocks - 1}));
  }
  EXPECT_EQ(blocks_of(6).size(), 6U);
  EXPECT_EQ(blocks_of(0).size(), 0U);
}

// Takes turns with another block: what one writes before a barrier another sees behind it.
struct TurnsBody {
  static constexpr int threads = 64;
  static constexpr bool cooperative = true;
  int* inside;
  int* most;
  template <class Thread>
  void operator()(const Thread& t) const {
    if (t.thread() == 0) *most = std::max(*most, ++*inside);
    t.sync();
    if (t.thread() == 0) --*inside;
  }
};

TEST(Emulation, HasTwoBlocksUnderWay) {
  int inside = 0, most = 0;
  emulation::run(TurnsBody{&inside, &most}, 9);
  EXPECT_EQ(most, 2);
  EXPECT_EQ(inside, 0);
}
#endif

// Reads what an earlier block left in shared memory. On a device it may be anything.
struct LeftBody {
  static constexpr int threads = 32;
  static constexpr bool cooperative = true;
  float* seen;
  template <class Thread>
  void operator()(const Thread& t) const {
    float* const kept = t.template shared<float, 32, 0>();
    seen[t.block() * threads + t.thread()] = kept[t.thread()];
    kept[t.thread()] = 1;
    t.sync();
  }
};

TEST(Emulation, PoisonsSharedMemoryForEachBlock) {
  constexpr std::int64_t blocks = 7;
  std::vector<float> seen(blocks * LeftBody::threads);
  emulation::run(LeftBody{seen.data()}, blocks);
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](float v) { return std::isnan(v); }));
}

// Two arrays of one tag, which the device has apart since their types differ.
struct ApartBody {
  static constexpr int threads = 32;
  static constexpr bool cooperative = true;
  float* seen;
  template <class Thread>
  void operator()(const Thread& t) const {
    float* const numbers = t.template shared<float, 32, 3>();
    numbers[t.thread()] = 2;
    t.template shared<double, 64, 3>()[t.thread()] = 5;
    seen[t.thread()] = numbers[t.thread()];
  }
};

TEST(Emulation, HasArraysApartThatTheDeviceHasApart) {
  std::vector<float> seen(ApartBody::threads);
  emulation::run(ApartBody{seen.data()}, 1);
  EXPECT_EQ(seen, std::vector<float>(ApartBody::threads, 2));
}

struct PackBody {
  static constexpr int threads = 32;
  static constexpr bool cooperative = false;
  const float* from;
  float* to;
  template <class Thread>
  void operator()(const Thread& t) const {
    write_pack(to, t.thread(), read_pack<4>(from, t.thread()));
  }
};

#ifndef TANDEM_SANITIZED  // which ends the program there
TEST(Emulation, FailsWhereAPackIsNotAligned) {
  struct alignas(16) Room {
    float v[132]{};
  } from, to;
  emulation::run(PackBody{from.v, to.v}, 1);
  for (const auto& body : {PackBody{from.v + 1, to.v}, PackBody{from.v, to.v + 2}}) try {
      emulation::run(body, 1);
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("no multiple of 16"), std::string::npos) << e.what();
    }
  emulation::run(PackBody{from.v, to.v}, 1);
}
#endif

}  // namespace
}  // namespace tandem::cuda
