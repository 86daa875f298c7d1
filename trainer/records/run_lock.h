// Who holds a run's folder: one process at a time. Two runs in one folder would replace each other's checkpoints.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "base/file_descriptor.h"

namespace tandem {

inline constexpr const char* run_lock_name = "run.lock";

// Whether a process holds the folder now.
bool is_locked(const std::filesystem::path& folder);

class RunLock {
 public:
  RunLock() = default;
  // Takes the folder until the lock is destroyed or the process ends, however it ends. Fails (io) where another process
  // holds it, naming that one's number and machine; what killed runs left half-written there is removed. One whose starter is gone, a rank
  // of a launcher that was killed, is about to end: it is waited for, a minute at most, and `say` is told so.
  explicit RunLock(const std::filesystem::path& folder, const std::function<void(const std::string&)>& say = {});

 private:
  FileDescriptor file_;
};

}  // namespace tandem
