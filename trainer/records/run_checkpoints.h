// The checkpoints of one run: what they say of it, what happens where one cannot be written, and how a run goes on from one.
// They are written by a thread while training goes on. It has a copy of weights and optimizer state, where that is small, one at a time. Of
// others, and of parts of ranks, the run hands the values to the system before it goes on, and the thread brings them to the disk.
#pragma once
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "data/dataset.h"
#include "trainer/compiled_model.h"
#include "trainer/records/position.h"
#include "trainer/records/rank_parts.h"
#include "trainer/records/run_facts.h"
#include "trainer/records/run_folder.h"

namespace tandem {

class RunCheckpoints {
 public:
  // In `folder`, which may keep nothing. All of these outlive the object.
  RunCheckpoints(const RunFolder& folder, CompiledModel& state, const Dataset& data, const BatchOrder& order, const FitOptions& options);

  // Behind it checkpoints are written in parts, where rank 0 lacks values and all ranks see its folder. All ranks call it, and then
  // everything else by on_ranks().
  void share_folder();
  // Rank 0 does `work` with the others' values at hand (Session::together), then they do it; with parts all do it at once.
  void on_ranks(const std::function<void()>& work);

  // Writes where the run stands, with the session's tensors, as one file.
  void write(const Position& at, const std::filesystem::path& path);

  // Begins to replace the last checkpoint, once the one before it is written: where that takes long a warning says so, once. Where it
  // cannot be written the run goes on: a warning says so then, and it is counted. `at.best` is forgotten where the best checkpoint could
  // not be kept.
  void keep(Position& at);
  // Keeps this position as the best, too; false where it cannot be written.
  bool keep_best(const Position& at);
  // Waits for what is being written, gives it its other names, and warns where it failed.
  void finish();
  // The same of ranks of which some may have failed, by each alone: what they write in parts is no checkpoint.
  void finish_alone();
  void poll();  // finish() where that waits for nothing; between any two steps
  // Ranks that write parts must know of each other that they are through: whether this rank is, and what all said when they met.
  bool part_is_written() const { return parts_ && writing_ && parts_->written(); }
  void set_all_parts_written(bool all) { all_parts_written_ = all; }
  bool all_parts_written() const { return all_parts_written_; }
  // Takes the last checkpoint, of this very run, into the session; says where it stands. Fails (usage) where it is of another, (data)
  // where no run stands so; warns of options that have changed and may.
  Position resume();
  // Takes the last checkpoint, which this run has written.
  Position go_back();

  // Behind finish().
  std::int64_t step() const { return step_; }  // of the last checkpoint, where that is whole
  std::int64_t written() const { return written_; }
  std::int64_t failed() const { return failed_; }
  const std::string& failure() const { return failure_; }  // the last one's

 private:
  void warn(const std::string& text) const;
  void wait_for_the_one_before(std::int64_t step);
  std::vector<RunFact> facts() const { return run_facts(s_, o_, order_, template_, fingerprint_); }
  Json state_of(const Position& at) const;
  Checkpoint snapshot(const Position& at) const;
  bool room_for_snapshot() const;
  AtomicFile from_session(const std::filesystem::path& path, const Position& at) const;  // not committed
  std::string made_best() const;
  void name_last(std::int64_t step, bool replaces, const std::function<void()>& write) const;

  const RunFolder& folder_;
  CompiledModel& s_;
  const Dataset& data_;
  const BatchOrder& order_;
  const FitOptions& o_;
  std::string template_, fingerprint_;  // of the model and the data, where checkpoints are kept
  std::int64_t step_ = 0, written_ = 0, failed_ = 0;
  std::string failure_;
  std::optional<RankParts> parts_;

  // Of the checkpoint that is being written.
  std::future<std::string> writer_;  // what went wrong; of one file
  RankParts::Commit commit_;         // of parts
  bool writing_ = false, best_wanted_ = false, best_lost_ = false, all_parts_written_ = false, slow_disk_told_ = false;
  std::int64_t writing_step_ = 0;
};

}  // namespace tandem
