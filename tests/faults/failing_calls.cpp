// A disk that fails, or a process that dies, at a chosen call: a library to preload (LD_PRELOAD). It counts the calls that
// touch files below a folder, and does what is asked at the Nth of them.
//   TANDEM_FAULT_BELOW   the folder
//   TANDEM_FAULT_LOG     a file outside of it: a line "N CALL PATH" for each call
//   TANDEM_FAULT_CALL    N, from 1; 0 or nothing: none fails
//   TANDEM_FAULT_NAME    only calls on files with this text in their names count
//   TANDEM_FAULT         what happens there:
//     eio, enospc        the call fails, once
//     full               from there on whatever takes space fails with ENOSPC
//     dead               from there on every call fails with EIO
//     eintr              the call fails with EINTR, once, where it may
//     short              a write takes half of its bytes, a read gives half
//     stale, eio_read    a read fails with ESTALE, or EIO, once
//     slow               every fsync takes a second, whatever N is
//     kill               SIGKILL before the call
//     torn               half of a write, then SIGKILL
//     cut                SIGKILL, and what no fsync has put on the disk is gone: the power fails
// Calls through which a file changes or is read are wrapped as the C library names them; close is done and then fails.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <string>

namespace {

enum Trait : unsigned { none = 0, takes_space = 1, may_be_interrupted = 2, writes = 4, reads = 8 };

struct Settings {
  std::string below, fault, log, name;
  long call = 0;
};

const Settings& settings() {
  static const Settings s = [] {
    const auto text = [](const char* name) {
      const char* value = getenv(name);
      return std::string(value ? value : "");
    };
    return Settings{text("TANDEM_FAULT_BELOW"), text("TANDEM_FAULT"), text("TANDEM_FAULT_LOG"), text("TANDEM_FAULT_NAME"),
                    atol(text("TANDEM_FAULT_CALL").c_str())};
  }();
  return s;
}

std::mutex mutex;
long counted = 0;

std::string path_of(int fd) {
  char text[PATH_MAX], link[64];
  if (fd == AT_FDCWD) return getcwd(text, sizeof text) ? text : "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, text, sizeof text);
  return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : "";
}

std::string path_of(int folder, const char* path) {
  return path[0] == '/' ? path : path_of(folder) + '/' + path;
}

bool is_below(const std::string& path) {
  const std::string& below = settings().below;
  return !below.empty() && path.starts_with(below) && (path.size() == below.size() || path[below.size()] == '/') &&
         path.find(settings().name, below.size()) != std::string::npos;
}

// Files with bytes that no fsync has put on the disk.
struct Unflushed {
  dev_t device;
  ino_t inode;
  int fd;
};
Unflushed unflushed[64];
int unflushed_count = 0;

Unflushed* find_unflushed(const struct stat& status) {
  return std::find_if(unflushed, unflushed + unflushed_count,
                      [&](const Unflushed& u) { return u.device == status.st_dev && u.inode == status.st_ino; });
}

void note_write(int fd) {
  struct stat status;
  if (settings().fault != "cut" || fstat(fd, &status) != 0 || find_unflushed(status) != unflushed + unflushed_count ||
      unflushed_count == 64)
    return;
  unflushed[unflushed_count++] = {status.st_dev, status.st_ino, fcntl(fd, F_DUPFD_CLOEXEC, 500)};
}

void note_flush(int fd) {
  struct stat status;
  if (settings().fault != "cut" || fstat(fd, &status) != 0) return;
  Unflushed* const found = find_unflushed(status);
  if (found == unflushed + unflushed_count) return;
  syscall(SYS_close, found->fd);
  *found = unflushed[--unflushed_count];
}

[[noreturn]] void die() {
  for (int i = 0; i < unflushed_count; ++i) syscall(SYS_ftruncate, unflushed[i].fd, 0L);
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

enum class Verdict { go, fail, half, half_and_die };

// Counts a call and says what becomes of it; errno is set where it fails.
Verdict judge(const char* call, const std::string& path, unsigned traits) {
  const int before = errno;
  if (!is_below(path)) {
    errno = before;
    return Verdict::go;
  }
  const Settings& s = settings();
  if (s.fault == "slow" && !strcmp(call, "fsync")) usleep(1000000);
  const std::lock_guard lock(mutex);
  const long number = ++counted;
  if (!s.log.empty()) {
    const std::string line = std::to_string(number) + ' ' + call + ' ' + path + '\n';
    const long fd = syscall(SYS_openat, AT_FDCWD, s.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    syscall(SYS_write, fd, line.data(), line.size());
    syscall(SYS_close, fd);
  }
  errno = before;
  if (s.call <= 0 || number < s.call) return Verdict::go;
  const auto fail_with = [](int error) {
    errno = error;
    return Verdict::fail;
  };
  if (s.fault == "full") return traits & takes_space ? fail_with(ENOSPC) : Verdict::go;
  if (s.fault == "dead") return fail_with(EIO);
  if (s.fault == "slow") return Verdict::go;
  if (number > s.call) return Verdict::go;
  if (s.fault == "eio") return fail_with(EIO);
  if (s.fault == "enospc") return fail_with(ENOSPC);
  if (s.fault == "eintr") return traits & may_be_interrupted ? fail_with(EINTR) : Verdict::go;
  if (s.fault == "short") return traits & (writes | reads) ? Verdict::half : Verdict::go;
  if (s.fault == "stale" || s.fault == "eio_read") return traits & reads ? fail_with(s.fault == "stale" ? ESTALE : EIO) : Verdict::go;
  if (s.fault == "torn" && traits & writes) return Verdict::half_and_die;
  die();
}

template <class F>
F* real(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

// `failed`: what the call returns where it fails.
template <class R, class Call>
R checked(const char* name, const std::string& path, unsigned traits, R failed, Call&& call) {
  return judge(name, path, traits) == Verdict::fail ? failed : call();
}

template <class Write>  // Write(size)
ssize_t checked_write(const char* name, int fd, std::size_t size, Write&& write) {
  const std::string path = path_of(fd);
  const Verdict verdict = judge(name, path, takes_space | may_be_interrupted | writes);
  if (verdict == Verdict::fail) return -1;
  if (is_below(path)) note_write(fd);
  const ssize_t n = write(verdict == Verdict::go ? size : std::max<std::size_t>(std::min<std::size_t>(size, 1), size / 2));
  if (verdict == Verdict::half_and_die) die();
  return n;
}

template <class Read>  // Read(size)
ssize_t checked_read(const char* name, int fd, std::size_t size, Read&& read) {
  const Verdict verdict = judge(name, path_of(fd), may_be_interrupted | reads);
  return verdict == Verdict::fail ? -1
                                  : read(verdict == Verdict::go ? size : std::max<std::size_t>(std::min<std::size_t>(size, 1), size / 2));
}

int checked_open(const char* name, int folder, const char* path, int flags, mode_t mode) {
  const unsigned traits = (flags & O_CREAT ? takes_space : none) | (flags & O_DIRECTORY ? none : may_be_interrupted);
  return checked(name, path_of(folder, path), traits, -1,
                [&] { return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode)); });
}

template <class F>
FILE* checked_fopen(const char* name, const char* path, const char* mode) {
  return checked(name, path_of(AT_FDCWD, path), mode[0] == 'r' ? none : takes_space, static_cast<FILE*>(nullptr),
                [&] { return real<F>(name)(path, mode); });
}

mode_t mode_of(int flags, va_list list) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; }

}  // namespace

// The C library declares some of these with attributes that a definition need not repeat.
#pragma GCC diagnostic ignored "-Wmissing-attributes"

extern "C" {

#define OPEN(NAME)                                          \
  int NAME(const char* path, int flags, ...) {              \
    va_list list;                                           \
    va_start(list, flags);                                  \
    const mode_t mode = mode_of(flags, list);               \
    va_end(list);                                           \
    return checked_open(#NAME, AT_FDCWD, path, flags, mode); \
  }
#define OPENAT(NAME)                                        \
  int NAME(int folder, const char* path, int flags, ...) {  \
    va_list list;                                           \
    va_start(list, flags);                                  \
    const mode_t mode = mode_of(flags, list);               \
    va_end(list);                                           \
    return checked_open(#NAME, folder, path, flags, mode);   \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

FILE* fopen(const char* path, const char* mode) { return checked_fopen<decltype(fopen)>("fopen", path, mode); }
FILE* fopen64(const char* path, const char* mode) { return checked_fopen<decltype(fopen64)>("fopen64", path, mode); }
DIR* opendir(const char* path) {
  return checked("opendir", path_of(AT_FDCWD, path), none, static_cast<DIR*>(nullptr),
                [&] { return real<decltype(opendir)>("opendir")(path); });
}

ssize_t write(int fd, const void* bytes, size_t size) {
  return checked_write("write", fd, size, [&](std::size_t n) { return syscall(SYS_write, fd, bytes, n); });
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  return checked_write("pwrite", fd, size, [&](std::size_t n) { return syscall(SYS_pwrite64, fd, bytes, n, offset); });
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t offset) {
  return checked_write("pwrite64", fd, size, [&](std::size_t n) { return syscall(SYS_pwrite64, fd, bytes, n, offset); });
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  return checked_write("writev", fd, 1, [&](std::size_t) { return syscall(SYS_writev, fd, parts, count); });
}
ssize_t read(int fd, void* bytes, size_t size) {
  return checked_read("read", fd, size, [&](std::size_t n) { return syscall(SYS_read, fd, bytes, n); });
}
ssize_t pread(int fd, void* bytes, size_t size, off_t offset) {
  return checked_read("pread", fd, size, [&](std::size_t n) { return syscall(SYS_pread64, fd, bytes, n, offset); });
}
ssize_t pread64(int fd, void* bytes, size_t size, off64_t offset) {
  return checked_read("pread64", fd, size, [&](std::size_t n) { return syscall(SYS_pread64, fd, bytes, n, offset); });
}

int fsync(int fd) {
  return checked("fsync", path_of(fd), may_be_interrupted, -1, [&] { return note_flush(fd), static_cast<int>(syscall(SYS_fsync, fd)); });
}
int fdatasync(int fd) {
  return checked("fdatasync", path_of(fd), may_be_interrupted, -1,
                [&] { return note_flush(fd), static_cast<int>(syscall(SYS_fdatasync, fd)); });
}
int ftruncate(int fd, off_t size) {
  return checked("ftruncate", path_of(fd), may_be_interrupted, -1, [&] { return static_cast<int>(syscall(SYS_ftruncate, fd, size)); });
}
int fchmod(int fd, mode_t mode) {
  return checked("fchmod", path_of(fd), may_be_interrupted, -1, [&] { return static_cast<int>(syscall(SYS_fchmod, fd, mode)); });
}
int fchown(int fd, uid_t user, gid_t group) {
  return checked("fchown", path_of(fd), may_be_interrupted, -1, [&] { return static_cast<int>(syscall(SYS_fchown, fd, user, group)); });
}
int flock(int fd, int operation) {
  return checked("flock", path_of(fd), may_be_interrupted, -1, [&] { return static_cast<int>(syscall(SYS_flock, fd, operation)); });
}
int close(int fd) {
  const std::string path = path_of(fd);
  const int result = static_cast<int>(syscall(SYS_close, fd));
  return checked("close", path, may_be_interrupted, -1, [&] { return result; });
}

int renameat(int from_folder, const char* from, int folder, const char* to) {
  return checked("rename", path_of(folder, to), takes_space, -1,
                [&] { return static_cast<int>(syscall(SYS_renameat, from_folder, from, folder, to)); });
}
int rename(const char* from, const char* to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
int linkat(int from_folder, const char* from, int folder, const char* to, int flags) {
  return checked("link", path_of(folder, to), takes_space, -1,
                [&] { return static_cast<int>(syscall(SYS_linkat, from_folder, from, folder, to, flags)); });
}
int link(const char* from, const char* to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int unlinkat(int folder, const char* path, int flags) {
  return checked("unlink", path_of(folder, path), none, -1, [&] { return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags)); });
}
int unlink(const char* path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char* path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) {
  const int result = unlink(path);
  return result == 0 || errno != EISDIR ? result : rmdir(path);
}
int mkdirat(int folder, const char* path, mode_t mode) {
  return checked("mkdir", path_of(folder, path), takes_space, -1,
                [&] { return static_cast<int>(syscall(SYS_mkdirat, folder, path, mode)); });
}
int mkdir(const char* path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

}
