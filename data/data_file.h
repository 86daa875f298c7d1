// A data file that is read at any place, by any number of threads, and larger than memory if need be: nothing of it is kept but
// what the system caches. One that is compressed (gzip, zstd; told by its first bytes) is unpacked once, into a Spool.
// Reads are plain ones, not of mapped memory: a file that shrinks or a disk that fails is an error that way, not a signal. A file that
// changes while it is read is an error (data) that says so.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "data/spool.h"

namespace tandem {

class DataFile {
 public:
  // Fails (io) where it cannot be read, (data) where it is no regular file, or compressed and damaged.
  explicit DataFile(const std::filesystem::path& path);
  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }
  std::uint64_t stored() const { return static_cast<std::uint64_t>(file_.size()); }  // where it is compressed, less
  bool compressed() const { return unpacked_.has_value(); }
  // Fails (data) beyond the end, with the offset.
  void read(std::uint64_t offset, std::size_t count, std::byte* to) const;
  std::string read(std::uint64_t offset, std::size_t count) const;

 private:
  void gunzip(std::uint64_t stored);
  void unzstd(std::uint64_t stored);
  void append(std::span<const std::byte> bytes, std::uint64_t stored);

  std::string name_;
  InputFile file_;
  std::optional<Spool> unpacked_;
  std::uint64_t size_ = 0;
};

// What files, and pages of Parquet, may be compressed by in this build: "gzip, zstd; pages of Parquet also snappy, lz4".
std::string compressions();

// Walks through a file from its beginning, a piece of memory at a time.
class FileReader {
 public:
  explicit FileReader(const DataFile& file) : file_(file) {}
  bool done() { return at_ == end_ && !fill(); }
  char peek() { return buffer_[at_]; }  // not when done
  char next() { return buffer_[at_++]; }
  // The bytes before the next one of `stops`, or the end of what is in memory: of a piece that done() brought.
  std::string_view run(const std::array<bool, 256>& stops) {
    const std::size_t begin = at_;
    while (at_ < end_ && !stops[static_cast<unsigned char>(buffer_[at_])]) ++at_;
    return std::string_view(buffer_).substr(begin, at_ - begin);
  }
  // The rest of the line, without its end (\n or \r\n); false when done. Fails (data) where it has more than so many bytes.
  bool line(std::string& to, std::size_t most);

 private:
  bool fill();
  const DataFile& file_;
  std::string buffer_;
  std::size_t at_ = 0, end_ = 0;
  std::uint64_t offset_ = 0;  // of what follows the buffer
};

// The files that a data set's argument names: FILE, several with {0000..0009} or {a,b}, or all that fit a pattern of *, ? and
// [...], sorted by name. Fails (io) where a pattern fits none.
std::vector<std::string> files_of(const std::string& argument);

}  // namespace tandem
