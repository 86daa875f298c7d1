// Times of exchanges among all ranks, on hosts of this machine, beside a model: rank_routes [RATE DELAY [RANKS...]], in bits a second and
// seconds; without them the hosts' network is as fast as this machine. Writes Markdown: a table for each number of ranks, with milliseconds
// of each exchange and size, measured / model. Measured is the median of `rounds` means of `calls` calls in a row.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <vector>

#include "kernels/host_group.h"
#include "ranks/world.h"
#include "tests/ranks/hosts.h"

namespace tandem {
namespace {

constexpr std::int64_t sizes[] = {1, 1 << 14, 1 << 18};  // float32, of the whole value, a multiple of the ranks where it is cut
constexpr int rounds = 5, calls = 3;

// Seconds of messages, and how often the whole value goes over the slowest cable one way, among N ranks.
struct Model {
  double (*messages)(double n);
  double (*times)(double n);
};
struct Row {
  const char* name;
  ExchangeKind kind;
  Route sums;
  Model model;
};
constexpr auto one = [](double n) { return n > 1 ? 1.0 : 0.0; };
constexpr auto share = [](double n) { return (n - 1) / n; };
constexpr auto turns = [](double n) { return n > 2 ? 2.0 : n - 1; };  // an inner rank's cable takes partial and whole sums
constexpr auto two_shares = [](double n) { return 2 * share(n); };
constexpr Row rows[] = {
    {"all_reduce, chain", ExchangeKind::all_reduce, Route::chain, {[](double n) { return 2 * (n - 1); }, turns}},
    {"all_reduce, pairs", ExchangeKind::all_reduce, Route::pairs, {[](double n) { return 2 * one(n); }, two_shares}},
    {"reduce_scatter", ExchangeKind::reduce_scatter, Route::pairs, {one, share}},
    {"all_gather", ExchangeKind::all_gather, Route::pairs, {one, share}},
    {"all_to_all", ExchangeKind::all_to_all, Route::pairs, {one, [](double n) { return (n - 1) / (n * n); }}},
    {"broadcast", ExchangeKind::broadcast, Route::pairs, {one, [](double n) { return n - 1; }}},
};

ExchangeSpec spec_of(const Row& row, int ranks, std::int64_t elements, int channel) {
  const bool swaps = row.kind == ExchangeKind::all_to_all;
  const bool parts = swaps || row.kind == ExchangeKind::all_gather || row.kind == ExchangeKind::reduce_scatter;
  if (parts) elements = std::max<std::int64_t>(elements, ranks * ranks);
  ExchangeSpec s{.kind = row.kind, .members = std::vector<int>(static_cast<std::size_t>(ranks)), .elements = elements, .parts = {}};
  std::iota(s.members.begin(), s.members.end(), 0);
  s.channel = channel;
  if (parts) s.parts.assign(static_cast<std::size_t>(ranks), elements / ranks);
  if (swaps) s.gets = s.parts;
  return s;
}

// Seconds of a call by size, from when the last rank has come to when the last one has gone: the hosts share a clock. Calls of a broadcast
// do not wait for each other, so one is taken alone.
std::vector<double> times_of(const Row& row, World& world) {
  GroupSpec group_spec{.devices = {0}};
  group_spec.first_rank = world.rank();
  group_spec.ranks = world.ranks();
  group_spec.world = &world;
  const auto group = host_group(group_spec);
  std::vector<double> medians;
  for (const std::int64_t elements : sizes) {
    const ExchangeSpec s = spec_of(row, world.ranks(), elements, static_cast<int>(elements));
    group->connect({&s, 1});
    std::vector<float> gives(static_cast<std::size_t>(s.elements), 1), gets(gives.size());
    std::byte *const in = reinterpret_cast<std::byte*>(gives.data()), *const out = reinterpret_cast<std::byte*>(gets.data());
    const auto kernel = group->make(s, world.rank());
    const bool in_place = is_in_place(row.kind), one_gives = row.kind == ExchangeKind::broadcast;
    const bool has_in = !in_place && (!one_gives || world.rank() == 0), has_out = !one_gives || world.rank() != 0;
    kernel->bind({&in, has_in ? 1U : 0U}, {&out, has_out ? 1U : 0U}, nullptr);
    const int in_a_row = one_gives ? 1 : calls;
    std::vector<double> means;
    for (int i = 0; i <= rounds; ++i) {
      std::vector<double> begun(static_cast<std::size_t>(world.ranks())), ended = begun;
      const auto now = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
      world.any(false);
      begun[static_cast<std::size_t>(world.rank())] = now();
      for (int c = 0; c < in_a_row; ++c) kernel->run({});
      ended[static_cast<std::size_t>(world.rank())] = now();
      world.gather(std::as_writable_bytes(std::span(begun)));
      world.gather(std::as_writable_bytes(std::span(ended)));
      if (i > 0) means.push_back((std::ranges::max(ended) - std::ranges::max(begun)) / in_a_row);  // the first warms up
    }
    std::ranges::sort(means);
    medians.push_back(means[means.size() / 2]);
  }
  return medians;
}

void be_rank(const Row& row, int rank, int ranks, const test::Cable& cable) {
  World world({.rank = rank,
               .ranks = ranks,
               .address = test::Hosts::ipv4(0) + ":29700",
               .timeout_seconds = 60,
               .secret = "of this run",
               .sums = row.sums});
  const std::vector<double> times = times_of(row, world);
  if (rank == 0) {
    std::printf("| %s", row.name);
    for (std::size_t i = 0; i < times.size(); ++i) {
      std::printf(" | %.3g", 1e3 * times[i]);
      const double bytes = 4 * static_cast<double>(spec_of(row, ranks, sizes[i], 0).elements);
      const double model = row.model.messages(ranks) * cable.delay + row.model.times(ranks) * bytes * 8 / std::max(cable.rate, 1.0);
      if (cable.rate > 0) std::printf(" / %.3g", 1e3 * model);
    }
    std::printf(" |\n");
    std::fflush(stdout);
  }
  world.leave();
}

int measure(const test::Cable& cable, const std::vector<int>& counts) {
  if (const std::string why = test::Hosts::missing(); !why.empty()) {
    std::cerr << "skipped: " << why << '\n';
    return 77;
  }
  for (const int ranks : counts) {
    std::printf("\n| %d ranks | 4 bytes | 64 KiB | 1 MiB |\n|---|---|---|---|\n", ranks);
    std::fflush(stdout);
    for (const Row& row : rows) {
      const test::Hosts hosts(ranks, cable);
      std::vector<pid_t> children;
      for (int r = 0; r < ranks; ++r)
        hosts.on(r, [&] {
          children.push_back(::fork());
          if (children.back() != 0) return;
          try {
            be_rank(row, r, ranks, cable);
          } catch (const std::exception& e) {
            std::cerr << row.name << ": " << e.what() << '\n';
          }
          ::_exit(0);
        });
      for (const pid_t child : children) ::waitpid(child, nullptr, 0);
    }
  }
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int count, char** words) {
  const tandem::test::Cable cable = count > 2 ? tandem::test::Cable{std::atof(words[1]), std::atof(words[2])} : tandem::test::Cable{};
  std::vector<int> ranks;
  for (int i = 3; i < count; ++i) ranks.push_back(std::atoi(words[i]));
  return tandem::measure(cable, ranks.empty() ? std::vector{1, 2, 4, 8} : ranks);
}
