// Counts what a pass over a data file takes, against what so many bytes may ask for (limits.h).
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/limits.h"

namespace tandem {

class ReadBudget {
 public:
  // `bytes`: of the file as it is stored.
  explicit ReadBudget(std::uint64_t bytes) : bytes_(bytes) {}

  // Before memory is taken. Fails (data), beginning with `where`.
  void hold(std::uint64_t bytes, std::string_view where) {
    spend(bytes, where);
    if (bytes > limit(data_limits::held_bytes, data_limits::held_factor) - held_)
      fail(ExitCode::data, where, ": it grows beyond ", limit(data_limits::held_bytes, data_limits::held_factor),
           " bytes at a time, the most for a file of ", bytes_, ": smaller row groups or fewer columns take less");
    held_ += bytes;
  }
  void release() { held_ = 0; }  // all that was held
  // Before bytes are made that are not held.
  void spend(std::uint64_t bytes, std::string_view where) {
    const std::uint64_t most = limit(data_limits::decoded_bytes, data_limits::decoded_factor);
    if (bytes > most - spent_) fail(ExitCode::data, where, ": it grows beyond ", most, " bytes in all, the most for a file of ", bytes_);
    spent_ += bytes;
  }
  std::uint64_t spent() const { return spent_; }

 private:
  std::uint64_t limit(std::uint64_t least, std::uint64_t factor) const { return least + factor * std::min(bytes_, std::uint64_t{1} << 50); }
  std::uint64_t bytes_, held_ = 0, spent_ = 0;
};

}  // namespace tandem
