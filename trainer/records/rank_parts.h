// Checkpoints of ranks that see one folder: each writes the values, and parts of values, that are its own to write (owned_parts) into a
// file of its own, all at once. A thread brings the file to the disk while training goes on. Rank 0 writes the index when all are on the
// disk: until then there is no new checkpoint. Reading, each rank takes what its devices need. No value goes from rank to rank.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "ranks/world.h"
#include "runtime/session.h"
#include "trainer/checkpoint.h"
#include "trainer/checkpoint_parts.h"

namespace tandem {

// What went wrong, or nothing.
std::string failure_of(const std::function<void()>& work);
// The same of a second try, as an error may pass at once.
std::string tried_twice(const std::function<void()>& work);
// Whether a thread's work is done.
inline bool is_done(const std::future<std::string>& work) {
  return work.valid() && work.wait_for(std::chrono::seconds(0)) != std::future_status::timeout;
}

// Where this rank sees rank 0's folder and can write to it; all ranks call it. Empty on all where one does not: then `why` says which.
// `own`: where this rank would keep the run; of rank 0 empty where it is not kept.
std::filesystem::path shared_folder(World& world, const std::filesystem::path& own, std::string& why);

class RankParts {
 public:
  // `folder`: from shared_folder(). All of these outlive the object; all ranks call each function, which fails (communication) as the World
  // does.
  RankParts(const Session& session, World& world, std::filesystem::path folder)
      : session_(session), world_(world), folder_(std::move(folder)) {}

  // Begins a checkpoint after `step`; no other may be begun. It returns when the values are with the system, so that steps may change
  // them. A thread brings them to the disk.
  void begin(std::int64_t step);
  // Whether this rank's part is on the disk, or cannot be.
  bool written() const { return is_done(writer_); }
  // Ends the checkpoint that was begun: waits for all ranks' parts. Rank 0 calls `commit`, perhaps twice, with what an index says of the
  // parts; it writes that. What went wrong on some rank, or nothing: on all ranks the same. Parts that no index in the folder names are
  // removed.
  using Commit = std::function<void(const Json& parts)>;
  std::string finish(const Commit& commit);
  std::string write(std::int64_t step, const Commit& commit) { return begin(step), finish(commit); }
  // By this rank alone: waits for its own part, of what will be no checkpoint.
  void abandon();
  // Rank 0 does something else, in the same way.
  std::string by_first(const std::function<void()>& work) const;
  // The checkpoint of that name in the folder. Each rank reads for their checksums as many of its files as the others. Fails on all ranks
  // where one fails (read_checkpoint), naming it.
  Checkpoint read(const std::filesystem::path& name) const;

 private:
  bool first() const { return world_.rank() == 0; }
  const Session& session_;
  World& world_;
  std::filesystem::path folder_;

  // Of the checkpoint that was begun.
  std::vector<PlacedValue> values_;
  std::vector<CheckpointPart> written_;
  std::future<std::string> writer_;  // what went wrong with this rank's part
};

}  // namespace tandem
