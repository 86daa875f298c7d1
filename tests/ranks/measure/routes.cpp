// Times of a sum over all ranks by each route, on hosts of this machine: rank_routes [RATE DELAY], in bits a second and seconds; without
// them the hosts' network is as fast as this machine. A line for each number of ranks, route and size: the shortest mean of three.
#include <sys/wait.h>
#include <unistd.h>

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

constexpr std::int64_t sizes[] = {1, 1 << 14, 1 << 18};  // float32
constexpr int rounds = 3, sums = 5;

void be_rank(int rank, int ranks, Route route, const char* name) {
  World world({.rank = rank,
               .ranks = ranks,
               .address = test::Hosts::ipv4(0) + ":29700",
               .timeout_seconds = 60,
               .secret = "of this run",
               .sums = route});
  GroupSpec spec{.devices = {0}};
  spec.first_rank = rank;
  spec.ranks = ranks;
  spec.world = &world;
  const auto group = host_group(spec);
  for (const std::int64_t elements : sizes) {
    ExchangeSpec s{
        .kind = ExchangeKind::all_reduce, .members = std::vector<int>(static_cast<std::size_t>(ranks)), .elements = elements, .parts = {}};
    std::iota(s.members.begin(), s.members.end(), 0);
    s.channel = static_cast<int>(elements);
    group->connect({&s, 1});
    std::vector<float> values(static_cast<std::size_t>(elements), 1);
    std::byte* const buffer = reinterpret_cast<std::byte*>(values.data());
    const auto kernel = group->make(s, rank);
    kernel->bind({}, {&buffer, 1}, nullptr);
    double least = 1e9;
    for (int i = 0; i < rounds; ++i) {
      kernel->run({});
      const auto begin = std::chrono::steady_clock::now();
      for (int sum = 0; sum < sums; ++sum) kernel->run({});
      least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / sums);
    }
    if (rank == 0) std::printf("%d ranks  %-8s  %8lld bytes  %9.3f ms\n", ranks, name, static_cast<long long>(4 * elements), 1e3 * least);
  }
  std::fflush(stdout);
  world.leave();
}

int measure(const test::Cable& cable) {
  if (const std::string why = test::Hosts::missing(); !why.empty()) {
    std::cerr << "skipped: " << why << '\n';
    return 77;
  }
  constexpr std::pair<Route, const char*> routes[] = {{Route::chain, "chain"}, {Route::pairs, "pairs"}, {Route::measured, "measured"}};
  for (const int ranks : {2, 4, 8})
    for (const auto& [route, name] : routes) {
      const test::Hosts hosts(ranks, cable);
      std::vector<pid_t> children;
      for (int r = 0; r < ranks; ++r)
        hosts.on(r, [&] {
          children.push_back(::fork());
          if (children.back() != 0) return;
          try {
            be_rank(r, ranks, route, name);
          } catch (const std::exception& e) {
            std::cerr << e.what() << '\n';
          }
          ::_exit(0);
        });
      for (const pid_t child : children) ::waitpid(child, nullptr, 0);
    }
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int count, char** words) {
  return tandem::measure(count == 3 ? tandem::test::Cable{std::atof(words[1]), std::atof(words[2])} : tandem::test::Cable{});
}
