// What a training run leaves in its folder: config.json, plan.txt, metrics.csv, curves.svg, last.checkpoint, the one
// before (previous.checkpoint) and best.checkpoint.
#pragma once
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainer/checkpoint.h"
#include "trainer/model.h"
#include "trainer/run_lock.h"

namespace tandem {

// Training loss over steps, averaged so that a run of any length keeps a few hundred points.
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
std::string curves_of(const std::vector<EpochReport>& epochs, const LossTrace& trace, double steps_per_epoch);

class RunFolder {
 public:
  // Makes the folder, checks that it can be written to, and holds it (RunLock) where the caller does not; empty path:
  // nothing is kept.
  // `warn` is told, once a file, of what could not be written beside the checkpoints: the run goes on without it.
  explicit RunFolder(std::filesystem::path path, bool held = false, std::function<void(const std::string&)> warn = {});
  bool kept() const { return !path_.empty(); }
  std::filesystem::path last() const { return path_ / "last.checkpoint"; }
  std::filesystem::path previous() const { return path_ / "previous.checkpoint"; }
  std::filesystem::path best() const { return path_ / "best.checkpoint"; }

  // Removes what an earlier run has left: none of its checkpoints is this one's.
  void start_anew() const;
  // Keeps the present last checkpoint as the previous one: to be called right before the last one is replaced.
  void keep_last() const { link_last(previous()); }
  // Gives the last checkpoint a second name, at once. False where the file system has no such links.
  bool link_last(const std::filesystem::path& name) const;
  // The last checkpoint, or the one before where that cannot be read: then `note` says so. Fails where neither can.
  Checkpoint read_last(std::string& note) const;

  void write(const std::string& name, std::string_view contents) const;  // whole or not at all
  void write_metrics(const std::vector<EpochReport>& epochs, const LossTrace& trace, double steps_per_epoch) const;

 private:
  std::filesystem::path path_;
  std::function<void(const std::string&)> warn_;
  mutable std::set<std::string> told_;  // files that were warned of
  RunLock lock_;
};

}  // namespace tandem
