#include "planner/plan/timeline.h"

#include <algorithm>

namespace tandem {

Timeline timeline_of(const DevicePlan& device) {
  Timeline t;
  std::vector<double> free;  // by stream
  for (const Step& s : device.steps) {
    const auto stream = static_cast<std::size_t>(s.stream);
    if (free.size() <= stream) free.resize(stream + 1);
    double begin = free[stream];
    for (const StepId w : s.waits)
      if (w.index < static_cast<int>(t.ends.size())) begin = std::max(begin, t.ends[w]);
    t.begins.push_back(begin);
    t.ends.push_back(free[stream] = begin + s.seconds);
    t.seconds = std::max(t.seconds, free[stream]);
  }
  t.streams = static_cast<int>(free.size());
  return t;
}

}  // namespace tandem
