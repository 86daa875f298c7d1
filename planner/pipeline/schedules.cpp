#include "planner/pipeline/schedules.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/id_vector.h"

namespace tandem {
namespace {

struct Row {
  std::string_view name;
  bool splits_backward;
  int (*warm)(int stage, int stages, int chunks, int group);  // forward entries before the first one backward
};

constexpr int endless = 1 << 30;

// In the order of ScheduleKind.
constexpr std::array<Row, 4> rows{{
    {"gpipe", false, [](int, int, int, int) { return endless; }},
    {"1f1b", false, [](int stage, int stages, int, int) { return stages - stage - 1; }},
    {"interleaved", false, [](int stage, int stages, int chunks, int group) { return 2 * (stages - stage - 1) + (chunks - 1) * group; }},
    {"zb-h1", true, [](int stage, int stages, int, int) { return stages - stage - 1; }},
}};
const Row& row_of(ScheduleKind kind) { return rows[static_cast<std::size_t>(kind)]; }

// Micro-batches go through all chunks in groups of at least one for each stage, as equal as may be: fewer leave stages idle between
// chunks. The first group is a largest one, so that who has warmed up by its size never waits in a circle.
std::vector<int> groups_of(int stages, int micro_batches) {
  const int count = std::max(1, micro_batches / stages);
  std::vector<int> sizes(at(count), micro_batches / count);
  for (int i = 0; i < micro_batches % count; ++i) ++sizes[at(i)];
  return sizes;
}

// Pairs of chunk and micro-batch in the order of their forward passes. Backward passes have the same order with the chunks from the last.
std::vector<ScheduleEntry> forward_order(std::span<const int> groups, int chunks) {
  std::vector<ScheduleEntry> order;
  int begin = 0;
  for (const int size : groups) {
    for (int c = 0; c < chunks; ++c)
      for (int i = 0; i < size; ++i) order.push_back({Phase::forward, c, begin + i, 0});
    begin += size;
  }
  return order;
}

// Micro-batches of a chunk come and go in one order, so that those held at once are neighbours, and share no slot if there are as many.
void give_slots(std::vector<ScheduleEntry>& entries, int chunks, Phase last) {
  std::vector<int> held(at(chunks)), most(at(chunks));
  for (const ScheduleEntry& e : entries) {
    if (e.phase == Phase::forward) most[at(e.chunk)] = std::max(most[at(e.chunk)], ++held[at(e.chunk)]);
    if (e.phase == last) --held[at(e.chunk)];
  }
  for (ScheduleEntry& e : entries) e.slot = e.micro_batch % most[at(e.chunk)];
}

// Runs lists beside each other.
class Run {
 public:
  Run(std::span<const std::vector<ScheduleEntry>> schedules, std::span<const PartTimes> times, double transfer)
      : schedules_(schedules), times_(times), transfer_(transfer), next_(schedules.size()), free_(schedules.size()) {
    for (const std::vector<ScheduleEntry>& schedule : schedules)
      splits_.push_back(std::ranges::find(schedule, Phase::weights, &ScheduleEntry::phase) != schedule.end());
  }

  ScheduleReplay run() {
    ScheduleReplay replay{.time = 0, .bubble = 0, .busy = std::vector<double>(schedules_.size())};
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < schedules_.size(); ++s)
        for (; next_[s] < schedules_[s].size(); ++next_[s], moved = true) {
          const std::optional<double> took = do_next(s);
          if (!took) break;
          replay.busy[s] += *took;
        }
    }
    for (std::size_t s = 0; s < schedules_.size(); ++s)
      if (next_[s] < schedules_[s].size()) fail(ExitCode::usage, "schedule: stage ", s, " waits in a circle at its entry ", next_[s]);
    double busy = 0;
    for (const double b : replay.busy) busy += b;
    replay.time = *std::ranges::max_element(free_);
    replay.bubble = replay.time > 0 ? 1 - busy / (replay.time * static_cast<double>(schedules_.size())) : 0;
    return replay;
  }

 private:
  struct Key {
    Phase phase;
    int part, micro_batch;
    auto operator<=>(const Key&) const = default;
  };

  // How long it took; absent where it has to wait for what is not done.
  std::optional<double> do_next(std::size_t stage) {
    const ScheduleEntry& e = schedules_[stage][next_[stage]];
    const int stages = static_cast<int>(schedules_.size()), parts = static_cast<int>(times_.size());
    const int part = e.chunk * stages + static_cast<int>(stage);
    double begin = free_[stage];
    const auto wait = [&](Phase phase, int from) {
      const auto it = done_.find({phase, from, e.micro_batch});
      if (it == done_.end()) return false;
      begin = std::max(begin, it->second + (from % stages == static_cast<int>(stage) ? 0 : transfer_));
      return true;
    };
    const PartTimes& t = times_[at(part)];
    double takes = t.weights;
    if (e.phase == Phase::forward) {
      if (part > 0 && !wait(Phase::forward, part - 1)) return {};
      takes = t.forward;
    } else if (e.phase == Phase::backward) {
      if (!wait(Phase::forward, part) || (part + 1 < parts && !wait(Phase::backward, part + 1))) return {};
      takes = t.backward + (splits_[stage] ? 0 : t.weights);
    } else if (!wait(Phase::backward, part)) {
      return {};
    }
    free_[stage] = done_[{e.phase, part, e.micro_batch}] = begin + takes;
    return takes;
  }

  std::span<const std::vector<ScheduleEntry>> schedules_;
  std::span<const PartTimes> times_;
  double transfer_;
  std::vector<std::size_t> next_;  // by stage
  std::vector<double> free_;       // by stage: when its last entry ended
  std::vector<bool> splits_;       // by stage: its weights have entries of their own
  std::map<Key, double> done_;     // when
};

}  // namespace

std::string_view name_of(ScheduleKind kind) { return row_of(kind).name; }
bool splits_backward(ScheduleKind kind) { return row_of(kind).splits_backward; }

std::string to_string(const PipelineSchedule& s) { return concat(name_of(s.kind), s.chunks > 1 ? concat('=', s.chunks) : ""); }

std::vector<ScheduleEntry> schedule_of(ScheduleKind kind, int stage, int stages, int chunks, int micro_batches) {
  const Row& row = row_of(kind);
  const std::vector<int> groups = groups_of(stages, micro_batches);
  const std::vector<ScheduleEntry> order = forward_order(groups, chunks);
  const std::size_t warm = std::min(order.size(), at(row.warm(stage, stages, chunks, groups[0])));
  std::vector<ScheduleEntry> entries(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(warm));
  std::size_t weights = 0;
  const auto backward = [&](std::size_t i) {
    return ScheduleEntry{Phase::backward, chunks - 1 - order[i].chunk, order[i].micro_batch, 0};
  };
  const auto add_weights = [&] {
    entries.push_back(backward(weights++));
    entries.back().phase = Phase::weights;
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (warm + i < order.size()) entries.push_back(order[warm + i]);
    entries.push_back(backward(i));
    if (row.splits_backward && i >= at(stage)) add_weights();  // as many behind as there are stages before: these wait for `backward`
  }
  while (row.splits_backward && weights < order.size()) add_weights();
  give_slots(entries, chunks, row.splits_backward ? Phase::weights : Phase::backward);
  return entries;
}

std::vector<std::vector<ScheduleEntry>> schedules_of(ScheduleKind kind, int stages, int chunks, int micro_batches) {
  std::vector<std::vector<ScheduleEntry>> lists;
  for (int s = 0; s < stages; ++s) lists.push_back(schedule_of(kind, s, stages, chunks, micro_batches));
  return lists;
}

int slots_of(std::span<const ScheduleEntry> schedule, int chunk) {
  int slots = 0;
  for (const ScheduleEntry& e : schedule)
    if (e.chunk == chunk) slots = std::max(slots, e.slot + 1);
  return slots;
}

ScheduleReplay replayed(std::span<const std::vector<ScheduleEntry>> schedules, std::span<const PartTimes> times, double transfer) {
  return Run(schedules, times, transfer).run();
}

}  // namespace tandem
