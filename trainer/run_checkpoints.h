// The checkpoints of one run: what they say of it, what happens where one cannot be written, and how a run goes on from one.
#pragma once
#include <string>

#include "trainer/data/dataset.h"
#include "trainer/model_state.h"
#include "trainer/position.h"
#include "trainer/run_folder.h"

namespace tandem {

class RunCheckpoints {
 public:
  // In `folder`, which may keep nothing. All of these outlive the object.
  RunCheckpoints(const RunFolder& folder, Model::State& state, const Dataset& data, const BatchOrder& order, const FitOptions& options);

  // Writes where the run stands, with the session's tensors, as one file.
  void write(const Position& at, const std::filesystem::path& path);
  // Replaces the last checkpoint. Where it cannot be written the run goes on: a warning says so, and it is counted.
  void keep(const Position& at);
  // Keeps this position as the best, too; false where it cannot be written.
  bool keep_best(const Position& at);
  // Takes the last checkpoint, of this very run, into the session; says where it stands. Fails (usage) where it is of another.
  Position resume();
  // Takes the last checkpoint, which this run has written.
  Position go_back();

  std::int64_t step() const { return step_; }  // of the last checkpoint, where that is whole
  std::int64_t written() const { return written_; }
  std::int64_t failed() const { return failed_; }
  const std::string& failure() const { return failure_; }  // the last one's

 private:
  void warn(const std::string& text) const;
  Json::Object identity() const;
  bool try_to_write(const Position& at, const std::filesystem::path& path, std::string_view next);

  const RunFolder& folder_;
  Model::State& s_;
  const Dataset& data_;
  const BatchOrder& order_;
  const FitOptions& o_;
  std::string template_, fingerprint_;  // of the model and the data, where checkpoints are kept
  std::int64_t step_ = 0, written_ = 0, failed_ = 0;
  std::string failure_;
};

}  // namespace tandem
