// Owns a POSIX file descriptor.
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace tandem {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Makes a system call again that a signal has interrupted (NFS and FUSE do that where a disk would not).
template <class Call>
auto uninterrupted(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

struct RegularFile {
  FileDescriptor descriptor;
  std::int64_t size = 0;
};
// Opens a file to read it, without waiting for the writer of a FIFO. Fails (io) where it cannot be read, with `other` where it
// is no regular file: a folder, a device, a FIFO.
RegularFile open_regular(const std::filesystem::path& path, ExitCode other);
// All its bytes. Fails as these do, and with `other` where there are more than `limit`.
std::string read_regular(const std::filesystem::path& path, std::int64_t limit, ExitCode other);

// Reads or writes all bytes at an offset; fails (io) with the name otherwise.
void read_exactly(int fd, char* bytes, std::size_t size, std::int64_t offset, const std::string& name);
void write_exactly(int fd, const char* bytes, std::size_t size, std::int64_t offset, const std::string& name);

}  // namespace tandem
