// A small run that tests break off in every way: what it leaves, and what it must end with.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/cli/process.h"

namespace tandem {

// What a checkpoint holds, without the times in it: equal texts are equal runs.
std::string contents_of(const std::filesystem::path& checkpoint);
// The values and the metadata of a model, its external data read; "unreadable" and why.
std::string values_of(const std::filesystem::path& model);

struct Result {
  std::string output, last, best, metrics;  // the model's values; checkpoints and metrics without times
  bool operator==(const Result&) const = default;
};

// Where one run writes: FOLDER/run and FOLDER/out.onnx. The template lies beside that folder.
class BrokenRun {
 public:
  // `options`: of the command train, beside the model and where it writes. `external`: of a template with external data.
  BrokenRun(const TemporaryFolder& folder, const std::string& name, std::string options, bool external = false);
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path checkpoint() const { return folder_ / "run/last.checkpoint"; }
  std::filesystem::path output() const { return folder_ / "out.onnx"; }

  // Goes on where there is something to go on from, begins anew where a run was broken off before its first checkpoint. The
  // environment may make it one of several ranks.
  Process start(const std::map<std::string, std::string>& environment = {}) const;
  Result result() const;
  // The step of the checkpoint that a resumed run takes up; 0 without one. Fails where there are some and none is whole.
  std::int64_t step() const;
  // Files that are no run's, no model's and none of its data, and parts that no checkpoint names.
  std::vector<std::string> leftovers() const;

 private:
  const TemporaryFolder& all_;
  std::filesystem::path folder_;
  std::string name_, options_, template_;
};

}  // namespace tandem
