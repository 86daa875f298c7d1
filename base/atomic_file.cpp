// Temporary names hold the process's number, and whoever writes to such a file locks it: one that nobody locks was left by a process
// that was killed, and is removed by the next that writes to the same target.
#include "base/atomic_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/hash.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view temporary_mark = ".tandem-";

// At most NAME_MAX bytes with `room` more: the end of a longer name, from a character's begin on, gives way to its hash.
std::string cut_name(std::string_view name, std::size_t room) {
  if (name.size() + room <= NAME_MAX) return std::string(name);
  Hash sum;
  sum.add(name);
  const std::string hash = sum.text();
  std::size_t end = NAME_MAX - room - hash.size() - 1;
  while (end > 0 && (name[end] & 0xC0) == 0x80) --end;
  return concat(name.substr(0, end), '~', hash);
}

[[noreturn]] void fail_to(const char* what, const std::string& shown) {
  fail(ExitCode::io, "cannot ", what, " '", shown, "': ", std::strerror(errno));
}

// What the temporary names of a target begin with: ".TARGET", cut so that any process's number has room behind it.
std::string begin_of_temporary(const std::string& target) { return cut_name(concat('.', target), temporary_mark.size() + 24); }

// Whether a name is one that an AtomicFile writes to: ".TARGET.tandem-PROCESS-NUMBER"; of any target where `begin` is empty.
bool is_temporary(std::string_view name, std::string_view begin) {
  const std::size_t at = name.rfind(temporary_mark);
  if (!name.starts_with('.') || at == std::string_view::npos || at < 2) return false;
  if (!begin.empty() && name.substr(0, at) != begin) return false;
  const std::string_view number = name.substr(at + temporary_mark.size());
  const std::size_t dash = number.find('-');
  const auto digits = [](std::string_view s) { return !s.empty() && s.find_first_not_of("0123456789") == std::string_view::npos; };
  return dash != std::string_view::npos && digits(number.substr(0, dash)) && digits(number.substr(dash + 1));
}

bool is_linked(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && status.st_nlink > 0;
}

// Who writes to a temporary file holds a lock on it, so one that can be locked is a killed process's.
void remove_abandoned(int folder, std::string_view begin) {
  const int listed = uninterrupted([&] { return ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(listed < 0 ? nullptr : ::fdopendir(listed), ::closedir);
  if (!entries) return;
  while (const dirent* entry = ::readdir(entries.get())) {
    if (!is_temporary(entry->d_name, begin)) continue;
    const FileDescriptor file(uninterrupted([&] { return ::openat(folder, entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); }));
    struct stat status {};
    if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (uninterrupted([&] { return ::flock(file.get(), LOCK_EX | LOCK_NB); }) == 0) ::unlinkat(folder, entry->d_name, 0);
  }
}

}  // namespace

std::string name_beside(std::string_view name, std::string_view ending) { return concat(cut_name(name, ending.size()), ending); }

fs::path path_beside(const fs::path& path, std::string_view ending) {
  return path.parent_path() / name_beside(path.stem().string(), ending);
}

AtomicFile::AtomicFile(const fs::path& folder, const fs::path& location)
    : name_(location.filename()), shown_((folder / location).string()) {
  if (name_.empty()) fail(ExitCode::io, "cannot write '", shown_, "': it has no file name");
  folder_ =
      FileDescriptor(uninterrupted([&] { return ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (folder_.get() < 0) fail_to("open the folder of", shown_);
  for (const fs::path& part : location.parent_path()) {
    if (part == ".") continue;
    if (::mkdirat(folder_.get(), part.c_str(), 0777) != 0 && errno != EEXIST) fail_to("make a folder for", shown_);
    FileDescriptor inner(::openat(folder_.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (inner.get() < 0) fail_to("open the folder of", shown_);
    folder_ = std::move(inner);
  }
  struct stat there {};
  const bool replaces = ::fstatat(folder_.get(), name_.c_str(), &there, 0) == 0;
  if (!replaces && errno == ENAMETOOLONG) fail_to("create", shown_);
  if (replaces && S_ISDIR(there.st_mode)) fail(ExitCode::io, shown_, ": is a folder, expected a file's name");
  if (replaces && !S_ISREG(there.st_mode)) fail(ExitCode::io, shown_, ": is a device or a pipe, expected a regular file's name");
  const std::string begin = begin_of_temporary(name_);
  remove_abandoned(folder_.get(), begin);
  for (int attempt = 0; temporary_.empty() && attempt < 100; ++attempt) {
    std::string candidate = concat(begin, temporary_mark, ::getpid(), '-', attempt);
    FileDescriptor made(uninterrupted(
        [&] { return ::openat(folder_.get(), candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666); }));
    if (made.get() < 0 && errno != EEXIST) break;
    // Where another has locked it first it takes it for an abandoned one. Some file systems have no locks.
    if (made.get() < 0 || (uninterrupted([&] { return ::flock(made.get(), LOCK_EX | LOCK_NB); }) != 0 && errno == EWOULDBLOCK) ||
        !is_linked(made.get()))
      continue;
    file_ = std::move(made);
    temporary_ = std::move(candidate);
  }
  if (temporary_.empty()) fail_to("create", shown_);
  if (!replaces) return;
  // The file that takes the other's place keeps its owner, as far as that is allowed, and its mode.
  [[maybe_unused]] const int owner = ::fchown(file_.get(), there.st_uid, there.st_gid);
  if (uninterrupted([&] { return ::fchmod(file_.get(), there.st_mode & 0777); }) != 0) fail_to("set the mode of", shown_);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : name_(std::move(other.name_)),
      temporary_(std::exchange(other.temporary_, {})),
      shown_(std::move(other.shown_)),
      folder_(std::move(other.folder_)),
      file_(std::move(other.file_)),
      end_(other.end_),
      flushed_(other.flushed_) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
}

void AtomicFile::write(const char* bytes, std::size_t size, std::int64_t offset) {
  flushed_ = false;
  write_exactly(file_.get(), bytes, size, offset, shown_);
  end_ = std::max(end_, offset + static_cast<std::int64_t>(size));
}

void AtomicFile::flush() {
  // Some file systems and special mounts cannot flush; that is no failed write.
  if (uninterrupted([&] { return ::fsync(file_.get()); }) != 0 && errno != EINVAL && errno != EROFS) fail_to("write", shown_);
  flushed_ = true;
}

void AtomicFile::commit() {
  if (!flushed_) flush();
  if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0) fail_to("replace", shown_);
  temporary_.clear();
  // The file is there and whole; that its folder cannot be flushed (some file systems refuse) changes nothing.
  [[maybe_unused]] const int flushed = uninterrupted([&] { return ::fsync(folder_.get()); });
}

void write_atomically(const fs::path& path, std::string_view contents) {
  AtomicFile file(path);
  file.append(contents);
  file.commit();
}

void remove_abandoned_files(const fs::path& folder) {
  const FileDescriptor opened(
      uninterrupted([&] { return ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (opened.get() >= 0) remove_abandoned(opened.get(), "");
}

FileLock::FileLock(const fs::path& path) {
  const fs::path beside = path.parent_path() / name_beside(concat('.', path.filename().string()), ".lock");
  FileDescriptor file(uninterrupted([&] { return ::open(beside.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666); }));
  if (file.get() < 0) return;
  for (const auto begin = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - begin < std::chrono::seconds(10);
       std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    if (uninterrupted([&] { return ::flock(file.get(), LOCK_EX | LOCK_NB); }) == 0) file_ = std::move(file);
    if (file_.get() >= 0 || errno != EWOULDBLOCK) return;
  }
}

}  // namespace tandem
