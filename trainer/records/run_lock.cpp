#include "trainer/records/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"

namespace tandem {
namespace {

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

// What the holder writes into the file: "process 12 on HOST", and " of 11" where it ends with that one, its starter.
std::string this_process() {
  int signal = 0;
  const bool ends_with_starter = ::prctl(PR_GET_PDEATHSIG, &signal) == 0 && signal != 0;
  return concat("process ", ::getpid(), " on ", host_name(), ends_with_starter ? concat(" of ", ::getppid()) : "");
}

// Another's words, so only what can be printed.
std::string holder(int fd) {
  std::array<char, 128> text{};
  const ssize_t n = uninterrupted([&] { return ::pread(fd, text.data(), text.size(), 0); });
  std::string s(text.data(), static_cast<std::size_t>(std::max<ssize_t>(0, n)));
  std::erase_if(s, [](char c) { return c < ' ' || c > '~'; });
  return s.empty() ? "another process" : s;
}

// For messages.
std::string shown(const std::string& holder) { return holder.substr(0, holder.find(" of ")); }

// Whether the holder is a process of this machine whose starter is gone, with which it ends.
bool is_orphan(const std::string& holder) {
  int id = 0, starter = 0;
  std::array<char, HOST_NAME_MAX + 1> host{};
  static_assert(HOST_NAME_MAX == 64);
  if (std::sscanf(holder.c_str(), "process %d on %64s of %d", &id, host.data(), &starter) != 3 || host_name() != host.data()) return false;
  std::ifstream status(concat("/proc/", id, "/status"));
  for (std::string word; status >> word;)
    if (int parent = 0; word == "PPid:" && status >> parent) return parent != starter;
  return false;
}

}  // namespace

bool is_locked(const std::filesystem::path& folder) {
  const FileDescriptor file(
      uninterrupted([&] { return ::open((folder / run_lock_name).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); }));
  return file.get() >= 0 && uninterrupted([&] { return ::flock(file.get(), LOCK_SH | LOCK_NB); }) != 0 && errno == EWOULDBLOCK;
}

RunLock::RunLock(const std::filesystem::path& folder, const std::function<void(const std::string&)>& say) {
  const std::filesystem::path path = folder / run_lock_name;
  file_ = FileDescriptor(uninterrupted([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666); }));
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0)
    fail(ExitCode::io, path.string(), ": cannot be opened: ", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(ExitCode::io, path.string(), ": is no regular file");
  const auto lock = [&] { return uninterrupted([&] { return ::flock(file_.get(), LOCK_EX | LOCK_NB); }) == 0; };
  bool held = lock();
  if (!held && errno == EWOULDBLOCK && is_orphan(holder(file_.get()))) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::seconds patience(60);
    if (say)
      say(concat(folder.string(), ": ", shown(holder(file_.get())), " is about to end, as its starter is gone: it is waited for, ",
                 patience.count(), " s at most"));
    for (const auto end = Clock::now() + patience; !held && Clock::now() < end; held = lock())
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (!held) {
    if (errno != EWOULDBLOCK) fail(ExitCode::io, path.string(), ": the folder cannot be locked: ", std::strerror(errno));
    fail(ExitCode::io, folder.string(), ": a run is going on there (", shown(holder(file_.get())), ")");
  }
  const std::string text = this_process() + "\n";
  if (uninterrupted([&] { return ::ftruncate(file_.get(), 0); }) == 0)
    write_exactly(file_.get(), text.data(), text.size(), 0, path.string());
  remove_abandoned_files(folder);
}

}  // namespace tandem
