#include "kernels/sum_route.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>

#include "kernels/exchange_rounds.h"
#include "kernels/member_exchange.h"

namespace tandem {
namespace {

// Two ranks send as much either way; of more than these each would hold too many lines open.
constexpr int fewest = 3, most = 64;
constexpr std::array<std::int64_t, 2> sizes{256, 1 << 16};  // elements of float32
constexpr int sums = 4;                                     // in a row: of one alone a rank would see how late it comes to it

// Of a call, after one that warms up the lines.
double seconds_of(const auto& call) {
  call();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < sums; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / sums;
}

ExchangeSpec probe(int ranks, std::int64_t elements, int channel) {
  ExchangeSpec s{
      .kind = ExchangeKind::all_reduce, .members = std::vector<int>(static_cast<std::size_t>(ranks)), .elements = elements, .parts = {}};
  std::iota(s.members.begin(), s.members.end(), 0);
  s.channel = channel;
  return s;
}

}  // namespace

bool may_go_by_pairs(const World& world) {
  if (world.sums() != Route::measured) return world.sums() == Route::pairs;
  return world.ranks() >= fewest && world.ranks() <= most;
}

void add_lines(const ExchangeSpec& spec, int devices, std::vector<DeviceLine>& lines) {
  for (std::size_t a = 0; a < spec.members.size(); ++a)
    for (std::size_t b = 0; b < spec.members.size(); ++b) {
      const int low = spec.members[a], high = spec.members[b];
      if (low / devices < high / devices && tandem::meet(spec, a, b))
        lines.push_back({{low, spec.stream(a)}, {high, spec.stream(b)}, low / devices, high / devices});
    }
}

void SumRoute::choose() {
  const int ranks = world_.ranks();
  if (std::exchange(chosen_, true) || world_.sums() != Route::measured || devices_ > 1 || !may_go_by_pairs(world_)) return;
  Channels channels({.first = world_.rank(), .count = 1, .world = &world_});
  std::vector<float> values(static_cast<std::size_t>(sizes.back()));
  std::byte* const buffer = reinterpret_cast<std::byte*>(values.data());
  std::array<double, 2> by_chain{}, by_pairs{};
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    const ExchangeSpec spec = probe(ranks, sizes[s], static_cast<int>(s));
    std::vector<DeviceLine> lines;
    add_lines(spec, devices_, lines);
    world_.open_lines(std::move(lines));
    const std::unique_ptr<Kernel> kernel = channels.make(spec, world_.rank());
    kernel->bind({}, {&buffer, 1}, nullptr);
    by_chain[s] = seconds_of([&] { world_.all_reduce({&buffer, 1}, sizes[s], DType::float32, spec.channel); });
    by_pairs[s] = seconds_of([&] { kernel->run({}); });
  }
  const auto time = [](const std::array<double, 2>& t) {
    const double per_byte = std::max(0.0, t[1] - t[0]) / static_cast<double>(4 * (sizes[1] - sizes[0]));
    return Time{std::max(0.0, t[0] - per_byte * 4 * static_cast<double>(sizes[0])), per_byte};
  };
  std::array<Time, 2> times{time(by_chain), time(by_pairs)};
  std::string bytes(sizeof times, '\0');
  std::memcpy(bytes.data(), times.data(), sizeof times);
  bytes = world_.broadcast(bytes);
  if (bytes.size() != sizeof times) fail(ExitCode::communication, "rank 0 sent times of ", bytes.size(), " bytes, expected ", sizeof times);
  std::memcpy(times.data(), bytes.data(), sizeof times);
  chain_ = times[0];
  pairs_ = times[1];
}

bool SumRoute::is_by_pairs(const ExchangeSpec& spec) const {
  if (world_.sums() != Route::measured) return world_.sums() == Route::pairs;
  const double bytes = static_cast<double>(spec.elements) * static_cast<double>(size_of(spec.dtype));
  return pairs_.of(bytes) < chain_.of(bytes);
}

}  // namespace tandem
