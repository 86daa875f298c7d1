// Which kernel a process times now, kept beside the file of times: a kernel that ends its process is known to the next one.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/file_descriptor.h"

namespace tandem {

// A file ".NAME.timing-PID" beside the file of times, locked while its process lives. Nothing here fails: what cannot be written is
// not known to others.
class TimedNow {
 public:
  explicit TimedNow(const std::filesystem::path& times);  // empty: nothing is written
  ~TimedNow();
  TimedNow(const TimedNow&) = delete;
  TimedNow& operator=(const TimedNow&) = delete;
  void begin(const std::string& key);
  void end();
  // The keys of processes that ended while they timed a kernel. Each is given once.
  static std::vector<std::string> left_behind(const std::filesystem::path& times);

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace tandem
