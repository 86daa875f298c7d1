// All that a run writes down while it trains: the log of its steps, and TensorBoard's events where they are asked for.
#pragma once
#include <functional>
#include <string>

#include "runtime/session.h"
#include "trainer/records/run_folder.h"
#include "trainer/records/run_log.h"
#include "trainer/records/tensorboard.h"

namespace tandem {

class RunRecords {
 public:
  // In `folder`, which may keep nothing; it and the options outlive the object.
  RunRecords(const RunFolder& folder, const FitOptions& options, const std::function<void(const std::string&)>& warn)
      : folder_(folder), options_(options), steps_(folder.path(), warn), events_(warn) {}
  // Behind `step`; `graph` is asked for where it is shown.
  void begin(std::int64_t step, const std::function<Graph()>& graph);
  void step(const StepReport& report);
  void epoch(const EpochReport& report, const Session& session);
  void flush();

 private:
  const RunFolder& folder_;
  const FitOptions& options_;
  StepLog steps_;
  EventFile events_;
};

}  // namespace tandem
