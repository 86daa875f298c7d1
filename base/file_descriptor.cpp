// Opens, reads and writes whole pieces, again where a signal interrupts; reads also where an error may pass.
#include "base/file_descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/input_file.h"
#include "base/memory.h"

namespace tandem {

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

RegularFile open_regular(const std::filesystem::path& path, ExitCode other) {
  const auto open = [&] { return FileDescriptor(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); })); };
  RegularFile file{open()};
  for (int time = 1; file.descriptor.get() < 0 && may_pass(errno) && time < 3; ++time) {
    wait_for_disk(time);
    file.descriptor = open();
  }
  struct stat status {};
  if (file.descriptor.get() < 0 || ::fstat(file.descriptor.get(), &status) != 0)
    fail(ExitCode::io, path.string(), ": cannot be read: ", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(other, path.string(), ": is a folder, a device or a pipe, expected a regular file");
  file.size = status.st_size;
  return file;
}

std::string read_regular(const std::filesystem::path& path, std::int64_t limit, ExitCode other) {
  const RegularFile file = open_regular(path, other);
  if (file.size > limit) fail(other, path.string(), ": has ", file.size, " bytes, at most ", limit, " are read");
  const auto size = static_cast<std::uint64_t>(file.size);
  std::string bytes = allocate(size, [&] { return std::string(size, '\0'); }, "the contents of ", path.string());
  read_exactly(file.descriptor.get(), bytes.data(), bytes.size(), 0, path.string());
  return bytes;
}

void read_exactly(int fd, char* bytes, std::size_t size, std::int64_t offset, const std::string& name) {
  while (size > 0) {
    const ssize_t n = read_some(fd, bytes, size, offset);
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
