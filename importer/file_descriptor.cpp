#include "importer/file_descriptor.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "graph/error.h"

namespace tandem {

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void read_exactly(int fd, char* bytes, std::size_t size, std::int64_t offset, const std::string& name) {
  while (size > 0) {
    const ssize_t n = uninterrupted([&] { return ::pread(fd, bytes, size, offset); });
    if (n < 0) fail(ExitCode::io, "cannot read '", name, "': ", std::strerror(errno));
    if (n == 0) fail(ExitCode::io, "'", name, "' ends at byte ", offset, ", ", size, " more were expected");
    bytes += n;
    size -= static_cast<std::size_t>(n);
    offset += n;
  }
}

void write_exactly(int fd, const char* bytes, std::size_t size, std::int64_t offset, const std::string& name) {
  while (size > 0) {
    const ssize_t n = uninterrupted([&] { return ::pwrite(fd, bytes, size, offset); });
    if (n == 0) errno = EIO;  // no file system should
    if (n <= 0) fail(ExitCode::io, "cannot write '", name, "': ", std::strerror(errno));
    bytes += n;
    size -= static_cast<std::size_t>(n);
    offset += n;
  }
}

}  // namespace tandem
