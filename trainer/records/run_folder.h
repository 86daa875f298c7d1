// What a training run leaves in its folder: config.json, plan.txt, metrics.csv and metrics.jsonl (a row an epoch), steps.csv,
// curves.svg and curves.png, last.checkpoint, the one before (previous.checkpoint) and best.checkpoint, and parts of these.
#pragma once
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainer/checkpoint.h"
#include "trainer/model.h"
#include "trainer/records/curves.h"
#include "trainer/records/run_lock.h"

namespace tandem {

// How a run ended: {"state": "done", "stopped" or "failed", "error": why it failed}. Absent while it goes on, or was killed.
inline constexpr const char* run_end_name = "end.json";

// A number over steps, the loss or the learning rate, averaged so that a run of any length keeps a few hundred points.
class LossTrace {
 public:
  void add(double loss);
  std::vector<std::pair<double, double>> points() const;  // step (the middle of its window), mean loss
  Json json() const;
  static LossTrace from(const Json& json);

 private:
  static constexpr std::size_t most = 400;
  std::int64_t window_ = 1;  // steps a point
  std::vector<double> means_;
  double sum_ = 0;  // of the window being filled
  std::int64_t count_ = 0;
};

Json json_of(const EpochReport& report);
EpochReport epoch_report(const Json& json);
std::string csv_of(const std::vector<EpochReport>& epochs);
struct Traces {
  const LossTrace &losses, &rates;
  double steps_per_epoch;
};
// Loss, every metric with its validation's, and the learning rate, over epochs.
std::vector<Panel> panels_of(const std::vector<EpochReport>& epochs, const Traces& traces);

class RunFolder {
 public:
  // Makes the folder, checks that it can be written to, and holds it (RunLock) where the caller does not; empty path:
  // nothing is kept.
  // `warn` is told, once a file, of what could not be written beside the checkpoints: the run goes on without it.
  explicit RunFolder(std::filesystem::path path, bool held = false, std::function<void(const std::string&)> warn = {});
  bool kept() const { return !path_.empty(); }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path last() const { return path_ / "last.checkpoint"; }
  std::filesystem::path previous() const { return path_ / "previous.checkpoint"; }
  std::filesystem::path best() const { return path_ / "best.checkpoint"; }

  // Removes what an earlier run has left: none of its checkpoints is this one's.
  void start_anew() const;
  void take_up() const;  // the run goes on: it has not ended
  // Keeps the present last checkpoint as the previous one: to be called right before the last one is replaced.
  void keep_last() const { link_last(previous()); }
  // Keeps the last checkpoint as one of the `most` latest, step-N.checkpoint; the oldest go.
  void keep_step(std::int64_t step, std::int64_t most) const;
  // Gives the last checkpoint a second name, at once. False where the file system has no such links.
  bool link_last(const std::filesystem::path& name) const;
  // The last checkpoint, or the one before where that cannot be read: then `note` says so. Fails where neither can.
  using Read = std::function<Checkpoint(const std::filesystem::path&)>;
  Checkpoint read_last(std::string& note, const Read& read = [](const auto& path) { return read_checkpoint(path); }) const;

  void write(const std::string& name, std::string_view contents) const;  // whole or not at all
  void write_end(std::string_view state, const std::string& error = "") const;
  void write_metrics(const std::vector<EpochReport>& epochs, const Traces& traces) const;

 private:
  void keep_latest(std::int64_t most) const;
  std::filesystem::path path_;
  std::function<void(const std::string&)> warn_;
  mutable std::set<std::string> warned_;  // files that were warned of
  RunLock lock_;
};

}  // namespace tandem
