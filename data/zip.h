// Zip archives as numpy writes them: members stored or deflated, sizes past 4 GiB in zip64 fields.
// Source: PKWARE's APPNOTE 6.3.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"

namespace tandem {

class ZipReader {
 public:
  // Fails (io) where the file cannot be read, (data) where it is no regular file or no zip archive.
  explicit ZipReader(const std::filesystem::path& path);
  std::vector<std::string> names() const;
  bool has(std::string_view name) const { return members_.find(name) != members_.end(); }
  // A member's contents, checked against its CRC. Fails (data) where it is absent or damaged, or where the
  // members that were read grow beyond inflated_limit.
  std::vector<std::byte> read(std::string_view name);
  // Whether the whole file is as ZipWriter made it, by the checksum in the archive's comment. Reads all of it.
  bool whole();

 private:
  struct Member {
    std::uint64_t offset, stored, size;
    std::uint32_t crc;
    int method;
  };
  std::string bytes(std::uint64_t offset, std::uint64_t count);
  void read_directory(std::uint64_t offset, std::uint64_t size, std::uint64_t members);

  std::string path_;
  RegularFile file_;
  std::uint64_t size_ = 0, inflated_ = 0;
  std::map<std::string, Member, std::less<>> members_;
};

class ZipWriter {
 public:
  // Hands the archive to `write` piece by piece.
  explicit ZipWriter(std::function<void(std::string_view)> write) : write_(std::move(write)) {}
  void add(std::string_view name, std::string_view contents) { add(name, {contents}); }
  void add(std::string_view name, std::initializer_list<std::string_view> parts);  // one behind the other, stored as they are
  // The directory, and a comment: the checksum of all that comes before the comment.
  void finish();

 private:
  void out(std::string_view bytes);

  std::function<void(std::string_view)> write_;
  std::uint64_t written_ = 0;
  std::uint32_t crc_ = 0;  // of what was written
  std::string directory_;
  std::uint64_t members_ = 0;
};

}  // namespace tandem
