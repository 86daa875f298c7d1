// Room for what a run will write, asked before it begins.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace tandem {

struct WrittenLater {
  std::string what;  // "the trained model"
  std::filesystem::path path;  // it and its folders need not be there yet
  std::int64_t bytes = 0;      // of one file
  int files = 1;               // that lie there at once
};

// Fails (io) where a file system has less room than all that goes there, or where a file is larger than this process may
// write. What cannot be asked, such as quotas, is not.
void check_space(std::span<const WrittenLater> files);

// Bytes of memory that programs may still take, as the system says; without word of it all there could be.
std::int64_t free_host_memory();

// A path's folder, or the nearest above it that is there.
std::filesystem::path nearest_folder(const std::filesystem::path& path);

}  // namespace tandem
