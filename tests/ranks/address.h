// Where the ranks of a test meet: a Unix socket in a folder of its own, or a port that the system says is free.
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "ranks/socket.h"

namespace tandem::test {

class RankAddress {
 public:
  explicit RankAddress(bool tcp = false) {
    if (tcp) {
      text_ = "127.0.0.1:" + listen_beside({"127.0.0.1", "0"}, "127.0.0.1", 0).second;
      return;
    }
    folder_ = (std::filesystem::temp_directory_path() / "tandem-ranks-XXXXXX").string();
    if (!::mkdtemp(folder_.data())) throw std::runtime_error("no temporary folder: " + folder_);
    text_ = "unix:" + folder_ + "/rank";
  }
  ~RankAddress() {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  RankAddress(const RankAddress&) = delete;
  const std::string& text() const { return text_; }

 private:
  std::string folder_, text_;
};

}  // namespace tandem::test
