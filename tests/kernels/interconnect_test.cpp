// How long exchanges take by the devices' links: against published measurements, and never less for more bytes or slower links.
#include "kernels/interconnect.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "kernels/described/device_kind.h"

namespace tandem {
namespace {

std::vector<int> first(int n) {
  std::vector<int> members(static_cast<std::size_t>(n));
  std::iota(members.begin(), members.end(), 0);
  return members;
}

const Interconnect& links_of(std::string_view name) { return find_device_kind(known_device_kinds(), name)->links; }

// nccl-tests' bus bandwidth of an all-reduce, GB/s: stas00/ml-engineering, network benchmarks, B200.
TEST(Interconnects, SumsOfEightB200sAreWithinAQuarterOfTheMeasured) {
  for (const auto& [mib, measured] : {std::pair{1, 36.0}, {16, 255.0}, {64, 401.0}, {128, 568.0}, {1024, 723.0}, {16384, 846.0}}) {
    const double bytes = mib * double(1 << 20);
    const double seconds = exchange_seconds(links_of("b200"), ExchangeKind::all_reduce, first(8), bytes, false);
    const double bus = bytes * 1.75 / seconds / 1e9;
    EXPECT_NEAR(bus / measured, 1, 0.25) << mib << " MiB: " << bus << " GB/s";
  }
}

// The same source: sums in the switch are off where they are to be in rank order.
TEST(Interconnects, SumsInOrderGoWithoutTheSwitch) {
  const double bytes = 16 * double(1 << 30);
  for (const auto& [name, measured] : {std::pair{"h200", 367.2}, {"b200", 682.0}}) {
    const double seconds = exchange_seconds(links_of(name), ExchangeKind::all_reduce, first(8), bytes, true);
    EXPECT_NEAR(bytes * 1.75 / seconds / 1e9 / measured, 1, 0.1) << name;
    EXPECT_LT(exchange_seconds(links_of(name), ExchangeKind::all_reduce, first(8), bytes, false), seconds) << name;
  }
}

TEST(Interconnects, MachinesAreReachedOverTheNetwork) {
  const double bytes = 1 << 30;
  const auto seconds = [&](std::vector<int> members) {
    return exchange_seconds(links_of("h100"), ExchangeKind::all_reduce, members, bytes, false);
  };
  EXPECT_NEAR(seconds({0, 8}) / (bytes / 48e9), 1, 0.1) << "a network card each";
  EXPECT_NEAR(seconds({0, 1}) / (bytes / 367e9), 1, 0.15) << "NVLink, and no switch of two";
  EXPECT_GT(seconds(first(64)), seconds(first(8)));
  EXPECT_GT(seconds({0, 8, 16, 24}), 4 * seconds(first(4))) << "four in one machine are nearer than four in four";
}

TEST(Interconnects, OneDeviceAndNoLinksCostNothingButTheBeginning) {
  EXPECT_EQ(exchange_seconds(links_of("h100"), ExchangeKind::all_reduce, first(1), 1e9, false), 0);
  EXPECT_EQ(exchange_seconds({.levels = {}, .begin_seconds = 1e-6}, ExchangeKind::send, first(2), 1e9, false), 1e-6);
}

TEST(Interconnects, MoreBytesFasterLinksAndMoreMembersAreMonotone) {
  std::mt19937 random(7);
  const auto pick = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  for (int trial = 0; trial < 2000; ++trial) {
    Interconnect links{.levels = {{.name = "near",
                                   .devices = 4,
                                   .bandwidth = pick(1e9, 1e12),
                                   .switch_bandwidth = trial % 2 ? pick(1e9, 1e12) : 0,
                                   .hop_seconds = pick(0, 1e-5)},
                                  {.name = "far", .bandwidth = pick(1e8, 1e11), .hop_seconds = pick(0, 1e-4)}},
                       .begin_seconds = pick(0, 1e-5),
                       .switch_seconds = pick(0, 1e-4)};
    const auto kind = static_cast<ExchangeKind>(trial % 8);
    const int n = 2 + trial % 30;
    const double bytes = std::pow(10, pick(0, 10));
    const double now = exchange_seconds(links, kind, first(n), bytes, false);
    EXPECT_LE(now, exchange_seconds(links, kind, first(n), bytes * pick(1, 10), false));
    EXPECT_LE(now, exchange_seconds(links, kind, first(n), bytes, true)) << "a fixed order is never quicker";
    Interconnect faster = links;
    LinkLevel& level = faster.levels[static_cast<std::size_t>(trial / 2 % 2)];
    (trial % 3 ? level.bandwidth : level.switch_bandwidth) *= pick(1, 10);
    EXPECT_GE(now, exchange_seconds(faster, kind, first(n), bytes, false));
  }
}

}  // namespace
}  // namespace tandem
