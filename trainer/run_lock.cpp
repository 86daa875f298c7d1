#include "trainer/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string>

#include "graph/error.h"
#include "graph/atomic_file.h"

namespace tandem {
namespace {

std::string this_process() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  ::gethostname(host.data(), host.size() - 1);
  return concat("process ", ::getpid(), " on ", host.data());
}

// What the holder wrote into the file: another's words, so only what can be printed.
std::string holder(int fd) {
  std::array<char, 128> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  std::string s(text.data(), static_cast<std::size_t>(std::max<ssize_t>(0, n)));
  std::erase_if(s, [](char c) { return c < ' ' || c > '~'; });
  return s.empty() ? "another process" : s;
}

}  // namespace

bool is_locked(const std::filesystem::path& folder) {
  const FileDescriptor file(uninterrupted([&] { return ::open((folder / run_lock_name).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); }));
  return file.get() >= 0 && uninterrupted([&] { return ::flock(file.get(), LOCK_SH | LOCK_NB); }) != 0 && errno == EWOULDBLOCK;
}

RunLock::RunLock(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / run_lock_name;
  file_ = FileDescriptor(uninterrupted([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666); }));
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0) fail(ExitCode::io, path.string(), ": cannot be opened: ", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(ExitCode::io, path.string(), ": is no regular file");
  if (uninterrupted([&] { return ::flock(file_.get(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno != EWOULDBLOCK) fail(ExitCode::io, path.string(), ": the folder cannot be locked: ", std::strerror(errno));
    fail(ExitCode::io, folder.string(), ": a run is going on there (", holder(file_.get()), ")");
  }
  const std::string text = this_process() + "\n";
  if (uninterrupted([&] { return ::ftruncate(file_.get(), 0); }) == 0) write_exactly(file_.get(), text.data(), text.size(), 0, path.string());
  remove_abandoned_files(folder);
}

}  // namespace tandem
