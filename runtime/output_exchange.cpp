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
constexpr std::size_t word_bytes = sizeof(std::uint64_t);
constexpr std::int64_t steps_at_once = 64;  // that memory is taken for at the start

// Every rank's parts, on every rank.
std::vector<std::vector<HostPart>> all_parts(World& world, std::span<const HostPart> own) {
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

// The first devices of all ranks are the ends of the lines.
OutputExchange::OutputExchange(World& world, int devices)
    : world_(world), starts_(static_cast<std::size_t>(world.ranks()) + 1), words_(starts_.size() - 1), pairs_(may_go_by_pairs(world)) {
  if (!pairs_) return;
  std::vector<DeviceLine> lines;
  std::vector<LineEnd> ends;
  for (int high = 0; high < world.ranks(); ++high) {
    for (int low = 0; low < high; ++low) lines.push_back({{low * devices, own_stream}, {high * devices, own_stream}, low, high});
    if (high == world.rank()) continue;
    others_.push_back(static_cast<std::size_t>(high));
    ends.push_back({high * devices, own_stream});
  }
  come_.resize(others_.size());
  world.open_lines(std::move(lines));
  links_ = world.links({world.rank() * devices, own_stream}, ends);
}

void OutputExchange::add(std::span<const HostPart> own, std::int64_t bytes) {
  std::vector<Parts>& of_plan = parts_.emplace_back();
  for (std::vector<HostPart>& list : all_parts(world_, own)) {
    std::int64_t sum = 0;
    for (const HostPart& p : list) sum += p.bytes;
    of_plan.push_back({std::move(list), sum});
  }
  const std::int64_t steps = std::clamp<std::int64_t>((1 << 16) / std::max<std::int64_t>(1, bytes), 1, steps_at_once);
  kept_.reserve(steps_at_once);
  given_.reserve(steps_at_once);
  own_.reserve(static_cast<std::size_t>(steps * of_plan[static_cast<std::size_t>(world_.rank())].bytes));
  all_.reserve(words_.size() * word_bytes + static_cast<std::size_t>(steps * bytes));
}

void OutputExchange::keep(std::size_t plan, std::span<std::byte* const> outputs) {
  const Parts& parts = parts_[plan][static_cast<std::size_t>(world_.rank())];
  kept_.push_back(plan);
  own_.resize(own_.size() + static_cast<std::size_t>(parts.bytes));
  std::byte* place = own_.data() + own_.size() - parts.bytes;
  for (const HostPart& p : parts.list) {
    if (outputs[p.output]) std::memcpy(place, outputs[p.output] + p.offset, static_cast<std::size_t>(p.bytes));
    place += p.bytes;
  }
}

std::span<const std::uint64_t> OutputExchange::exchange(std::uint64_t word) {
  std::swap(kept_, given_);
  kept_.clear();
  for (std::size_t rank = 0; rank < words_.size(); ++rank) {
    starts_[rank + 1] = starts_[rank] + word_bytes;
    for (const std::size_t plan : given_) starts_[rank + 1] += static_cast<std::size_t>(parts_[plan][rank].bytes);
  }
  all_.resize(starts_.back());
  if (!pairs_) std::ranges::fill(all_, std::byte{});  // zero where the others' parts are
  const std::span<std::byte> own = of_rank(static_cast<std::size_t>(world_.rank()));
  std::memcpy(own.data(), &word, word_bytes);
  std::ranges::copy(own_, own.data() + word_bytes);
  own_.clear();
  pairs_ ? by_pairs() : world_.gather(all_);
  for (std::size_t rank = 0; rank < words_.size(); ++rank) std::memcpy(&words_[rank], of_rank(rank).data(), word_bytes);
  return words_;
}

void OutputExchange::by_pairs() {
  const auto call = [&](std::size_t rank) { return Call{.kind = 0, .channel = given_.size(), .bytes = of_rank(rank).size()}; };
  const auto self = static_cast<std::size_t>(world_.rank());
  const Links::Inside inside(links_);
  for (std::size_t i = 0; i < others_.size(); ++i) {
    links_[i].receive(call(others_[i]));
    links_[i].send(call(self), of_rank(self));
  }
  std::ranges::fill(come_, 0);
  for (bool done = false; !done;) {
    bool moved = false;
    done = true;
    for (std::size_t i = 0; i < others_.size(); ++i) {
      const std::span<std::byte> to = of_rank(others_[i]).subspan(come_[i]);
      const std::int64_t got = links_[i].pull(to.data(), std::ssize(to));
      come_[i] += static_cast<std::size_t>(got);
      moved = links_[i].push() || got > 0 || moved;
      done = done && links_[i].sent() && links_[i].received();
    }
    if (!done && !moved) links_.wait();
  }
}

void OutputExchange::get(std::size_t back, std::span<std::byte* const> outputs) const {
  const std::size_t step = given_.size() - 1 - back;
  for (std::size_t rank = 0; rank < words_.size(); ++rank) {
    const std::byte* place = all_.data() + starts_[rank] + word_bytes;
    for (std::size_t s = 0; s < step; ++s) place += parts_[given_[s]][rank].bytes;
    for (const HostPart& p : parts_[given_[step]][rank].list) {
      if (outputs[p.output]) std::memcpy(outputs[p.output] + p.offset, place, static_cast<std::size_t>(p.bytes));
      place += p.bytes;
    }
  }
}

}  // namespace tandem
