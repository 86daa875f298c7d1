// Every kind of exchange among some devices of several ranks (threads of this process, each with its World): they have the bits of the
// group of one process.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/host_group.h"
#include "ranks/shared_memory.h"
#include "ranks/world.h"
#include "tests/ranks/address.h"
#include "tests/ranks/exchange_rows.h"

namespace tandem {
namespace {

constexpr double long_time = 60, short_time = 0.5;

// The groups of a row exchange at once.
struct Row {
  const char* name;
  Groups groups;
  int ranks = 4, devices = 1;  // of each rank
  bool tcp = false;
  // Measured goes through memory, but by TCP; the others over lines.
  std::vector<Route> sums = {Route::measured, Route::chain};
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.name;
}

// Runs body(world) in a thread for each rank; returns what each failed with, empty where it did not.
template <class Body>
std::vector<std::string> on_ranks(int ranks, const std::string& address, double timeout, const Body& body, Route sums = Route::measured) {
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        World world({.rank = r, .ranks = ranks, .address = address, .timeout_seconds = timeout, .secret = "of this run", .sums = sums});
        body(world);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::communication);
        failures[static_cast<std::size_t>(r)] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  return failures;
}

class RankExchanges : public testing::TestWithParam<Row> {};

TEST_P(RankExchanges, HaveTheBitsOfOneProcess) {
  const Row& row = GetParam();
  const std::vector<ExchangeSpec> specs = all_specs(row.groups);
  const int devices = row.ranks * row.devices;
  std::vector<Bytes> want(static_cast<std::size_t>(devices));
  run_devices(*in_process_group(devices, long_time), specs, 0, devices, want);
  for (const Route sums : row.sums) {
    const test::RankAddress address(row.tcp);
    std::vector<Bytes> got(want.size());
    const auto failures = on_ranks(
        row.ranks, address.text(), long_time,
        [&](World& world) {
          const auto group = host_group(group_of(world, row.devices));
          group->connect(specs);
          run_devices(*group, specs, world.rank() * row.devices, row.devices, got);
          world.leave();
        },
        sums);
    EXPECT_EQ(failures, std::vector<std::string>(static_cast<std::size_t>(row.ranks)));
    for (int d = 0; d < devices; ++d)
      EXPECT_TRUE(got[static_cast<std::size_t>(d)] == want[static_cast<std::size_t>(d)])
          << "device " << d << ", route " << static_cast<int>(sums);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, RankExchanges,
                         testing::Values(Row{"neighbours", {{0, 1}, {2, 3}}}, Row{"every_other", {{0, 2}, {1, 3}}},
                                         Row{"one_alone", {{0}, {1, 3, 2}}}, Row{"in_another_order", {{3, 0, 2}}},
                                         Row{"all", {{0, 1, 2, 3}}},
                                         Row{"all_along_the_chain", {{0, 1, 2, 3}}, 4, 1, false, {Route::chain}},
                                         Row{"all_of_one_rank", {{0, 1}}, 1, 2},
                                         Row{"all_by_pairs", {{0, 1, 2, 3}}, 4, 1, false, {Route::pairs}},
                                         Row{"all_by_pairs_of_two_ranks", {{0, 1, 2, 3}}, 2, 2, true, {Route::pairs}},
                                         Row{"columns_over_two_ranks", {{0, 2}, {1, 3}}, 2, 2},
                                         Row{"rows_of_two_ranks", {{0, 1}, {2, 3}}, 2, 2},
                                         Row{"unlike_shares_of_ranks", {{0, 1, 3}, {5, 4, 2}}, 3, 2},
                                         Row{"by_tcp", {{0, 2}, {1, 3}}, 4, 1, true}),
                         [](const auto& row) { return std::string(row.param.name); });

// More than the memory between processes holds at a time.
TEST(RankMemory, CarriesLongValuesInPieces) {
  constexpr int devices = 4;
  std::vector<ExchangeSpec> specs;
  for (const ExchangeKind kind : kinds) {
    const std::int64_t elements = kind == ExchangeKind::all_to_all ? 200'000 : 1'200'001;
    const std::vector<int> members = kind == ExchangeKind::send ? std::vector{3, 1} : std::vector{2, 0, 1, 3};
    specs.push_back(spec_of(kind, members, {elements, true}, DType::float32));
    specs.back().channel = static_cast<int>(specs.size());
  }
  std::vector<Bytes> want(devices), got(devices);
  run_devices(*in_process_group(devices, long_time), specs, 0, devices, want);
  const test::RankAddress address;
  const auto failures = on_ranks(2, address.text(), long_time, [&](World& world) {
    const auto group = host_group(group_of(world, 2));
    group->connect(specs);
    run_devices(*group, specs, 2 * world.rank(), 2, got);
    EXPECT_LT(world.messages(), 100U);
    world.leave();
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
  for (std::size_t d = 0; d < devices; ++d) EXPECT_TRUE(got[d] == want[d]) << "device " << d;
}

TEST(RankMemory, IsFoundByWhoMayReachItAlone) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ranks have no memory in common there";
#endif
  const auto made = SharedMemory::create(100);
  ASSERT_TRUE(made);
  made->data()[99] = std::byte{5};
  const auto found = SharedMemory::find(made->name());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->data()[99], std::byte{5});
  EXPECT_NE(found->data(), made->data());
  std::string other = made->name();
  other.back() = static_cast<char>(other.back() + 1);  // of another run, whose process had this one's number
  EXPECT_FALSE(SharedMemory::find(other));
  EXPECT_FALSE(SharedMemory::find(""));
  EXPECT_FALSE(SharedMemory::create(std::int64_t{1} << 62));
}

// Groups do not wait for each other: one goes through all of its exchanges while the other has not begun.
TEST(RankGroups, GoOnBesideEachOther) {
  std::vector<ExchangeSpec> specs;
  for (const auto& members : Groups{{0, 2}, {1, 3}}) {
    specs.push_back({.kind = ExchangeKind::all_reduce, .members = members, .elements = 50000, .parts = {}});
    specs.back().channel = static_cast<int>(specs.size());
  }
  std::atomic<int> ended = 0;
  const test::RankAddress address;
  std::vector<Bytes> results(4);
  const auto failures = on_ranks(2, address.text(), long_time, [&](World& world) {
    const auto group = host_group(group_of(world, 2));
    group->connect(specs);
    const int first = 2 * world.rank();
    std::thread early([&] {
      results[static_cast<std::size_t>(first)] = run(*group, specs, first);
      ++ended;
    });
    while (ended < 2) std::this_thread::yield();
    results[static_cast<std::size_t>(first) + 1] = run(*group, specs, first + 1);
    early.join();
    world.leave();
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
  EXPECT_EQ(results[1], results[3]);
}

// A device may exchange on two streams, and the others on other ones.
TEST(RankGroups, StreamsGoOnBesideEachOther) {
  std::vector<ExchangeSpec> specs;
  for (const int stream : {0, 1}) {
    specs.push_back({.kind = ExchangeKind::all_gather, .members = {0, 1}, .elements = 50000, .parts = {20000, 30000}, .channel = stream});
    specs.back().streams = {stream, 1 - stream};
  }
  const test::RankAddress address;
  const auto failures = on_ranks(2, address.text(), long_time, [&](World& world) {
    const auto group = host_group(group_of(world, 1));
    group->connect(std::span(specs).first(1));
    group->connect(specs);  // opens what is missing
    const std::span<const ExchangeSpec> all = specs;
    std::thread other([&] { run(*group, all.last(1), world.rank()); });
    run(*group, all.first(1), world.rank());
    other.join();
    world.leave();
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

// What one rank does in place of an exchange of {1, 2} or {0, 3}, and what all others then say.
struct Trouble {
  const char* name;
  int rank;
  double timeout;
  std::function<void(World&, CollectiveGroup&)> instead;
  std::string message;    // or a part of it
  bool of_lines = false;  // which carry what is called: memory that a plan's exchanges share has no place for another
};
std::ostream& operator<<(std::ostream& out, const Trouble& t) {
  return out << t.name;
}

class RankTrouble : public testing::TestWithParam<Trouble> {};

ExchangeSpec sum_of(std::vector<int> members, int channel) {
  ExchangeSpec s{.kind = ExchangeKind::all_reduce, .members = std::move(members), .elements = 1 << 20, .parts = {}};
  s.channel = channel;
  return s;
}

void expect_told(const Trouble& t, Route sums) {
  const std::vector<ExchangeSpec> specs{sum_of({1, 2}, 0), sum_of({0, 3}, 1), sum_of({0, 1, 2, 3}, 2)};
  const test::RankAddress address;
  std::atomic<int> running = 3;
  const auto body = [&](World& world) {
    const auto group = host_group(group_of(world, 1));
    group->connect(specs);
    run(*group, specs, world.rank());
    if (world.rank() == t.rank) {
      t.instead(world, *group);
      while (running > 0 && t.timeout < long_time) std::this_thread::yield();  // who hangs still lives
      return;
    }
    try {
      for (int i = 0; i < 20; ++i) run(*group, specs, world.rank());
    } catch (...) {
      --running;
      throw;
    }
  };
  const auto failures = on_ranks(4, address.text(), t.timeout, body, sums);
  for (int r = 0; r < 4; ++r)
    if (r != t.rank) {
      EXPECT_NE(failures[static_cast<std::size_t>(r)].find(t.message), std::string::npos)
          << "rank " << r << ", route " << static_cast<int>(sums) << ": " << failures[static_cast<std::size_t>(r)];
    }
}

TEST_P(RankTrouble, IsToldByAllOthers) {
  expect_told(GetParam(), Route::chain);
  if (!GetParam().of_lines) expect_told(GetParam(), Route::measured);  // through memory
}
INSTANTIATE_TEST_SUITE_P(Rows, RankTrouble,
                         testing::Values(Trouble{"one_ends", 2, long_time, [](World&, CollectiveGroup&) {}, "rank 2 has ended"},
                                         Trouble{"the_first_ends", 0, long_time, [](World&, CollectiveGroup&) {}, "rank 0 has ended"},
                                         Trouble{"one_stops", 3, long_time, [](World&, CollectiveGroup& g) { g.abort("the disk is full"); },
                                                 "rank 3: the disk is full"},
                                         Trouble{"one_hangs", 1, short_time, [](World&, CollectiveGroup&) {}, "waited 0.5 s for rank 1"},
                                         Trouble{"the_first_hangs", 0, short_time, [](World&, CollectiveGroup&) {},
                                                 "waited 0.5 s for rank 0"},
                                         Trouble{"one_exchanges_less", 2, long_time,
                                                 [](World& w, CollectiveGroup& g) {
                                                   ExchangeSpec less = sum_of({1, 2}, 3);
                                                   less.elements = 100;
                                                   EXPECT_THROW(run(g, std::span(&less, 1), w.rank()), Error);
                                                 },
                                                 " bytes of kind 0 on channel 3", true}),
                         [](const auto& row) { return std::string(row.param.name); });

// A rank that is a process, and is killed in the midst of its exchanges. The others say why they end through a pipe.
TEST(RankGroups, NameAProcessThatIsKilled) {
  constexpr int ranks = 4, killed = 2;
  const std::vector<ExchangeSpec> specs{sum_of({1, 2}, 0), sum_of({0, 3}, 1), sum_of({3, 1}, 2)};
  const test::RankAddress address;
  std::array<std::array<int, 2>, ranks> pipes{};
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    ASSERT_EQ(::pipe(pipes[static_cast<std::size_t>(r)].data()), 0);
    children.push_back(::fork());
    if (children.back() != 0) continue;
    std::string reason = "it ended";
    try {
      World world({.rank = r, .ranks = ranks, .address = address.text(), .timeout_seconds = long_time});
      const auto group = host_group(group_of(world, 1));
      group->connect(specs);
      std::thread killer;
      if (r == killed)
        killer = std::thread([] {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          ::kill(::getpid(), SIGKILL);
        });
      for (;;) run(*group, specs, r);
    } catch (const Error& e) {
      reason = e.what();
    }
    const ssize_t written = ::write(pipes[static_cast<std::size_t>(r)][1], reason.data(), reason.size());
    ::_exit(written < 0 ? 1 : 0);
  }
  for (int r = 0; r < ranks; ++r) {
    const auto [out, in] = pipes[static_cast<std::size_t>(r)];
    ::close(in);
    char text[256];
    const ssize_t n = ::read(out, text, sizeof text);
    ::close(out);
    EXPECT_EQ(std::string(text, static_cast<std::size_t>(std::max<ssize_t>(n, 0))), r == killed ? "" : "rank 2 has ended") << "rank " << r;
    int status = 0;
    ::waitpid(children[static_cast<std::size_t>(r)], &status, 0);
  }
}

}  // namespace
}  // namespace tandem
