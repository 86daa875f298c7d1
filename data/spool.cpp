#include "data/spool.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace tandem {
namespace {

FileDescriptor nameless_file(const std::string& what) {
  std::error_code error;
  std::string name = (std::filesystem::temp_directory_path(error) / "tandem_XXXXXX").string();
  FileDescriptor file(error ? -1 : ::mkostemp(name.data(), 0));
  if (file.get() < 0)
    fail(ExitCode::io, what, " does not fit in memory, and no temporary file can be made as ", name,
         " (TMPDIR names its folder): ", std::strerror(errno));
  ::unlink(name.c_str());
  return file;
}

}  // namespace

void Spool::append(std::span<const std::byte> bytes) {
  memory_.insert(memory_.end(), bytes.begin(), bytes.end());
  if (memory_.size() > (file_.get() < 0 ? limit_ : std::min<std::size_t>(limit_, 1 << 20))) flush();
}

void Spool::flush() {
  if (file_.get() < 0) file_ = nameless_file(what_);
  write_exactly(file_.get(), reinterpret_cast<const char*>(memory_.data()), memory_.size(), static_cast<std::int64_t>(written_),
                "a temporary file for " + what_);
  written_ += memory_.size();
  memory_.clear();
}

void Spool::finish() {
  if (file_.get() < 0) return;
  flush();
  memory_ = {};
}

void Spool::read(std::uint64_t offset, std::size_t count, std::byte* to) const {
  if (file_.get() >= 0)
    read_exactly(file_.get(), reinterpret_cast<char*>(to), count, static_cast<std::int64_t>(offset), "a temporary file of " + what_);
  else if (count > 0)
    std::memcpy(to, memory_.data() + offset, count);
}

}  // namespace tandem
