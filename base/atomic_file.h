// The one way in which files are replaced: written beside their target under a temporary name that no other file has, flushed
// to the disk, then renamed, so that at every moment, also after a crash, the name has the whole old file or the whole new one.
// The new file keeps mode and owner of the one it replaces. A symbolic link at that name is replaced, never followed. What is
// no regular file is refused: renaming would put a file in a device's place. Temporary files of the same target that killed
// processes have left are removed. All failures are errors (io) that name the path and the reason.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"

namespace tandem {

// `name` with `ending`: the name of a file beside the one of that name. What would be longer than a file's name may be (255
// bytes) has the end of `name` replaced by '~' and its hash.
std::string name_beside(std::string_view name, std::string_view ending);
// The path with `ending` in its extension's place: "out/a.onnx" and ".last.onnx" give "out/a.last.onnx".
std::filesystem::path path_beside(const std::filesystem::path& path, std::string_view ending);

class AtomicFile {
 public:
  // `location`: relative to the folder; folders on the way are made where they are not there, links among them refused.
  AtomicFile(const std::filesystem::path& folder, const std::filesystem::path& location);
  explicit AtomicFile(const std::filesystem::path& path) : AtomicFile(path.parent_path(), path.filename()) {}
  ~AtomicFile();  // what is not committed is removed
  AtomicFile(AtomicFile&&) noexcept;

  void write(const char* bytes, std::size_t size, std::int64_t offset);
  void append(std::string_view bytes) { write(bytes.data(), bytes.size(), end_); }
  void flush();   // to the disk
  void commit();  // takes the name, after a flush of what was not flushed yet

 private:
  std::string name_, temporary_, shown_;
  FileDescriptor folder_, file_;
  std::int64_t end_ = 0;
  bool flushed_ = true;
};

void write_atomically(const std::filesystem::path& path, std::string_view contents);

// Removes every temporary file in the folder that no process is writing.
void remove_abandoned_files(const std::filesystem::path& folder);

// Held while a file is read, changed and replaced: processes (and threads) that do so at the same time take turns, and none
// loses what another has just written. A lock on ".NAME.lock" beside the file, which stays there. It is waited for ten seconds
// at most; nothing is held then, nor on a file system without locks.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path);

 private:
  FileDescriptor file_;
};

}  // namespace tandem
