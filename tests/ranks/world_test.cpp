// Ranks as threads of this process, each with its own World: what they sum, and what they say when one is missing.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include "kernels/device.h"
#include "kernels/host_group.h"
#include "ranks/rendezvous.h"
#include "tests/kernels/sum_over.h"
#include "tests/ranks/address.h"

namespace tandem {
namespace {

using test::RankAddress;

// Runs body(world) in a thread for each rank, and then ended(); returns what each failed with, empty where it did not.
// Ranks of which `present` says no never come.
std::vector<std::string> on_ranks(int ranks, const std::string& address, double timeout, const std::function<void(World&)>& body,
                                  const std::function<bool(int)>& present = [](int) { return true; },
                                  const std::function<void()>& ended = [] {}) {
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    if (present(r))
      threads.emplace_back([&, r] {
        try {
          World world({.rank = r, .ranks = ranks, .address = address, .timeout_seconds = timeout});
          body(world);
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), ExitCode::communication);
          failures[static_cast<std::size_t>(r)] = e.what();
        }
        ended();
      });
  for (std::thread& t : threads) t.join();
  return failures;
}
std::vector<std::string> all(int ranks, const std::string& text) { return std::vector<std::string>(static_cast<std::size_t>(ranks), text); }

constexpr double long_time = 60, short_time = 0.5;

struct Row {
  int ranks, devices;  // of each rank
  std::int64_t elements;
  bool tcp = false;
  ExchangeKind kind = ExchangeKind::all_reduce;
};

class WorldSums : public testing::TestWithParam<Row> {};

// Every rank's devices hold the sums of all, to the bit those of the group of one process.
template <class T>
void expect_sums(const Row& row) {
  constexpr int rounds = 3;
  const RankAddress address(row.tcp);
  const int devices = row.ranks * row.devices;
  const auto n = static_cast<std::size_t>(row.elements);
  std::mt19937 random(static_cast<unsigned>(row.elements));
  std::vector<std::vector<T>> start(static_cast<std::size_t>(devices), std::vector<T>(n + 1, T(42)));
  for (auto& v : start)
    for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<T>(std::uniform_real_distribution<double>(-1, 1)(random));
  const auto sum = [&](CollectiveGroup& group, std::vector<std::vector<T>>& values, int first, int count) {
    std::vector<std::thread> threads;
    for (int d = first; d < first + count; ++d)
      threads.emplace_back([&, d] {
        for (int round = 0; round < rounds; ++round) {
          ExchangeSpec spec = test::sum_over(devices, row.elements, dtype_of<T>(), round);
          spec.kind = row.kind;
          const auto kernel = group.make(spec, d);
          std::byte* const memory = reinterpret_cast<std::byte*>(values[static_cast<std::size_t>(d)].data());
          kernel->bind({&memory, 1}, {&memory, 1}, nullptr);
          kernel->run({});
        }
      });
    for (std::thread& t : threads) t.join();
  };
  auto want = start, got = start;
  sum(*in_process_group(devices, long_time), want, 0, devices);
  const auto failures = on_ranks(row.ranks, address.text(), long_time, [&](World& world) {
    GroupSpec spec;
    spec.devices.resize(static_cast<std::size_t>(row.devices));
    spec.first_rank = world.rank() * row.devices;
    spec.ranks = row.ranks * row.devices;
    spec.world = &world;
    const auto group = host_group(spec);
    sum(*group, got, spec.first_rank, row.devices);
    world.leave();
  });
  EXPECT_EQ(failures, all(row.ranks, ""));
  EXPECT_EQ(got, want) << "bit for bit; the last element is not summed";
}
TEST_P(WorldSums, AreThoseOfOneProcess) {
  expect_sums<float>(GetParam());
  expect_sums<double>(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Rows, WorldSums,
                         testing::Values(Row{2, 1, 1}, Row{2, 1, 100003}, Row{3, 1, 16384}, Row{4, 1, 0}, Row{4, 1, 70001}, Row{2, 2, 5000},
                                         Row{3, 3, 40001}, Row{5, 1, 3}, Row{3, 1, 300007, true}, Row{3, 1, 70001, false, ExchangeKind::all_max}, Row{2, 3, 5000, false, ExchangeKind::all_max}),
                         [](const auto& info) {
                           const Row& r = info.param;
                           return concat(r.ranks, "_ranks_of_", r.devices, r.kind == ExchangeKind::all_max ? "_largest_" : "_sum_",
                                         r.elements, r.tcp ? "_by_tcp" : "");
                         });

TEST(World, GathersBroadcastsAndAsks) {
  const RankAddress address;
  const auto failures = on_ranks(4, address.text(), long_time, [](World& world) {
    const auto r = static_cast<std::size_t>(world.rank());
    std::vector<std::byte> parts(200000);
    std::fill_n(parts.begin() + static_cast<std::ptrdiff_t>(r * 50000), 50000, std::byte(r + 1));
    world.gather(parts);
    for (std::size_t i = 0; i < parts.size(); ++i) ASSERT_EQ(parts[i], std::byte(i / 50000 + 1)) << i;
    EXPECT_EQ(world.broadcast(r == 0 ? "from the first" : "not mine"), "from the first");
    EXPECT_EQ(world.broadcast(""), "");
    EXPECT_FALSE(world.any(false));
    EXPECT_TRUE(world.any(r == 2));
    world.agree(std::vector<World::Fact>{{"version", "1"}, {"batch-size", "64"}});
    world.leave();
  });
  EXPECT_EQ(failures, all(4, ""));
}

TEST(World, SaysWhatIsNotAlike) {
  const RankAddress address;
  const auto failures = on_ranks(3, address.text(), long_time, [](World& world) {
    world.agree(std::vector<World::Fact>{{"version", "1"}, {"plan", world.rank() == 1 ? "abc" : "abd"}});
  });
  EXPECT_EQ(failures, all(3, "rank 1 has plan abc, rank 0 has abd"));
}
TEST(World, SaysWhatOneAloneHas) {
  const RankAddress address;
  const auto failures = on_ranks(2, address.text(), long_time, [](World& world) {
    world.agree(world.rank() == 0 ? std::vector<World::Fact>{{"lr", "1"}} : std::vector<World::Fact>{});
  });
  EXPECT_EQ(failures, all(2, "rank 1 has lr none, rank 0 has 1"));
}

TEST(World, NamesThoseThatNeverCome) {
  const RankAddress address;
  const auto failures = on_ranks(4, address.text(), short_time, [](World&) {}, [](int r) { return r % 2 == 0; });
  EXPECT_EQ(failures, (std::vector<std::string>{"waited 0.5 s for rank 1, rank 3", "", "waited 0.5 s for rank 1, rank 3", ""}));
}
TEST(World, NamesTheFirstWhereItNeverComes) {
  const RankAddress address;
  const auto failures = on_ranks(2, address.text(), short_time, [](World&) {}, [](int r) { return r == 1; });
  EXPECT_EQ(failures[1], concat("rank 0 does not answer at ", address.text(), " within 0.5 s"));
}

// A rank that rank 0 has greeted and that never comes to its neighbours: it has ended, or it hangs.
struct Lost {
  const char* name;
  int ranks, rank;
  bool hangs;
};
class WorldLost : public testing::TestWithParam<Lost> {};

TEST_P(WorldLost, IsNamedByAllOthers) {
  const Lost& l = GetParam();
  for (const bool tcp : {false, true}) {
    const RankAddress address(tcp);
    const double timeout = l.hangs ? short_time : long_time;
    std::atomic<int> running = l.ranks - 1;
    std::thread lost([&] {
      const Greeting greeting = greet({.rank = l.rank, .ranks = l.ranks, .address = address.text(), .timeout_seconds = long_time});
      while (running > 0 && l.hangs) std::this_thread::yield();
    });
    auto failures = on_ranks(l.ranks, address.text(), timeout, [&](World& world) { world.any(false); }, [&](int r) { return r != l.rank; },
                             [&] { --running; });
    lost.join();
    failures.erase(failures.begin() + l.rank);
    EXPECT_EQ(failures, all(l.ranks - 1, concat(l.hangs ? "waited 0.5 s for rank " : "rank ", l.rank, l.hangs ? "" : " has ended")));
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, WorldLost,
                         testing::Values(Lost{"the_first", 3, 0, false}, Lost{"the_second", 4, 1, false}, Lost{"the_middle", 4, 2, false},
                                         Lost{"the_last", 4, 3, false}, Lost{"the_second_hangs", 4, 1, true},
                                         Lost{"the_middle_hangs", 4, 2, true}, Lost{"the_last_hangs", 4, 3, true}),
                         [](const auto& info) { return std::string(info.param.name); });

// What one rank does in place of a sum, and what all others then say.
struct Trouble {
  const char* name;
  int ranks, rank;
  double timeout;
  std::function<void(World&)> instead;
  std::string message;
};
std::ostream& operator<<(std::ostream& out, const Trouble& t) { return out << t.name; }

class WorldTrouble : public testing::TestWithParam<Trouble> {};

TEST_P(WorldTrouble, IsToldByAllOthers) {
  const Trouble& t = GetParam();
  const RankAddress address;
  std::atomic<int> running = t.ranks - 1;
  const auto failures = on_ranks(t.ranks, address.text(), t.timeout, [&](World& world) {
    std::vector<float> values(1000);
    std::byte* const buffer = reinterpret_cast<std::byte*>(values.data());
    world.all_reduce({&buffer, 1}, 1000, DType::float32, 0);
    if (world.rank() == t.rank) {
      t.instead(world);
      while (running > 0 && t.timeout < long_time) std::this_thread::yield();  // who hangs still lives
      return;
    }
    try {
      world.all_reduce({&buffer, 1}, 1000, DType::float32, 1);
    } catch (...) {
      --running;
      throw;
    }
  });
  for (int r = 0; r < t.ranks; ++r)
    if (r != t.rank) {
      EXPECT_EQ(failures[static_cast<std::size_t>(r)], t.message) << "rank " << r;
    }
}
INSTANTIATE_TEST_SUITE_P(
    Rows, WorldTrouble,
    testing::Values(Trouble{"the_middle_ends", 4, 1, long_time, [](World&) {}, "rank 1 has ended"},
                    Trouble{"the_last_ends", 4, 3, long_time, [](World&) {}, "rank 3 has ended"},
                    Trouble{"the_first_ends", 3, 0, long_time, [](World&) {}, "rank 0 has ended"},
                    Trouble{"one_stops", 3, 2, long_time, [](World& w) { w.stop("the disk is full"); }, "rank 2: the disk is full"},
                    Trouble{"the_first_stops", 3, 0, long_time, [](World& w) { w.stop("the disk is full"); }, "rank 0: the disk is full"},
                    Trouble{"one_hangs", 4, 2, short_time, [](World&) {}, "waited 0.5 s for rank 2"},
                    Trouble{"the_first_hangs", 3, 0, short_time, [](World&) {}, "waited 0.5 s for rank 0"},
                    Trouble{"the_first_of_two_hangs", 2, 0, short_time, [](World&) {}, "waited 0.5 s for rank 0"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(World, WaitsForWhoIsBusy) {
  constexpr double timeout = 2;  // the other ranks come to the call at much the same time, also on a machine with much to do
  const RankAddress address;
  const auto failures = on_ranks(3, address.text(), timeout, [](World& world) {
    world.any(false);  // all are there
    std::unique_ptr<World::Busy> busy;
    if (world.rank() == 1) {
      busy = std::make_unique<World::Busy>(&world);
      std::this_thread::sleep_for(std::chrono::duration<double>(1.5 * timeout));
    }
    EXPECT_TRUE(world.any(world.rank() == 1));
    world.leave();
  });
  EXPECT_EQ(failures, all(3, ""));
}

TEST(World, RefusesCallsThatDiffer) {
  const RankAddress address;
  const auto failures = on_ranks(2, address.text(), long_time, [](World& world) {
    std::vector<std::byte> bytes(world.rank() == 0 ? 8 : 16);
    world.gather(bytes);
  });
  EXPECT_EQ(failures, all(2, "rank 1: it sums 16 bytes of kind 1 on channel 0, rank 0 sums 8 bytes of kind 1 on channel 0"));
}

TEST(World, SharesOutDevices) {
  const RankAddress address;
  const auto failures = on_ranks(2, address.text(), long_time, [](World& world) {
    const DeviceRange range = devices_of(&world, 6);
    EXPECT_EQ(range.first, world.rank() * 3);
    EXPECT_EQ(range.count, 3);
    EXPECT_THROW(devices_of(&world, 3), Error);
    world.leave();
  });
  EXPECT_EQ(failures, all(2, ""));
  EXPECT_EQ(devices_of(nullptr, 3).count, 3);
}

TEST(RankSocket, AddressesAreHostAndPortOrAPath) {
  EXPECT_EQ(to_string(parse_address("node1:29500")), "node1:29500");
  EXPECT_EQ(parse_address("[::1]:5").host, "::1");
  EXPECT_EQ(to_string(parse_address("[::1]:5")), "[::1]:5");
  EXPECT_TRUE(parse_address("unix:/run/x").local());
  for (const char* bad : {"node1", ":5", "node1:", ""}) EXPECT_THROW(parse_address(bad), Error) << bad;
}

}  // namespace
}  // namespace tandem
