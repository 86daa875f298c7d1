// When the parts of a step were done, on the devices of all ranks.
#pragma once
#include "planner/plan/timeline.h"
#include "ranks/world.h"

namespace tandem {

class StepTrace {
 public:
  explicit StepTrace(const Plan& flat);  // of a written out plan, which outlives it
  // All ranks call this: what follows is noted from here on. Clocks of several hosts differ.
  void begin(World* world);
  // Of a device: rooms for times of the steady clock, 0 where a step did nothing; and what makes them times since begin().
  Timeline& line(std::size_t device) { return lines_[device]; }
  void set(std::size_t device);
  // All ranks call this, too. Steps without a time of their own lie at the end of the one before them on their stream.
  std::vector<Timeline> take(World* world);

 private:
  const Plan& flat_;
  std::vector<Timeline> lines_;
  double begin_ = 0;
};

}  // namespace tandem
