// Room for what a run will write, asked before it begins.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/error.h"

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

// Bytes that this process may still write where the path lies; the most there are where nothing says so.
std::int64_t free_disk_space(const std::filesystem::path& path);
// " (it takes 1.25 GiB, 300 MiB are free)"
std::string room_for(const std::filesystem::path& path, std::int64_t bytes);

// write(), which writes a file of so many bytes. Where it fails (io) the error says how many they are, and how many are free now.
template <class Write>
auto told_with_room(const std::filesystem::path& path, std::int64_t bytes, const Write& write) {
  try {
    return write();
  } catch (const Error& e) {
    if (e.code() != ExitCode::io) throw;
    fail(ExitCode::io, e.what(), room_for(path, bytes));
  }
}

// Bytes of memory that programs may still take, as the system says; without word of it all there could be.
std::int64_t free_host_memory();

// A path's folder, or the nearest above it that is there.
std::filesystem::path nearest_folder(const std::filesystem::path& path);

}  // namespace tandem
