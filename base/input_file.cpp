#include "base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace tandem {

constexpr int tries = 3;

bool may_pass(int error) {
  constexpr int passing[] = {EIO, EAGAIN, ETIMEDOUT, ESTALE};
  return std::find(std::begin(passing), std::end(passing), error) != std::end(passing);
}

void wait_for_disk(int time) { std::this_thread::sleep_for(std::chrono::milliseconds(time == 1 ? 10 : 200)); }

ssize_t read_some(int fd, char* bytes, std::size_t size, std::int64_t offset) {
  for (int time = 1;; ++time) {
    const ssize_t n = uninterrupted([&] { return ::pread(fd, bytes, size, offset); });
    if (n >= 0 || time == tries || !may_pass(errno)) return n;
    wait_for_disk(time);
  }
}

FileState state_of(int fd) {
  struct stat s {};
  if (::fstat(fd, &s) != 0) return {};
  return {.size = s.st_size, .modified = std::int64_t{s.st_mtim.tv_sec} * 1'000'000'000 + s.st_mtim.tv_nsec};
}

std::string difference(const FileState& was, const FileState& now) {
  return now.size != was.size ? concat("it has ", now.size, " bytes, it had ", was.size)
                              : std::string("its time of modification is another");
}

InputFile::InputFile(std::filesystem::path path, ExitCode other) : InputFile(path, open_regular(path, other), other) {}

InputFile::InputFile(std::filesystem::path path, RegularFile opened, ExitCode other)
    : name_(path.string()), other_(other), file_(std::move(opened)), was_(state_of(file_.descriptor.get())) {
  was_.size = file_.size;
}

void InputFile::check_unchanged() const {
  if (const FileState now = state_of(file_.descriptor.get()); now.size >= 0 && now != was_)
    fail(other_, name_, ": has changed while it is in use: ", difference(was_, now));
}

// In the old one's place, where other threads may read. The file itself must be the same.
bool InputFile::reopen() const {
  const FileDescriptor again(uninterrupted([&] { return ::open(name_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); }));
  if (again.get() < 0) return false;
  if (const FileState now = state_of(again.get()); now != was_)
    fail(other_, name_, ": has changed while it is in use: ", difference(was_, now));
  return uninterrupted([&] { return ::dup3(again.get(), file_.descriptor.get(), O_CLOEXEC); }) >= 0;
}

void InputFile::read(char* bytes, std::size_t size, std::int64_t offset) const {
  for (std::size_t done = 0; done < size;) {
    const std::int64_t at = offset + static_cast<std::int64_t>(done);
    ssize_t n = read_some(file_.descriptor.get(), bytes + done, size - done, at);
    if (n < 0 && errno == ESTALE && reopen()) n = read_some(file_.descriptor.get(), bytes + done, size - done, at);
    if (n < 0) fail(ExitCode::io, "cannot read '", name_, "': ", std::strerror(errno));
    if (n == 0) {
      check_unchanged();
      fail(ExitCode::io, "'", name_, "' ends at byte ", at, ", ", size - done, " more were expected");
    }
    done += static_cast<std::size_t>(n);
  }
  check_unchanged();
}

}  // namespace tandem
