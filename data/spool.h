// Bytes that are written once, one after another, and then read at any place by any number of threads. Those beyond
// `memory_limit` lie in a file without a name in the folder for temporary files (TMPDIR), so that what is larger than memory
// can be held.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.h"

namespace tandem {

class Spool {
 public:
  static constexpr std::size_t memory_limit = std::size_t{64} << 20;
  // `what` it holds, as errors call it. Fails (io) where the temporary file cannot be made or written.
  explicit Spool(std::string what, std::size_t limit = memory_limit) : what_(std::move(what)), limit_(limit) {}
  void append(std::span<const std::byte> bytes);
  void finish();  // before it is read
  std::uint64_t size() const { return written_ + memory_.size(); }
  void read(std::uint64_t offset, std::size_t count, std::byte* to) const;  // within size()

 private:
  void flush();

  std::string what_;
  std::size_t limit_;
  std::vector<std::byte> memory_;  // all, or what is not yet in the file
  FileDescriptor file_;
  std::uint64_t written_ = 0;  // in the file
};

}  // namespace tandem
