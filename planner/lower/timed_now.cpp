// A lock tells whether the process lives: it goes with the process, however that ends.
#include "planner/lower/timed_now.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/atomic_file.h"

namespace tandem {
namespace {

std::string beginning(const std::filesystem::path& times) {
  return name_beside(concat('.', times.filename().string()), ".timing-");
}

bool locked(int file) {
  return uninterrupted([&] { return flock(file, LOCK_EX | LOCK_NB); }) == 0;
}

}  // namespace

TimedNow::TimedNow(const std::filesystem::path& times) {
  if (times.empty()) return;
  path_ = times.parent_path() / concat(beginning(times), getpid());
  std::error_code ignored;
  std::filesystem::create_directories(times.parent_path(), ignored);
  file_ = FileDescriptor(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (file_.get() >= 0 && locked(file_.get())) return;
  file_ = FileDescriptor();
}

TimedNow::~TimedNow() {
  if (file_.get() >= 0) unlink(path_.c_str());
}

void TimedNow::begin(const std::string& key) {
  end();
  if (file_.get() < 0) return;
  try {
    write_exactly(file_.get(), key.data(), key.size(), 0, path_.string());
  } catch (const Error&) {
    end();
  }
}

void TimedNow::end() {
  if (file_.get() >= 0 && ftruncate(file_.get(), 0) != 0) file_ = FileDescriptor();
}

std::vector<std::string> TimedNow::left_behind(const std::filesystem::path& times) {
  constexpr std::int64_t most = 1 << 20;  // bytes of a key
  std::vector<std::string> keys;
  std::error_code failed;
  const std::string begins = beginning(times);
  for (auto entry = std::filesystem::directory_iterator(times.parent_path(), failed);
       !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    if (!entry->path().filename().string().starts_with(begins)) continue;
    const FileDescriptor file(open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file.get() < 0 || !locked(file.get())) continue;  // its process lives
    try {
      if (std::string key = read_regular(entry->path(), most, ExitCode::io); !key.empty()) keys.push_back(std::move(key));
    } catch (const Error&) {
      continue;
    }
    unlink(entry->path().c_str());
  }
  return keys;
}

}  // namespace tandem
