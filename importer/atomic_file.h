// A file that takes its name only once it is whole: written beside it under a temporary name that no other file has,
// flushed to the disk, then renamed. It keeps mode and owner of the file it replaces. A symbolic link at that name is
// replaced, never followed. What is no regular file is refused: renaming would put a file in a device's place.
// Temporary files of the same target that killed processes have left are removed.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "importer/file_descriptor.h"

namespace tandem {

class AtomicFile {
 public:
  // `location`: relative to the folder; folders on the way are made where they are not there, links among them refused.
  AtomicFile(const std::filesystem::path& folder, const std::filesystem::path& location);
  ~AtomicFile();  // what is not committed is removed
  AtomicFile(AtomicFile&&) noexcept;

  void write(const char* bytes, std::size_t size, std::int64_t offset);
  void flush();   // to the disk
  void commit();  // takes the name

 private:
  std::string name_, temporary_, shown_;
  FileDescriptor folder_, file_;
};

// Removes every temporary file in the folder that no process is writing.
void remove_abandoned_files(const std::filesystem::path& folder);

}  // namespace tandem
