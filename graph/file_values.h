// Values that lie in a file one behind the other, little-endian, as they would in memory.
#pragma once
#include <memory>

#include "base/input_file.h"
#include "graph/tensor.h"

namespace tandem {

class FileValues final : public TensorSource {
 public:
  FileValues(std::shared_ptr<const InputFile> file, std::int64_t offset) : file_(std::move(file)), offset_(offset) {}
  void read(std::span<std::byte> to, std::int64_t offset) const override {
    file_->read(reinterpret_cast<char*>(to.data()), to.size(), offset_ + offset);
  }

 private:
  std::shared_ptr<const InputFile> file_;
  std::int64_t offset_;
};

}  // namespace tandem
