// The files of a checkpoint's parts, opened when they are read. A process may not have as many files open as a run has ranks, so that of
// many parts those read last stay open.
#pragma once
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/input_file.h"

namespace tandem {

struct CheckpointPart {
  std::string name;         // in the folder of parts
  std::int64_t bytes = 0;   // of the file
  std::uint32_t crc32c = 0;  // of all of them
};

std::filesystem::path folder_of_parts(const std::filesystem::path& index);

class PartFiles {
 public:
  static constexpr std::size_t most_open = 64;  // beside those that are being read

  PartFiles(std::filesystem::path index, std::vector<CheckpointPart> parts)
      : index_(std::move(index)), parts_(std::move(parts)), seen_(parts_.size()) {}
  const std::vector<CheckpointPart>& parts() const { return parts_; }
  const std::filesystem::path& index() const { return index_; }

  // Both for any number of threads. They fail (io) where the file cannot be read, (data) where it has another size than the index says, or
  // has changed since it was opened first.
  std::shared_ptr<const InputFile> open(std::size_t part) const;
  void check(std::size_t part) const;  // reads all of it, and fails (data) where its checksum is another, too

 private:
  [[noreturn]] void fail_as_other(std::size_t part, const std::string& what) const;
  std::filesystem::path path_of(std::size_t part) const { return folder_of_parts(index_) / parts_[part].name; }

  const std::filesystem::path index_;
  const std::vector<CheckpointPart> parts_;
  mutable std::mutex mutex_;  // of what follows
  mutable std::vector<FileState> seen_;  // by part; -1 bytes: it was not opened yet
  mutable std::vector<std::pair<std::size_t, std::shared_ptr<const InputFile>>> open_;  // by part, the one read last behind
};

}  // namespace tandem
