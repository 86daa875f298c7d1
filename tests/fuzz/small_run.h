// A training run of a few steps whose checkpoints the seeds are made from and the target takes up.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/model.h"

namespace tandem::fuzz {

std::string small_model_bytes();  // one fully connected layer

class SmallRun {
 public:
  static constexpr std::int64_t steps = 7;  // in epochs of two batches

  // Trains three steps in this folder, made where there is none, and leaves its checkpoint there.
  explicit SmallRun(std::filesystem::path folder);
  void go_on();  // from the folder's last checkpoint to the end
  const Model& model() const { return model_; }

 private:
  FitOptions options(std::int64_t steps, bool resume) const;
  std::filesystem::path folder_;
  Model model_;
  Splits data_;
};

// Writes a checkpoint as an index of two parts, in the folder `parts` beside the index, whose names are the same each time. Returns these.
std::vector<std::string> write_in_parts(const std::filesystem::path& checkpoint, const std::filesystem::path& index);

}  // namespace tandem::fuzz
