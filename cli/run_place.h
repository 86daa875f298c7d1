// Where `tandem train` keeps its run: --run-dir, or by itself the next of runs/MODEL-1, runs/MODEL-2 and so on.
#pragma once
#include <filesystem>

#include "cli/command.h"
#include "ranks/world.h"

namespace tandem {

bool holds_checkpoint(const std::filesystem::path& run);

class RunPlace {
 public:
  // Makes the folder that it chooses; of several ranks the first. A dry run makes none. Where none can be made the
  // run goes on without it, with a line that says so.
  RunPlace(const Invocation& call, const World* world, bool dry);
  ~RunPlace();  // a folder that was made here goes again where no run was begun in it
  RunPlace(const RunPlace&) = delete;

  // The call with the folder as its --run-dir, empty: none is kept.
  const Arguments& arguments() const { return arguments_; }
  void say(const Invocation& call) const;  // which folder was chosen
  // A run that is to be resumed and was broken off before its first checkpoint, or never begun, starts anew: true, on all ranks alike. Only
  // once the folder is this process's.
  bool begin_anew_without_checkpoint(World* world);

 private:
  Arguments arguments_;
  std::filesystem::path made_;
};

}  // namespace tandem
