// Whole files read, and whether files can be written, with errors (io) that name the path and the reason.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"

namespace tandem {

// Fails with `other` where it is no regular file.
std::string read_file(const std::filesystem::path& path, ExitCode other = ExitCode::io);
// The most that a compressed file of so many bytes may grow to: data compresses well, but what grows more was made to.
inline constexpr std::uint64_t inflated_bytes = std::uint64_t{1} << 30;
std::uint64_t inflated_limit(std::uint64_t file_bytes, std::uint64_t least = inflated_bytes);
// Also through gzip where the contents are compressed. Fails (data) where they are damaged, or grow beyond inflated_limit.
std::vector<std::byte> read_maybe_gzip(const std::filesystem::path& path, std::uint64_t least_limit = inflated_bytes);

// Fail before any work is done: the path's folder is there (or can be made) and can be written to, and so can the file,
// which is left as it is.
void check_writable_file(const std::filesystem::path& path);
void make_writable_folder(const std::filesystem::path& path);
// The same without making anything that stays: a folder that is not there could be made.
void check_could_write_file(const std::filesystem::path& path);
void check_could_make_folder(const std::filesystem::path& path);

}  // namespace tandem
