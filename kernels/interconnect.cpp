#include "kernels/interconnect.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tandem {
namespace {

// Times that the members' bytes pass a link, by the number of members, and the hops that they wait for in turn.
struct Rounds {
  double moved = 0;  // shares of `bytes` over each link
  double turns = 0;  // passes around the members
};
Rounds rounds_of(ExchangeKind kind, double members) {
  const double others = (members - 1) / members;
  switch (kind) {
    case ExchangeKind::all_reduce:
    case ExchangeKind::all_max: return {2 * others, 2};
    case ExchangeKind::reduce_scatter:
    case ExchangeKind::all_gather: return {others, 1};
    case ExchangeKind::all_to_all: return {others / members, 1};
    case ExchangeKind::broadcast:
    case ExchangeKind::reduce: return {1, 1};
    case ExchangeKind::send: return {1, 1};
  }
  return {};
}

// A level's part in an exchange: the groups of the level before it that it joins, and how many members each has.
struct Stretch {
  const LinkLevel* level;
  int groups = 1, each = 1;
};
std::vector<Stretch> stretches(const Interconnect& links, std::span<const int> members) {
  std::vector<Stretch> list;
  std::size_t below = members.size();  // groups of the level before: each device alone
  for (const LinkLevel& level : links.levels) {
    std::set<int> groups;
    for (const int m : members) groups.insert(level.devices > 0 ? m / level.devices : 0);
    if (below > groups.size())
      list.push_back({&level, static_cast<int>((below + groups.size() - 1) / groups.size()), static_cast<int>(members.size() / below)});
    below = groups.size();
    if (below == 1) break;
  }
  // What no level joins goes over the last.
  if (below > 1 && !links.levels.empty())
    list.push_back({&links.levels.back(), static_cast<int>(below), static_cast<int>(members.size() / below)});
  return list;
}

}  // namespace

double exchange_seconds(const Interconnect& links, ExchangeKind kind, std::span<const int> members, double bytes, bool fixed_order) {
  if (members.size() < 2 || links.levels.empty()) return members.size() < 2 ? 0 : links.begin_seconds;
  const std::vector<Stretch> way = stretches(links, members);
  const Rounds all = rounds_of(kind, static_cast<double>(members.size()));
  double stream = 0, ring_hops = 0, tree_hops = 0;
  for (const Stretch& s : way) {
    if (s.level->bandwidth <= 0) continue;
    stream = std::max(stream, bytes * all.moved / (s.level->bandwidth * std::max(1, s.each)));
    ring_hops += all.turns * (s.groups - 1) * s.level->hop_seconds;
    tree_hops += all.turns * std::ceil(std::log2(s.groups)) * s.level->hop_seconds;
  }
  // NCCL sums by rings and by trees, whichever takes less.
  const double hops = is_in_place(kind) ? std::min(ring_hops, 2 * tree_hops) : ring_hops;
  const auto piped = [](double of_bytes, double of_hops) { return std::pow(std::sqrt(of_bytes) + std::sqrt(of_hops), 2); };
  double seconds = links.begin_seconds + piped(stream, hops);
  const LinkLevel& first = *way[0].level;
  if (way.size() == 1 && is_in_place(kind) && !fixed_order && first.switch_bandwidth > 0 && first.devices == way[0].groups)
    seconds = std::min(seconds, piped(bytes * all.moved / first.switch_bandwidth, links.switch_seconds));
  return seconds;
}

}  // namespace tandem
