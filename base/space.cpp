#include "base/space.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/units.h"

namespace tandem {

std::filesystem::path nearest_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(path, error).parent_path();
  while (!std::filesystem::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

std::int64_t free_host_memory() {
  std::ifstream file("/proc/meminfo");
  std::int64_t kib = 0;
  for (std::string word; file >> word;)
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  return std::numeric_limits<std::int64_t>::max();
}

std::int64_t free_disk_space(const std::filesystem::path& path) {
  struct statvfs room {};
  if (::statvfs(nearest_folder(path).c_str(), &room) != 0 || room.f_blocks == 0) return std::numeric_limits<std::int64_t>::max();
  const double free = static_cast<double>(room.f_bavail) * static_cast<double>(room.f_frsize);
  return free < 9e18 ? static_cast<std::int64_t>(free) : std::numeric_limits<std::int64_t>::max();
}

std::string room_for(const std::filesystem::path& path, std::int64_t bytes) {
  return concat(" (it takes ", text_of_bytes(bytes), ", ", text_of_bytes(free_disk_space(path)), " are free)");
}

void check_space(std::span<const WrittenLater> files) {
  rlimit most{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY;
  std::map<dev_t, double> wanted;  // double: sums of what no disk holds do not overflow
  for (const WrittenLater& f : files) {
    if (limited && static_cast<rlim_t>(f.bytes) > most.rlim_cur)
      fail(ExitCode::io, f.path.string(), ": ", f.what, " takes about ", text_of_bytes(f.bytes), ", this process may write files of ",
           text_of_bytes(static_cast<std::int64_t>(most.rlim_cur)), " (ulimit -f)");
    const std::filesystem::path folder = nearest_folder(f.path);
    struct stat there {};
    if (::stat(folder.c_str(), &there) != 0) continue;
    const std::int64_t free = free_disk_space(f.path);
    double& sum = wanted[there.st_dev];
    sum += static_cast<double>(f.bytes) * f.files;
    if (sum > static_cast<double>(free))
      fail(ExitCode::io, f.path.string(), ": ", f.what,
           f.files > 1 ? concat(" (", f.files, " of ", text_of_bytes(f.bytes), ")") : concat(" (", text_of_bytes(f.bytes), ")"),
           sum > static_cast<double>(f.bytes) * f.files ? " and what else goes there" : "",
           " will not fit: ", text_of_bytes(free), " are free");
  }
}

}  // namespace tandem
