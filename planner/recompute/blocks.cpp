#include "planner/recompute/blocks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace tandem {
namespace {

// Bytes that go on at each step of the forward pass: made before it and read from it on.
std::vector<std::int64_t> bytes_across(const Activations& a, const std::function<bool(BufferId)>& counts) {
  std::vector<std::int64_t> change(at(a.turn()) + 2);
  for (int s = 0; s < a.turn(); ++s)
    for (const BufferId b : a.made_by(s))
      if (const Activation& v = a.of(b); v.last_forward > s && counts(b)) {
        change[at(s) + 1] += v.bytes;
        change[at(v.last_forward) + 1] -= v.bytes;
      }
  std::int64_t live = 0;
  for (std::int64_t& c : change) c = live += c;
  return change;
}

// Bytes that go past a whole block and end in the next one, if the steps from `before` to `end` are cut at `cut`, and those behind at
// `later`: a shortcut around steps that are no chain.
std::int64_t bytes_past(const Activations& a, int before, int cut, int end, int later) {
  std::int64_t bytes = 0;
  for (int s = 0; s < cut; ++s)
    for (const BufferId b : a.made_by(s)) {
      const Activation& v = a.of(b);
      const bool past_first = s < before && v.last_forward >= cut && v.last_forward < end;
      const bool past_second = s >= before && v.last_forward >= end && v.last_forward < later;
      if (past_first || past_second) bytes += v.bytes;
    }
  return bytes;
}

// Steps at which blocks begin, but for the first.
std::set<int> cuts_of(const Activations& a, const Cuts& cuts) {
  const auto across = bytes_across(a, [](BufferId) { return true; });
  const auto barred = bytes_across(a, [&](BufferId b) { return cuts.through && !cuts.through(b); });
  std::vector<std::int64_t> kept(at(a.turn()) + 1);  // of steps before
  for (int s = 0; s < a.turn(); ++s) {
    kept[at(s) + 1] = kept[at(s)];
    for (const BufferId b : a.made_by(s))
      if (a.of(b).droppable()) kept[at(s) + 1] += a.of(b).bytes;
  }
  const std::int64_t least = a.droppable_bytes() / std::max(1, cuts.most);
  std::vector<int> places;
  for (int s = 1; s < a.turn(); ++s)
    if (barred[at(s)] == 0) places.push_back(s);
  std::stable_sort(places.begin(), places.end(), [&](int x, int y) { return across[at(x)] < across[at(y)]; });
  std::set<int> begins;
  for (const int s : places) {
    const auto behind = begins.lower_bound(s);
    const int before = behind == begins.begin() ? 0 : *std::prev(behind), end = behind == begins.end() ? a.turn() : *behind;
    const std::int64_t left = kept[at(s)] - kept[at(before)], right = kept[at(end)] - kept[at(s)];
    if (std::min(left, right) < std::max<std::int64_t>(1, least) || across[at(s)] >= left + right) continue;
    const int later = behind == begins.end() || std::next(behind) == begins.end() ? a.turn() : *std::next(behind);
    if (bytes_past(a, before, s, end, later) > across[at(s)] / 16) continue;  // masks and statistics may
    begins.insert(s);
  }
  return begins;
}

// What steps compute together, beginning with what is there.
class Again {
 public:
  Again(const Activations& a, const Block& block) : a_(a), block_(block), steps_(at(block.end - block.begin)) {}

  void want(BufferId value, const std::set<BufferId>& there) {
    std::vector<BufferId> open{value};
    while (!open.empty()) {
      const BufferId b = open.back();
      open.pop_back();
      const int maker = a_.of(b).maker;
      if (there.contains(b)) continue;
      if (maker < block_.begin) {
        entering_.insert(b);
        continue;
      }
      if (steps_[at(maker - block_.begin)]) continue;
      steps_[at(maker - block_.begin)] = true;
      seconds_ += a_.seconds(maker);
      for (const BufferId in : a_.read_by(maker)) open.push_back(in);
    }
  }
  double seconds() const { return seconds_; }
  std::vector<int> steps() const {
    std::vector<int> list;
    for (std::size_t i = 0; i < steps_.size(); ++i)
      if (steps_[i]) list.push_back(block_.begin + static_cast<int>(i));
    return list;
  }
  const std::set<BufferId>& entering() const { return entering_; }  // that is read

 private:
  const Activations& a_;
  const Block& block_;
  std::vector<bool> steps_;
  double seconds_ = 0;
  std::set<BufferId> entering_;
};

// The ways in which a block may be kept: its values are dropped one after the other, what costs least for a byte first.
class Ways {
 public:
  Ways(const Activations& a, const Block& block, const Block* next) : a_(a), block_(block), next_(next) {
    inside_.insert(block.inside.begin(), block.inside.end());
    if (next)
      for (const BufferId b : next->entering)
        if (a.of(b).droppable()) held_.insert(b);
  }

  struct Way {
    KeptWay costs;  // `backward` is set in the end
    std::vector<BufferId> dropped;
    std::set<BufferId> kept;
  };

  // The way in which these are dropped.
  Way way(const std::vector<BufferId>& dropped) const {
    Way w{.costs = {}, .dropped = dropped, .kept = {}};
    std::set<BufferId> kept = inside_;
    for (const BufferId b : dropped) kept.erase(b);
    std::set<BufferId> there = kept;
    there.insert(held_.begin(), held_.end());
    Again again(a_, block_), anew(a_, block_);
    for (const BufferId b : dropped) again.want(b, there);
    for (const BufferId b : kept) anew.want(b, {});
    if (next_)
      for (const BufferId b : next_->entering) anew.want(b, {});
    w.costs.again = again.seconds();
    w.costs.anew = anew.seconds();
    for (const BufferId b : block_.entering)
      if (a_.of(b).droppable() || again.entering().contains(b)) kept.insert(b);
    for (const BufferId b : kept) w.costs.bytes += a_.of(b).bytes;
    w.kept = std::move(kept);
    return w;
  }

  std::vector<Way> all(std::size_t most) const {
    // The large ones come first; of many few are compared, and several are dropped at once.
    constexpr std::size_t many = 128;
    const std::size_t compared = block_.inside.size() > many ? 4 : 24, at_once = 1 + block_.inside.size() / many;
    std::vector<BufferId> left(block_.inside);
    std::stable_sort(left.begin(), left.end(), [&](BufferId x, BufferId y) { return a_.of(x).bytes > a_.of(y).bytes; });
    std::vector<Way> ways{way({})};
    while (!left.empty()) {
      std::optional<Way> best;
      for (std::size_t i = 0; i < std::min(left.size(), compared); ++i) {
        std::vector<BufferId> dropped = ways.back().dropped;
        dropped.push_back(left[i]);
        for (std::size_t j = 0; j < left.size() && dropped.size() < ways.back().dropped.size() + at_once; ++j)
          if (j != i) dropped.push_back(left[j]);
        Way w = way(dropped);
        if (!best || cheaper(w, *best, ways.back())) best = std::move(w);
      }
      std::erase_if(left, [&](BufferId b) { return std::ranges::find(best->dropped, b) != best->dropped.end(); });
      ways.push_back(*std::move(best));
    }
    ways = front(std::move(ways), most);
    for (Way& w : ways) w.costs.backward = most_backward(w.kept);
    return ways;
  }

 private:
  // Per byte that is saved, from a way on.
  static bool cheaper(const Way& x, const Way& y, const Way& from) {
    const auto seconds = [&](const Way& w) { return std::max(0.0, w.costs.again - from.costs.again); };
    const auto bytes = [&](const Way& w) { return static_cast<double>(std::max<std::int64_t>(0, from.costs.bytes - w.costs.bytes)); };
    return seconds(x) * bytes(y) < seconds(y) * bytes(x) || (seconds(x) == seconds(y) && bytes(x) > bytes(y));
  }

  // Without those that another way beats in bytes and seconds; of more than `most`, those that stand evenly in the bytes.
  static std::vector<Way> front(std::vector<Way> ways, std::size_t most) {
    std::vector<Way> kept;
    for (Way& w : ways) {
      while (kept.size() > 1 && kept.back().costs.again >= w.costs.again && kept.back().costs.bytes >= w.costs.bytes) kept.pop_back();
      kept.push_back(std::move(w));
    }
    while (kept.size() > std::max<std::size_t>(2, most)) {
      std::size_t least = 1;
      const auto gap = [&](std::size_t i) { return kept[i - 1].costs.bytes - kept[i + 1].costs.bytes; };
      for (std::size_t i = 2; i + 1 < kept.size(); ++i)
        if (gap(i) < gap(least)) least = i;
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(least));
    }
    return kept;
  }

  // What the backward pass of the block does: its steps, each behind those that run again for it.
  struct Event {
    int step, before;  // runs again before that one; the same: it is that one
    bool again() const { return step != before; }
  };
  std::vector<Event> events(std::set<BufferId> there) const {
    std::vector<Event> list;
    for (int s = block_.backward_begin; s < block_.backward_end; ++s) {
      Again again(a_, block_);
      for (const BufferId b : a_.read_by(s))
        if (a_.of(b).maker < block_.end) again.want(b, there);
      for (const int step : again.steps()) {
        list.push_back({step, s});
        there.insert(a_.made_by(step).begin(), a_.made_by(step).end());
      }
      list.push_back({s, s});
    }
    return list;
  }

  std::int64_t most_backward(const std::set<BufferId>& kept) const {
    std::set<BufferId> there = kept;
    there.insert(held_.begin(), held_.end());
    const std::vector<Event> list = events(there);
    const int count = static_cast<int>(list.size());
    std::map<BufferId, std::pair<int, int>> lives;  // events between which a value lives
    for (const BufferId b : kept)
      if (a_.of(b).last_backward >= block_.backward_end) lives[b] = {0, count - 1};
    for (int e = 0; e < count; ++e) {
      for (const BufferId b : a_.read_by(list[at(e)].step)) {
        std::pair<int, int>& life = lives.try_emplace(b, kept.contains(b) ? 0 : e, e).first->second;
        life.second = std::max(life.second, e);
      }
      if (list[at(e)].again())
        for (const BufferId b : a_.made_by(list[at(e)].step)) lives.try_emplace(b, e, e);
    }
    std::vector<std::int64_t> change(at(count) + 1);
    for (const auto& [b, life] : lives) {
      change[at(life.first)] += a_.of(b).bytes;
      change[at(life.second) + 1] -= a_.of(b).bytes;
    }
    std::int64_t most = 0, live = 0;
    for (int e = 0; e < count; ++e) {
      live += change[at(e)];
      const Event& event = list[at(e)];
      most = std::max(most, live + (event.again() ? a_.others_before(event.before) : a_.others(event.step)));
    }
    return most;
  }

  const Activations& a_;
  const Block& block_;
  const Block* const next_;
  std::set<BufferId> inside_, held_;  // held: enters the next block and is read backward
};

// The backward pass of a block begins with the first step that reads what it alone reads forward, and ends where that of the block before
// begins.
void find_backward(const Activations& a, std::vector<Block>& blocks) {
  int begin = a.backward_end();
  std::vector<int> begins;
  for (const Block& block : blocks) {
    for (const auto* list : {&block.inside, &block.entering})
      for (const BufferId b : *list)
        if (a.of(b).droppable() && a.of(b).last_forward < block.end) begin = std::min(begin, a.of(b).first_backward);
    begins.push_back(begin);
  }
  begins.back() = a.turn();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].backward_begin = begins[i];
    blocks[i].backward_end = i == 0 ? a.steps() : begins[i - 1];
  }
}

}  // namespace

std::vector<Block> blocks_of(const Activations& a, const Cuts& cuts) {
  std::vector<Block> blocks{Block{}};
  for (const int s : cuts_of(a, cuts)) {
    blocks.back().end = s;
    blocks.push_back({.begin = s});
  }
  blocks.back().end = a.turn();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Block& block = blocks[i];
    const bool last = i + 1 == blocks.size();
    for (int s = block.begin; s < block.end; ++s)
      for (const BufferId b : a.made_by(s)) {
        const Activation& v = a.of(b);
        if (!last && v.last_forward >= block.end) {
          blocks[i + 1].entering.push_back(b);
          for (std::size_t n = i + 1; n < blocks.size() && blocks[n].begin <= v.last_forward; ++n) blocks[n].crossing.push_back(b);
        } else if (v.droppable()) {
          block.inside.push_back(b);
        }
      }
  }
  find_backward(a, blocks);
  return blocks;
}

std::vector<ChainBlock> with_ways(const Activations& a, std::vector<Block>& blocks, std::size_t most) {
  std::vector<ChainBlock> chain;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Block& block = blocks[i];
    const Block* const next = i + 1 < blocks.size() ? &blocks[i + 1] : nullptr;
    ChainBlock& costs = chain.emplace_back();
    for (const BufferId b : block.entering) costs.entering += a.of(b).bytes;
    for (const BufferId b : block.crossing) {
      const auto maker = std::ranges::find_if(blocks, [&](const Block& m) { return a.of(b).maker < m.end; }) - blocks.begin();
      if (at(static_cast<int>(maker)) + 1 >= i || !a.of(b).droppable() || a.of(b).first_backward >= block.backward_end) continue;
      costs.skips.resize(i - 1);
      costs.skips[static_cast<std::size_t>(maker)] += a.of(b).bytes;
    }
    Again advance(a, block);
    if (next)
      for (const BufferId b : next->entering) advance.want(b, {});
    costs.advance = advance.seconds();
    for (int s = block.begin; s < block.end; ++s) {
      costs.running = std::max(costs.running, a.own(s));
      costs.forward = std::max(costs.forward, a.own(s) + a.others_before(s));
    }
    if (block.backward_begin < a.steps()) costs.gradients = a.others_before(block.backward_begin);
    block.dropped.clear();
    for (Ways::Way& way : Ways(a, block, next).all(most)) {
      costs.ways.push_back(way.costs);
      block.dropped.push_back(std::move(way.dropped));
    }
  }
  return chain;
}

}  // namespace tandem
