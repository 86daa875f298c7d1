#include "planner/memory/place.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "planner/plan/format.h"

namespace tandem {
namespace {

constexpr std::size_t many = 5000;  // intervals, above which one per cent over the lower bound is good enough

struct Block {
  std::int64_t begin, end;
};

// Disjoint blocks by offset; blocks that touch are joined.
void add(std::vector<Block>& blocks, Block b) {
  const auto first = std::lower_bound(blocks.begin(), blocks.end(), b.begin, [](const Block& x, std::int64_t at) { return x.end < at; });
  auto last = first;
  for (; last != blocks.end() && last->begin <= b.end; ++last) b = {std::min(b.begin, last->begin), std::max(b.end, last->end)};
  if (first == last) {
    blocks.insert(first, b);
  } else {
    *first = b;
    blocks.erase(std::next(first), last);
  }
}

// Which bytes are taken when: a segment tree over time. `whole` of a node is what is taken throughout its span, `some`
// what is taken at some time in it (but for what an ancestor holds as `whole`).
class Occupancy {
 public:
  explicit Occupancy(int times) : times_(times), nodes_(4 * static_cast<std::size_t>(times)) {}

  void take(int first, int last, Block b) { take(1, 0, times_ - 1, first, last, b); }

  // Offset of the smallest gap of at least `bytes` that is free from first to last; the end where there is none.
  std::int64_t best_gap(int first, int last, std::int64_t bytes) {
    taken_.clear();
    gather(1, 0, times_ - 1, first, last);
    std::sort(taken_.begin(), taken_.end(), [](const Block& a, const Block& b) { return a.begin < b.begin; });
    std::int64_t end = 0, best = -1, smallest = 0;
    for (const Block& b : taken_) {
      const std::int64_t gap = b.begin - end;
      if (gap >= bytes && (best < 0 || gap < smallest)) {
        best = end;
        smallest = gap;
      }
      end = std::max(end, b.end);
    }
    return best < 0 ? end : best;
  }

 private:
  struct Node {
    std::vector<Block> whole, some;
  };

  void take(std::size_t node, int from, int to, int first, int last, const Block& b) {
    if (to < first || last < from) return;
    add(nodes_[node].some, b);
    if (first <= from && to <= last) return add(nodes_[node].whole, b);
    const int middle = from + (to - from) / 2;
    take(2 * node, from, middle, first, last, b);
    take(2 * node + 1, middle + 1, to, first, last, b);
  }
  void gather(std::size_t node, int from, int to, int first, int last) {
    if (to < first || last < from) return;
    const bool covered = first <= from && to <= last;
    const std::vector<Block>& blocks = covered ? nodes_[node].some : nodes_[node].whole;
    taken_.insert(taken_.end(), blocks.begin(), blocks.end());
    if (covered) return;
    const int middle = from + (to - from) / 2;
    gather(2 * node, from, middle, first, last);
    gather(2 * node + 1, middle + 1, to, first, last);
  }

  int times_;
  std::vector<Node> nodes_;
  std::vector<Block> taken_;
};

struct Order {
  std::string_view name;
  double (*key)(const Interval&);
};
constexpr Order orders[] = {
    // lifetime first: it is the fastest by far, and the best for nets whose lives nest
    {"lifetime", [](const Interval& i) { return static_cast<double>(i.last) - i.first; }},
    {"size", [](const Interval& i) { return static_cast<double>(i.bytes); }},
    {"size*lifetime", [](const Interval& i) { return static_cast<double>(i.bytes) * (static_cast<double>(i.last) - i.first + 1); }},
};

Packing place_in_order(std::span<const Interval> intervals, const std::vector<Interval>& spans, int times, const Order& order) {
  std::vector<std::size_t> turn(intervals.size());
  std::iota(turn.begin(), turn.end(), std::size_t{0});
  std::stable_sort(turn.begin(), turn.end(), [&](std::size_t a, std::size_t b) {
    const double ka = order.key(intervals[a]), kb = order.key(intervals[b]);
    return ka != kb ? ka > kb : intervals[a].bytes > intervals[b].bytes;
  });
  Packing p;
  p.offsets.assign(intervals.size(), 0);
  Occupancy occupancy(times);
  for (const std::size_t i : turn) {
    const Interval& span = spans[i];
    if (span.bytes == 0) continue;
    const std::int64_t at = occupancy.best_gap(span.first, span.last, span.bytes);
    occupancy.take(span.first, span.last, {at, at + span.bytes});
    p.offsets[i] = at;
    p.bytes = std::max(p.bytes, at + span.bytes);
  }
  return p;
}

}  // namespace

Packing place(std::span<const Interval> intervals, std::string_view order) {
  if (!order.empty() && std::none_of(std::begin(orders), std::end(orders), [&](const Order& o) { return o.name == order; }))
    fail(ExitCode::usage, "memory order '", order, "' is unknown, expected size, lifetime or size*lifetime");
  // Intervals that overlap do so where one of them begins, so time needs no other points.
  std::vector<int> begins;
  for (const Interval& i : intervals) {
    if (i.bytes < 0 || i.last < i.first) fail("interval of ", i.bytes, " bytes from step ", i.first, " to ", i.last);
    begins.push_back(i.first);
  }
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());

  std::vector<Interval> spans;
  std::vector<std::int64_t> change(begins.size() + 1, 0);
  for (const Interval& i : intervals) {
    const int first = static_cast<int>(std::lower_bound(begins.begin(), begins.end(), i.first) - begins.begin());
    const int last = static_cast<int>(std::upper_bound(begins.begin(), begins.end(), i.last) - begins.begin()) - 1;
    spans.push_back({aligned(i.bytes), first, last});
    change[static_cast<std::size_t>(first)] += spans.back().bytes;
    change[static_cast<std::size_t>(last) + 1] -= spans.back().bytes;
  }
  std::int64_t live = 0, bound = 0;
  for (const std::int64_t c : change) bound = std::max(bound, live += c);

  Packing best{std::vector<std::int64_t>(intervals.size(), 0), 0, bound};
  bool found = false;
  const std::int64_t enough = intervals.size() <= many ? bound : bound + bound / 100;
  for (const Order& o : orders) {
    if (begins.empty() || (!order.empty() && o.name != order) || (found && best.bytes <= enough)) continue;
    Packing p = place_in_order(intervals, spans, static_cast<int>(begins.size()), o);
    p.lower_bound = bound;
    if (!found || p.bytes < best.bytes) best = std::move(p);
    found = true;
  }
  return best;
}

}  // namespace tandem
