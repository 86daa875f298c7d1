#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/file_descriptor.h"
#include "base/input_file.h"
#include "base/memory.h"
#include "base/space.h"

namespace tandem {
namespace {

[[noreturn]] void fail_io(const std::filesystem::path& path, std::string_view what) {
  fail(ExitCode::io, path.string(), ": ", what, ": ", std::strerror(errno));
}

}  // namespace

std::uint64_t inflated_limit(std::uint64_t file_bytes, std::uint64_t least) {
  constexpr std::uint64_t factor = 64, largest = std::uint64_t{1} << 50;
  return least + factor * std::min(file_bytes, largest);
}

// Not by its size: files of /proc have none.
std::string read_file(const std::filesystem::path& path, ExitCode other) {
  const RegularFile file = open_regular(path, other);
  std::string contents;
  std::size_t filled = 0;
  for (;;) {
    if (filled == contents.size()) {
      const std::size_t room = std::max({std::size_t{1} << 16, filled * 2, static_cast<std::size_t>(file.size) + 1});
      allocate(room, [&] { contents.resize(room); }, "the contents of ", path.string());
    }
    const ssize_t n =
        read_some(file.descriptor.get(), contents.data() + filled, contents.size() - filled, static_cast<std::int64_t>(filled));
    if (n < 0) fail_io(path, "cannot be read");
    if (n == 0) break;
    filled += static_cast<std::size_t>(n);
  }
  contents.resize(filled);
  return contents;
}

std::vector<std::byte> read_maybe_gzip(const std::filesystem::path& path, std::uint64_t least_limit) {
  const RegularFile opened = open_regular(path, ExitCode::data);
  const int descriptor = ::dup(opened.descriptor.get());  // gzclose closes it
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(descriptor < 0 ? nullptr : gzdopen(descriptor, "rb"), gzclose);
  if (!file) fail_io(path, "cannot be read");
  gzbuffer(file.get(), 1 << 18);
  const std::uint64_t most = inflated_limit(static_cast<std::uint64_t>(opened.size), least_limit);
  std::vector<std::byte> contents;
  std::size_t filled = 0;
  for (int failures = 0;;) {
    if (filled > most)
      fail(ExitCode::data, path.string(), ": ", opened.size, " bytes of gzip data grow beyond ", most,
           " bytes: such a file is only read uncompressed");
    if (filled == contents.size()) {
      const std::size_t size = std::max({std::size_t{1} << 20, filled + filled / 2, static_cast<std::size_t>(opened.size) + 1});
      allocate(size, [&] { contents.resize(size); }, "the contents of ", path.string());
    }
    const std::size_t room = std::min<std::size_t>(contents.size() - filled, 1 << 30);
    const int n = gzread(file.get(), contents.data() + filled, static_cast<unsigned>(room));
    int error = Z_OK;
    const char* reason = gzerror(file.get(), &error);
    if (error == Z_ERRNO && (errno == EINTR || (may_pass(errno) && ++failures < 3))) {
      wait_for_disk(failures);
      gzclearerr(file.get());
      continue;
    }
    if (error == Z_ERRNO) fail_io(path, "cannot be read");
    if (n < 0 || (n == 0 && error != Z_OK)) fail(ExitCode::data, path.string(), ": the gzip data is damaged: ", reason);
    if (n == 0) break;
    filled += static_cast<std::size_t>(n);
  }
  contents.resize(filled);
  return contents;
}

void check_could_make_folder(const std::filesystem::path& path) {
  const std::filesystem::path there = nearest_folder(path / ".");
  if (!std::filesystem::is_directory(there)) fail(ExitCode::io, path.string(), ": cannot be created: ", there.string(), " is no folder");
  if (::access(there.c_str(), W_OK | X_OK) != 0) fail_io(there, "cannot be written to");
}

void make_writable_folder(const std::filesystem::path& path) {
  check_could_make_folder(path);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail(ExitCode::io, path.string(), ": cannot be created: ", error.message());
}

void check_could_write_file(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  check_could_make_folder(folder);
  if (std::filesystem::is_directory(folder)) const AtomicFile trial(path);  // goes again
}

void check_writable_file(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  make_writable_folder(folder);
  const AtomicFile trial(path);  // goes again
}

}  // namespace tandem
