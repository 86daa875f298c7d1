// Schedules of a pipeline: what stages do, what they hold, and how long they wait.
#include "planner/pipeline/schedules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/error.h"

namespace tandem {
namespace {

std::string text(const std::vector<ScheduleEntry>& schedule) {
  std::string s;
  for (const ScheduleEntry& e : schedule) {
    s += s.empty() ? "" : " ";
    s += std::map<Phase, char>{{Phase::forward, 'F'}, {Phase::backward, 'B'}, {Phase::weights, 'W'}}.at(e.phase);
    s += std::to_string(e.micro_batch) + (e.chunk > 0 ? std::string(static_cast<std::size_t>(e.chunk), '\'') : "");
  }
  return s;
}

struct Case {
  ScheduleKind kind;
  int chunks;
};
const std::vector<Case> cases{{ScheduleKind::gpipe, 1},       {ScheduleKind::one_f_one_b, 1}, {ScheduleKind::zb_h1, 1},
                              {ScheduleKind::interleaved, 2}, {ScheduleKind::interleaved, 3}, {ScheduleKind::interleaved, 4}};

// Each schedule for 1 to 8 stages and up to four times as many micro-batches.
template <class F>
void for_all(const F& check) {
  for (const Case& c : cases)
    for (const int p : {1, 2, 3, 4, 5, 8})
      for (int m = 1; m <= 4 * p; ++m) {
        SCOPED_TRACE(std::string(name_of(c.kind)) + " of " + std::to_string(c.chunks) + " chunks, " + std::to_string(p) + " stages, " +
                     std::to_string(m) + " micro-batches");
        check(c, p, m);
      }
}

TEST(Schedules, AreThoseOfTheirSources) {
  const auto of = [](ScheduleKind kind, int stage, int stages, int chunks, int m) {
    return text(schedule_of(kind, stage, stages, chunks, m));
  };
  EXPECT_EQ(of(ScheduleKind::gpipe, 1, 2, 1, 3), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(of(ScheduleKind::one_f_one_b, 0, 1, 1, 3), "F0 B0 F1 B1 F2 B2");
  EXPECT_EQ(of(ScheduleKind::one_f_one_b, 0, 3, 1, 4), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(of(ScheduleKind::one_f_one_b, 2, 3, 1, 4), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(of(ScheduleKind::one_f_one_b, 0, 4, 1, 2), "F0 F1 B0 B1");
  EXPECT_EQ(of(ScheduleKind::zb_h1, 0, 2, 1, 3), "F0 F1 B0 W0 F2 B1 W1 B2 W2");
  EXPECT_EQ(of(ScheduleKind::zb_h1, 1, 2, 1, 3), "F0 B0 F1 B1 W0 F2 B2 W1 W2");
  EXPECT_EQ(of(ScheduleKind::interleaved, 0, 2, 2, 4), "F0 F1 F0' F1' F2 B0' F3 B1' F2' B0 F3' B1 B2' B3' B2 B3");
  EXPECT_EQ(of(ScheduleKind::interleaved, 1, 2, 2, 4), "F0 F1 F0' B0' F1' B1' F2 B0 F3 B1 F2' B2' F3' B3' B2 B3");
}

TEST(Schedules, DoAllOnceAndInOrder) {
  for_all([](const Case& c, int p, int m) {
    for (const std::vector<ScheduleEntry>& schedule : schedules_of(c.kind, p, c.chunks, m)) {
      std::map<std::pair<Phase, int>, int> next;
      for (const ScheduleEntry& e : schedule) {
        EXPECT_EQ(e.micro_batch, (next[{e.phase, e.chunk}]++));
        if (e.phase != Phase::weights) continue;
        EXPECT_LT(e.micro_batch, (next[{Phase::backward, e.chunk}]));
      }
      EXPECT_EQ(next.size(), static_cast<std::size_t>(c.chunks) * (splits_backward(c.kind) ? 3 : 2));
      for (const auto& [what, count] : next) EXPECT_EQ(count, m);
    }
  });
}

TEST(Schedules, SlotsAreFreeWhenTheyAreTaken) {
  for_all([](const Case& c, int p, int m) {
    const Phase last = splits_backward(c.kind) ? Phase::weights : Phase::backward;
    for (int s = 0; s < p; ++s) {
      const std::vector<ScheduleEntry> schedule = schedule_of(c.kind, s, p, c.chunks, m);
      std::map<std::pair<int, int>, int> slot;  // by chunk and micro-batch
      std::map<int, std::set<int>> taken;       // by chunk
      std::map<int, std::size_t> most;
      for (const ScheduleEntry& e : schedule) {
        if (e.phase == Phase::forward) {
          EXPECT_TRUE(taken[e.chunk].insert(e.slot).second);
          slot[{e.chunk, e.micro_batch}] = e.slot;
        }
        EXPECT_EQ(e.slot, (slot[{e.chunk, e.micro_batch}]));
        most[e.chunk] = std::max(most[e.chunk], taken[e.chunk].size());
        if (e.phase == last) taken[e.chunk].erase(e.slot);
      }
      for (int k = 0; k < c.chunks; ++k) EXPECT_EQ(static_cast<std::size_t>(slots_of(schedule, k)), most[k]);
      const std::map<ScheduleKind, int> held{
          {ScheduleKind::gpipe, m}, {ScheduleKind::one_f_one_b, std::min(m, p - s)}, {ScheduleKind::zb_h1, std::min(m, p)}};
      if (c.kind == ScheduleKind::interleaved) continue;
      EXPECT_EQ(slots_of(schedule, 0), held.at(c.kind));
    }
  });
}

TEST(Schedules, WaitAsTheClosedFormsSay) {
  for_all([](const Case& c, int p, int m) {
    const std::vector<PartTimes> times(static_cast<std::size_t>(p * c.chunks), {1, 1, 1});
    const double bubble = replayed(schedules_of(c.kind, p, c.chunks, m), times, 0).bubble;
    const int work = (splits_backward(c.kind) ? 3 : c.chunks) * m;
    const double expected = static_cast<double>(p - 1) / (work + p - 1);
    if (c.kind == ScheduleKind::gpipe || c.kind == ScheduleKind::one_f_one_b || m >= p)
      EXPECT_NEAR(bubble, expected, 1e-12);
    else
      EXPECT_GE(bubble, expected);  // fewer micro-batches than stages cannot fill what the schedule would
  });
}

TEST(Schedules, WaitForTransfersAndForTheSlowestStage) {
  const auto lists = schedules_of(ScheduleKind::one_f_one_b, 2, 1, 2);
  const std::vector<PartTimes> even(2, {1, 1, 1});
  // F0 F1 | t F0 B0 F1 B1 t | B1: 1 + 0.5 + 2 * 3 + 0.5 + 2
  const ScheduleReplay sent = replayed(lists, even, 0.5);
  EXPECT_NEAR(sent.time, 10, 1e-12);
  EXPECT_NEAR(sent.bubble, 1 - 12 / 20.0, 1e-12);
  const std::vector<PartTimes> uneven{{1, 1, 1}, {2, 2, 2}};
  const ScheduleReplay slow = replayed(lists, uneven, 0);
  EXPECT_NEAR(slow.time, 1 + 12 + 2, 1e-12);
  EXPECT_EQ(slow.busy, (std::vector<double>{6, 12}));
}

// Study of the schedule's source, replayed apart from this code: 8 stages, 32 micro-batches.
TEST(Schedules, WaitWhereTimesDiffer) {
  const auto bubble = [](ScheduleKind kind, PartTimes times, double transfer) {
    return replayed(schedules_of(kind, 8, 1, 32), std::vector<PartTimes>(8, times), transfer).bubble;
  };
  EXPECT_NEAR(bubble(ScheduleKind::zb_h1, {1, 1.4, 0.6}, 0), 0.116, 5e-4);
  EXPECT_NEAR(bubble(ScheduleKind::zb_h1, {1, 1, 1}, 0.1), 0.093, 5e-4);
  EXPECT_NEAR(bubble(ScheduleKind::one_f_one_b, {1, 1, 1}, 0.1), 0.225, 5e-4);
}

TEST(Schedules, ACircleIsRefused) {
  auto lists = schedules_of(ScheduleKind::one_f_one_b, 2, 1, 2);
  std::swap(lists[0][1], lists[0][2]);  // F0 B0 F1 B1: still fine
  std::swap(lists[1][0], lists[1][1]);  // B0 F0
  const std::vector<PartTimes> times(2, {1, 1, 1});
  EXPECT_THROW(replayed(lists, times, 0), Error);
}

}  // namespace
}  // namespace tandem
