// Where a run stands: all that a checkpoint must say beside the parameters.
#pragma once
#include <cstdint>
#include <vector>

#include "base/json.h"
#include "trainer/model.h"
#include "trainer/records/run_folder.h"

namespace tandem {

// Of values that count by weights.
struct WeightedMean {
  double sum = 0, weight = 0;
  void add(double value, double by) {
    if (by == 0) return;  // nothing counted in it
    sum += by * value;
    weight += by;
  }
  double mean() const { return weight == 0 ? 0 : sum / weight; }
};

struct Position {
  std::int64_t epoch = 0, batch = 0;  // next to be trained on
  std::int64_t step = 0;              // done
  std::int64_t steps = 0;             // after which the run is to end, by which schedules go; 0: not known
  WeightedMean loss, accuracy;        // of the epoch so far
  std::int64_t samples = 0;
  double seconds = 0;
  double best = not_measured;  // of what the best checkpoint is chosen by
  Waiting plateau, early;      // for a better measure: what the schedule and early stopping go by
  std::int64_t measured = 0;   // the last step whose measure these two know
  std::int64_t averaged = 0;   // weights that a mean over epochs has
  LossTrace trace, rates;  // of the losses, of the learning rates
  std::vector<EpochReport> history;
  std::map<std::string, WeightedMean> metrics{};  // by StepReport::metrics' names
};

Json::Object json_of(const Position& position);
// `batches`: of an epoch. Fails (model) on counts that no run has.
Position position_of(const Json& state, std::int64_t batches);

}  // namespace tandem
