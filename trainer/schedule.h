// Learning rates over a run.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Every schedule may start with a linear warm-up over `warmup` epochs; the rest then runs as if it began there.
struct Schedule {
  std::string name = "constant";                        // of schedule_names()
  std::map<std::string, double, std::less<>> numbers;   // by the schedule's keys; absent: as parse_schedule("NAME") has them
  std::vector<double> at;                               // multistep: epochs

  double number(std::string_view key, double absent) const;
  bool follows_measure() const { return name == "plateau"; }
};

// NAME[,KEY=VALUE...] by the table in schedule.cpp, as help_of_schedules() tells; PyTorch's names are taken too. Fails (usage).
Schedule parse_schedule(std::string_view text);
std::string text_of(const Schedule& schedule);  // as it is read above, with all its numbers
std::string help_of_schedules();

// The rate of a step (from 0) of `steps`, with `steps_per_epoch`. Of "plateau" without what its measure has made of it.
double learning_rate(const Schedule& schedule, double base, std::int64_t step, std::int64_t steps, double steps_per_epoch);

// What a run's measure has brought about so far: of "plateau", and of early stopping. Kept in checkpoints.
struct Waiting {
  double best = 0;  // the least measure so far
  bool any = false;
  std::int64_t bad = 0;       // epochs since it was that much better
  std::int64_t cooldown = 0;  // epochs that do not count
  double factor = 1;          // of the rate

  // An epoch's measure, less is better: true where `bad` epochs are more than `patience`. As PyTorch's ReduceLROnPlateau with
  // threshold_mode "rel" (relative) or "abs".
  bool add(double measure, double threshold, bool relative, std::int64_t patience);
};
// What plateau makes of an epoch's measure: its factor, from then on.
void follow_measure(const Schedule& schedule, double base, double measure, Waiting& waiting);

}  // namespace tandem
