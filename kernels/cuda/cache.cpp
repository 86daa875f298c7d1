#include "kernels/cuda/cache.h"

#include <algorithm>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/file_descriptor.h"

namespace tandem::cuda {
namespace {

// Stands before the bytes, with the line's end.
std::string checked(const std::string& bytes) {
  return concat("tandem ", bytes.size(), ' ', crc32c(0, std::as_bytes(std::span(bytes))), '\n');
}

}  // namespace

std::optional<std::string> read_kept(const std::string& name) {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return std::nullopt;
  constexpr std::int64_t most = std::int64_t{1} << 30;
  try {
    const std::string all = read_regular(folder / name, most, ExitCode::io);
    std::string bytes = all.substr(std::min(all.size(), all.find('\n')));
    bytes.erase(0, 1);
    return all == checked(bytes) + bytes ? std::optional(std::move(bytes)) : std::nullopt;
  } catch (const Error&) {  // mostly that there is none
    return std::nullopt;
  }
}

// Another process, or another GPU's thread, may write the same file.
void keep(const std::string& name, const std::string& bytes) {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  try {
    write_atomically(folder / name, checked(bytes) + bytes);
  } catch (const Error&) {
  }
}

}  // namespace tandem::cuda
