// A file that is read for as long as a process needs it: what a disk or a network fails to give for a moment is asked for again, and a
// file that somebody changes meanwhile is found out.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/file_descriptor.h"

namespace tandem {

// As pread, again where a signal interrupts, and twice more where an error may pass: EIO, EAGAIN, ETIMEDOUT, and ESTALE of network file
// systems.
ssize_t read_some(int fd, char* bytes, std::size_t size, std::int64_t offset);
bool may_pass(int error);  // an errno
void wait_for_disk(int time);  // before the n-th try again

// What tells that a file was changed.
struct FileState {
  std::int64_t size = -1, modified = 0;  // bytes, nanoseconds since 1970
  bool operator==(const FileState&) const = default;
};
FileState state_of(int fd);
// "has 10 bytes, it had 20", or that its time of modification is another.
std::string difference(const FileState& was, const FileState& now);

class InputFile {
 public:
  // Fails as open_regular; a read fails with `other`, too, where the file has changed since.
  InputFile(std::filesystem::path path, ExitCode other);
  InputFile(std::filesystem::path path, RegularFile opened, ExitCode other);
  const std::string& name() const { return name_; }
  std::int64_t size() const { return was_.size; }
  const FileState& state() const { return was_; }  // when it was opened
  void check_unchanged() const;
  // All bytes at an offset, by any number of threads. Opens the file anew where its handle is stale. Fails (io) where it cannot be read.
  void read(char* bytes, std::size_t size, std::int64_t offset) const;

 private:
  bool reopen() const;

  std::string name_;
  ExitCode other_;
  RegularFile file_;
  FileState was_;
};

}  // namespace tandem
