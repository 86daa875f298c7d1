#include "runtime/output_exchange.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/sum_route.h"
#include "ranks/world.h"

namespace tandem {
namespace {

using HostPart = Program::HostPart;

constexpr int own_stream = -1;  // no device's: its lines wait for no exchange of a step

std::int64_t bytes_of(const std::vector<HostPart>& parts) {
  std::int64_t bytes = 0;
  for (const HostPart& p : parts) bytes += p.bytes;
  return bytes;
}

// Every rank's parts, on every rank.
std::vector<std::vector<HostPart>> all_parts(World& world, const std::vector<HostPart>& own) {
  const auto rank = static_cast<std::size_t>(world.rank());
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(world.ranks()));
  counts[rank] = own.size();
  world.gather(std::as_writable_bytes(std::span(counts)));
  std::vector<HostPart> all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), HostPart{});
  std::copy(own.begin(), own.end(), all.begin() + std::accumulate(counts.begin(), counts.begin() + world.rank(), std::ptrdiff_t{0}));
  world.gather(std::as_writable_bytes(std::span(all)));
  std::vector<std::vector<HostPart>> parts;
  for (auto next = all.cbegin(); const std::uint64_t n : counts) {
    parts.emplace_back(next, next + static_cast<std::ptrdiff_t>(n));
    next += static_cast<std::ptrdiff_t>(n);
  }
  return parts;
}

}  // namespace

OutputExchange::OutputExchange(World& world, int devices, std::vector<HostPart> own, std::vector<std::int64_t> bytes)
    : world_(world), bytes_(std::move(bytes)) {
  if (may_go_by_pairs(world)) {
    parts_ = all_parts(world, own);
    connect(devices);
  } else {
    parts_.push_back(std::move(own));
    starts_.resize(bytes_.size());
    std::exclusive_scan(bytes_.begin(), bytes_.end(), starts_.begin(), std::int64_t{0});
    exchanged_.resize(static_cast<std::size_t>(std::accumulate(bytes_.begin(), bytes_.end(), std::int64_t{0})));
  }
}

// The first devices of all ranks are the members of one all-gather of bytes.
void OutputExchange::connect(int devices) {
  ExchangeSpec spec{.kind = ExchangeKind::all_gather, .members = {}, .dtype = DType::uint8, .parts = {}};
  for (std::size_t rank = 0; rank < parts_.size(); ++rank) {
    spec.members.push_back(static_cast<int>(rank) * devices);
    spec.parts.push_back(bytes_of(parts_[rank]));
    spec.elements += spec.parts.back();
  }
  spec.streams.assign(parts_.size(), own_stream);
  std::vector<DeviceLine> lines;
  add_lines(spec, devices, lines);
  world_.open_lines(std::move(lines));

  const int self = world_.rank() * devices;
  exchanged_.resize(static_cast<std::size_t>(spec.elements));
  channels_ = std::make_unique<Channels>(Channels::Here{.first = self, .count = 1, .world = &world_});
  gather_ = channels_->make(spec, self);
  std::byte* const whole = exchanged_.data();
  std::byte* const own = whole + std::accumulate(spec.parts.begin(), spec.parts.begin() + world_.rank(), std::int64_t{0});
  gather_->bind({&own, 1}, {&whole, 1}, nullptr);
}

void OutputExchange::run(std::span<std::byte* const> outputs) {
  if (!gather_) return along_chain(outputs);
  const auto each = [&](const auto& copy) {
    std::byte* place = exchanged_.data();
    for (std::size_t rank = 0; rank < parts_.size(); ++rank)
      for (const HostPart& p : parts_[rank]) {
        if (outputs[p.output])
          copy(static_cast<int>(rank) == world_.rank(), outputs[p.output] + p.offset, place, static_cast<std::size_t>(p.bytes));
        place += p.bytes;
      }
  };
  each([](bool own, const std::byte* output, std::byte* place, std::size_t bytes) {
    if (own) std::memcpy(place, output, bytes);
  });
  gather_->run({});
  each([](bool own, std::byte* output, const std::byte* place, std::size_t bytes) {
    if (!own) std::memcpy(output, place, bytes);
  });
}

void OutputExchange::along_chain(std::span<std::byte* const> outputs) {
  std::ranges::fill(exchanged_, std::byte{});
  for (const HostPart& p : parts_[0])
    if (outputs[p.output]) std::copy_n(outputs[p.output] + p.offset, p.bytes, exchanged_.data() + starts_[p.output] + p.offset);
  world_.gather(exchanged_);
  for (std::size_t o = 0; o < outputs.size(); ++o)
    if (outputs[o]) std::copy_n(exchanged_.data() + starts_[o], bytes_[o], outputs[o]);
}

}  // namespace tandem
