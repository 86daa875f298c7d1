// Every kind of exchange among some devices of several ranks (threads of this process, each with its World): they have the bits of the
// group of one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/host_group.h"
#include "ranks/world.h"
#include "tests/ranks/address.h"

namespace tandem {
namespace {

using Bytes = std::vector<std::byte>;
using Groups = std::vector<std::vector<int>>;

constexpr double long_time = 60, short_time = 0.5;

// The groups of a row exchange at once.
struct Row {
  const char* name;
  Groups groups;
  int ranks = 4, devices = 1;  // of each rank
  bool tcp = false;
};
std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

// The numbers of elements of a kind, for so many members.
struct Size {
  std::int64_t elements;
  bool uneven;
};
constexpr Size sizes[] = {{0, false}, {1, true}, {24, false}, {60000, true}, {200000, false}};

std::vector<std::int64_t> cut(std::int64_t n, std::size_t members, bool uneven) {
  std::vector<std::int64_t> parts(members, uneven ? 0 : n / static_cast<std::int64_t>(members));
  std::int64_t rest = n;
  for (std::size_t m = 0; m + 1 < members; ++m) rest -= parts[m] = uneven ? rest / 6 * (m == 1 ? 0 : 1) : parts[m];
  parts.back() = rest;
  return parts;
}

ExchangeSpec spec_of(ExchangeKind kind, const std::vector<int>& members, const Size& size, DType dtype) {
  ExchangeSpec s{.kind = kind, .members = members, .elements = size.elements, .dtype = dtype, .parts = {}};
  const bool swaps = kind == ExchangeKind::all_to_all;
  if (swaps) s.elements = size.elements / 36 * 36 * static_cast<std::int64_t>(members.size() * members.size());  // every share of every share is whole
  if (kind == ExchangeKind::all_gather || kind == ExchangeKind::reduce_scatter || swaps) s.parts = cut(s.elements, members.size(), size.uneven);
  if (swaps) s.gets = cut(s.elements, members.size(), false);
  return s;
}

// Bytes that member m gives and gets; -1: it has no such buffer.
std::pair<std::int64_t, std::int64_t> bytes_of(const ExchangeSpec& s, std::size_t m) {
  const auto size = static_cast<std::int64_t>(size_of(s.dtype));
  const std::int64_t all = s.elements * size, part = s.parts.empty() ? 0 : s.parts[m] * size;
  switch (s.kind) {
    case ExchangeKind::all_reduce:
    case ExchangeKind::all_max: return {-1, all};
    case ExchangeKind::reduce_scatter: return {all, part};
    case ExchangeKind::all_gather: return {part, all};
    case ExchangeKind::broadcast:
    case ExchangeKind::send: return {m == 0 ? all : -1, m == 0 ? -1 : all};
    case ExchangeKind::reduce: return {all, m == 0 ? all : -1};
    case ExchangeKind::all_to_all: return {part, s.gets[m] * size};
  }
  return {};
}

Bytes drawn(std::int64_t bytes, const ExchangeSpec& s, int device, int round) {
  Bytes b(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0)));
  std::minstd_rand random(static_cast<unsigned>(s.elements + 100 * device + round + 1));
  const auto value = [&] { return static_cast<double>(random()) / std::minstd_rand::max() - 0.5; };
  const auto fill = [&]<class T>(T) {
    for (std::size_t i = 0; i + sizeof(T) <= b.size(); i += sizeof(T)) {
      const T v = static_cast<T>(1e3 * value());
      std::memcpy(&b[i], &v, sizeof v);
    }
  };
  if (s.dtype == DType::float32) fill(float{});
  else if (s.dtype == DType::float64) fill(double{});
  else fill(std::int16_t{});
  return b;
}

// What a device has after three rounds of every exchange that it is a member of, one behind the other.
Bytes run(CollectiveGroup& group, std::span<const ExchangeSpec> specs, int device) {
  struct Own {
    const ExchangeSpec* spec;
    std::pair<std::int64_t, std::int64_t> bytes;
    std::unique_ptr<Kernel> kernel;
  };
  std::vector<Own> own;
  for (const ExchangeSpec& s : specs)
    if (const auto m = std::find(s.members.begin(), s.members.end(), device); m != s.members.end())
      own.push_back({&s, bytes_of(s, static_cast<std::size_t>(m - s.members.begin())), group.make(s, device)});
  Bytes all;
  for (int round = 0; round < 3; ++round)
    for (const auto& [spec, bytes, kernel] : own) {
      Bytes gives = drawn(bytes.first, *spec, device, round), gets(static_cast<std::size_t>(std::max<std::int64_t>(0, bytes.second)), std::byte{7});
      if (is_in_place(spec->kind)) gets = drawn(bytes.second, *spec, device, round);
      gives.resize(gives.size() + 1);  // has an address
      gets.resize(gets.size() + 1, std::byte{42});
      std::byte *const in = gives.data(), *const out = gets.data();
      kernel->bind({&in, bytes.first < 0 ? 0U : 1U}, {&out, bytes.second < 0 ? 0U : 1U}, nullptr);
      kernel->run({});
      all.insert(all.end(), gets.begin(), gets.end());
    }
  return all;
}

void run_devices(CollectiveGroup& group, std::span<const ExchangeSpec> specs, int first, int count, std::vector<Bytes>& results) {
  std::vector<std::thread> threads;
  for (int d = first; d < first + count; ++d) threads.emplace_back([&, d] { results[static_cast<std::size_t>(d)] = run(group, specs, d); });
  for (std::thread& t : threads) t.join();
}

GroupSpec group_of(World& world, int devices) {
  GroupSpec spec;
  spec.devices.resize(static_cast<std::size_t>(devices));
  spec.first_rank = world.rank() * devices;
  spec.ranks = world.ranks() * devices;
  spec.world = &world;
  return spec;
}

// Runs body(world) in a thread for each rank; returns what each failed with, empty where it did not.
template <class Body>
std::vector<std::string> on_ranks(int ranks, const std::string& address, double timeout, const Body& body) {
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        World world({.rank = r, .ranks = ranks, .address = address, .timeout_seconds = timeout, .secret = "of this run"});
        body(world);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::communication);
        failures[static_cast<std::size_t>(r)] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  return failures;
}

constexpr ExchangeKind kinds[] = {ExchangeKind::all_reduce, ExchangeKind::all_max,   ExchangeKind::reduce_scatter, ExchangeKind::all_gather,
                                  ExchangeKind::broadcast,  ExchangeKind::send,      ExchangeKind::reduce,         ExchangeKind::all_to_all};
bool folds(ExchangeKind k) { return is_in_place(k) || k == ExchangeKind::reduce_scatter || k == ExchangeKind::reduce; }

class RankExchanges : public testing::TestWithParam<Row> {};

TEST_P(RankExchanges, HaveTheBitsOfOneProcess) {
  const Row& row = GetParam();
  std::vector<ExchangeSpec> specs;
  for (const ExchangeKind kind : kinds)
    for (const DType dtype : folds(kind) ? std::vector{DType::float32, DType::float64} : std::vector{DType::float32, DType::bfloat16, DType::int64})
      for (const Size& size : sizes)
        for (const std::vector<int>& members : row.groups) {
          if (kind == ExchangeKind::send && members.size() != 2) continue;
          specs.push_back(spec_of(kind, members, size, dtype));
          specs.back().channel = static_cast<int>(specs.size());
        }
  const int devices = row.ranks * row.devices;
  std::vector<Bytes> want(static_cast<std::size_t>(devices)), got = want;
  run_devices(*in_process_group(devices, long_time), specs, 0, devices, want);
  const test::RankAddress address(row.tcp);
  const auto failures = on_ranks(row.ranks, address.text(), long_time, [&](World& world) {
    const auto group = host_group(group_of(world, row.devices));
    group->connect(specs);
    run_devices(*group, specs, world.rank() * row.devices, row.devices, got);
    world.leave();
  });
  EXPECT_EQ(failures, std::vector<std::string>(static_cast<std::size_t>(row.ranks)));
  for (int d = 0; d < devices; ++d) EXPECT_TRUE(got[static_cast<std::size_t>(d)] == want[static_cast<std::size_t>(d)]) << "device " << d;
}
INSTANTIATE_TEST_SUITE_P(Rows, RankExchanges,
                         testing::Values(Row{"neighbours", {{0, 1}, {2, 3}}}, Row{"every_other", {{0, 2}, {1, 3}}}, Row{"one_alone", {{0}, {1, 3, 2}}},
                                         Row{"in_another_order", {{3, 0, 2}}}, Row{"all_but_sums_over_all", {{0, 1, 2, 3}}},
                                         Row{"columns_over_two_ranks", {{0, 2}, {1, 3}}, 2, 2}, Row{"rows_of_two_ranks", {{0, 1}, {2, 3}}, 2, 2},
                                         Row{"unlike_shares_of_ranks", {{0, 1, 3}, {5, 4, 2}}, 3, 2}, Row{"by_tcp", {{0, 2}, {1, 3}}, 4, 1, true}),
                         [](const auto& row) { return std::string(row.param.name); });

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
  std::string message;  // or a part of it
};
std::ostream& operator<<(std::ostream& out, const Trouble& t) { return out << t.name; }

class RankTrouble : public testing::TestWithParam<Trouble> {};

ExchangeSpec sum_of(std::vector<int> members, int channel) {
  ExchangeSpec s{.kind = ExchangeKind::all_reduce, .members = std::move(members), .elements = 1 << 20, .parts = {}};
  s.channel = channel;
  return s;
}

TEST_P(RankTrouble, IsToldByAllOthers) {
  const Trouble& t = GetParam();
  const std::vector<ExchangeSpec> specs{sum_of({1, 2}, 0), sum_of({0, 3}, 1), sum_of({0, 1, 2, 3}, 2)};
  const test::RankAddress address;
  std::atomic<int> running = 3;
  const auto failures = on_ranks(4, address.text(), t.timeout, [&](World& world) {
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
  });
  for (int r = 0; r < 4; ++r)
    if (r != t.rank) {
      EXPECT_NE(failures[static_cast<std::size_t>(r)].find(t.message), std::string::npos) << "rank " << r << ": " << failures[static_cast<std::size_t>(r)];
    }
}
INSTANTIATE_TEST_SUITE_P(
    Rows, RankTrouble,
    testing::Values(Trouble{"one_ends", 2, long_time, [](World&, CollectiveGroup&) {}, "rank 2 has ended"}, Trouble{"the_first_ends", 0, long_time, [](World&, CollectiveGroup&) {}, "rank 0 has ended"},
                    Trouble{"one_stops", 3, long_time, [](World&, CollectiveGroup& g) { g.abort("the disk is full"); }, "rank 3: the disk is full"},
                    Trouble{"one_hangs", 1, short_time, [](World&, CollectiveGroup&) {}, "waited 0.5 s for rank 1"}, Trouble{"the_first_hangs", 0, short_time, [](World&, CollectiveGroup&) {}, "waited 0.5 s for rank 0"},
                    Trouble{"one_exchanges_less", 2, long_time,
                            [](World& w, CollectiveGroup& g) {
                              ExchangeSpec less = sum_of({1, 2}, 3);
                              less.elements = 100;
                              EXPECT_THROW(run(g, std::span(&less, 1), w.rank()), Error);
                            },
                            " bytes of kind 0 on channel 3"}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace tandem
