#include "kernels/cuda/cache.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "graph/atomic_file.h"
#include "graph/crc32c.h"
#include "graph/error.h"

namespace tandem::cuda {
namespace {

std::filesystem::path cache_folder() {
  if (const char* folder = std::getenv("TANDEM_CACHE")) return folder;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return std::filesystem::path(cache) / "tandem";
  if (const char* home = std::getenv("HOME"); home && *home) return std::filesystem::path(home) / ".cache" / "tandem";
  return {};
}

// Stands before the bytes, with the line's end.
std::string checked(const std::string& bytes) { return concat("tandem ", bytes.size(), ' ', crc32c(0, std::as_bytes(std::span(bytes))), '\n'); }

}  // namespace

std::optional<std::string> read_kept(const std::string& name) {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return std::nullopt;
  std::ifstream in(folder / name, std::ios::binary);
  std::string line, bytes;
  if (!std::getline(in, line)) return std::nullopt;
  bytes.assign(std::istreambuf_iterator<char>(in), {});
  return checked(bytes) == line + '\n' ? std::optional(std::move(bytes)) : std::nullopt;
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
