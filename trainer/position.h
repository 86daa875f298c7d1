// Where a run stands: all that a checkpoint must say beside the parameters.
#pragma once
#include <cstdint>
#include <vector>

#include "graph/json.h"
#include "trainer/model.h"
#include "trainer/run_folder.h"

namespace tandem {

struct Position {
  std::int64_t epoch = 0, batch = 0;  // next to be trained on
  std::int64_t step = 0;              // done
  double loss = 0, correct = 0;       // sums over the epoch's samples so far
  std::int64_t samples = 0;
  double seconds = 0;
  double best = not_measured;  // of what the best checkpoint is chosen by
  Waiting plateau, early;      // for a better measure: what the schedule and early stopping go by
  std::int64_t judged = 0;     // the last step whose measure these two know
  std::int64_t averaged = 0;   // weights that a mean over epochs has
  LossTrace trace, rates;  // of the losses, of the learning rates
  std::vector<EpochReport> history;
  std::map<std::string, double> metrics{};  // sums as of the loss, by StepReport::metrics' names
};

Json::Object json_of(const Position& position);
// `batches`: of an epoch. Fails (model) on counts that no run has.
Position position_of(const Json& state, std::int64_t batches);

}  // namespace tandem
