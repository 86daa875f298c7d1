// What each stage of a pipeline does in a step, as a static list. A stage is a group of devices that has a part of the model, or, with
// several chunks a stage, as many parts: chunk c of stage s is part c * stages + s of the model. A batch goes through in micro-batches.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/phase.h"

namespace tandem {

enum class ScheduleKind { gpipe, one_f_one_b, interleaved, zb_h1 };
std::string_view name_of(ScheduleKind kind);  // as people write it: "1f1b"
// Whether gradients of weights are computed in a phase of their own, apart from those of values.
bool splits_backward(ScheduleKind kind);

struct PipelineSchedule {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int chunks = 1;  // parts of the model a stage: 2 or more where it is `interleaved`, else 1
  bool operator==(const PipelineSchedule&) const = default;
};
std::string to_string(const PipelineSchedule& schedule);  // "interleaved=2"

// What one of `stages` stages does in a step, in order, without prepare and update. Micro-batches pass each chunk in their order. One
// stage is accumulation. All numbers are 1 or more, `stage` is below `stages`; chunks other than 1 are for `interleaved` alone.
// Sources: GPipe: Huang et al., 2019. 1F1B: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", 2021. Interleaved:
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", 2021, here for any number of micro-batches. ZB-H1:
// Qi et al., "Zero Bubble Pipeline Parallelism", 2024.
std::vector<ScheduleEntry> schedule_of(ScheduleKind kind, int stage, int stages, int chunks, int micro_batches);
// Those of all stages.
std::vector<std::vector<ScheduleEntry>> schedules_of(ScheduleKind kind, int stages, int chunks, int micro_batches);

// How many micro-batches of a chunk a stage holds at once: its slots.
int slots_of(std::span<const ScheduleEntry> schedule, int chunk);

// How long a part of the model takes for a micro-batch, in any one unit.
struct PartTimes {
  double forward = 0, backward = 0, weights = 0;
};

// A step as it goes where each stage does its list in order and waits for what the parts beside it send.
struct ScheduleReplay {
  double time = 0;           // from the first entry's begin to the last one's end
  double bubble = 0;         // the share of the stages' time, all together, in which they wait: 0 to 1
  std::vector<double> busy;  // by stage
};
// `times`: by part of the model, chunks * stages of them. `transfer` lies between an entry's end and the begin of what waits for it on
// another stage. Fails (usage) where stages wait for each other in a circle.
ScheduleReplay replayed(std::span<const std::vector<ScheduleEntry>> schedules, std::span<const PartTimes> times, double transfer);

}  // namespace tandem
