// What must hold of every trace of a step (Chrome's Trace Event Format).
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/json.h"

namespace tandem::test {

struct TraceCounts {
  std::size_t slices = 0, flows = 0;
  std::set<std::string> processes;  // their names
};

// Slices of a lane do not overlap. Each flow has one beginning and one end, goes forward in time, and all its points lie in slices.
inline TraceCounts sound_trace(const std::string& text) {
  using Lane = std::pair<std::int64_t, std::int64_t>;   // process, thread
  using Slice = std::pair<std::int64_t, std::int64_t>;  // begin and end, in nanoseconds
  const auto nanoseconds = [](const Json& microseconds) { return std::int64_t{std::llround(1000 * microseconds.number())}; };
  const auto lane_of = [](const Json& e) { return Lane{e.at("pid").integer(), e.at("tid").integer()}; };
  const Json trace = Json::parse(text);
  TraceCounts counts;
  std::map<Lane, std::vector<Slice>> lanes;
  std::map<std::int64_t, std::vector<const Json*>> flows;
  for (const Json& e : trace.at("traceEvents").array()) {
    const std::string& phase = e.at("ph").text();
    if (phase == "X") {
      const std::int64_t begin = nanoseconds(e.at("ts"));
      lanes[lane_of(e)].emplace_back(begin, begin + nanoseconds(e.at("dur")));
      ++counts.slices;
    } else if (phase == "s" || phase == "t" || phase == "f") {
      flows[e.at("id").integer()].push_back(&e);
    } else {
      EXPECT_EQ(phase, "M");
      if (e.at("name").text() == "process_name") counts.processes.insert(e.at("args").at("name").text());
    }
  }
  counts.flows = flows.size();
  for (auto& [lane, list] : lanes) {
    std::ranges::sort(list);
    for (std::size_t i = 1; i < list.size(); ++i)
      EXPECT_LE(list[i - 1].second, list[i].first) << "process " << lane.first << ", thread " << lane.second;
  }
  for (const auto& [id, events] : flows) {
    EXPECT_EQ(events.front()->at("ph").text(), "s");
    EXPECT_EQ(events.back()->at("ph").text(), "f");
    EXPECT_EQ(std::ranges::count_if(events, [](const Json* e) { return e->at("ph").text() == "t"; }), std::ssize(events) - 2);
    std::int64_t before = 0;
    for (const Json* e : events) {
      const std::int64_t time = nanoseconds(e->at("ts"));
      EXPECT_GE(time, before) << "flow " << id;
      before = time;
      const auto within = [&](const Slice& s) { return s.first <= time && time <= s.second; };
      EXPECT_TRUE(std::ranges::any_of(lanes[lane_of(*e)], within)) << "flow " << id;
    }
  }
  return counts;
}

}  // namespace tandem::test
