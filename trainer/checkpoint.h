// All that a run needs to go on, as one file: a zip archive that numpy's load() reads too.
#pragma once
#include <filesystem>
#include <vector>

#include "graph/atomic_file.h"
#include "graph/json.h"
#include "runtime/session.h"
#include "trainer/data/zip.h"

namespace tandem {

struct Checkpoint {
  Json state;                          // where the run stands: epoch, step, sums, history, and what it was started with
  std::vector<NamedTensor> weights;    // by the template's names
  std::vector<NamedTensor> optimizer;  // by the planner's names: "momentum/WEIGHT"
};

// Writes a checkpoint tensor by tensor. commit() replaces the file at once: a failure (io) leaves the earlier one whole.
class CheckpointWriter {
 public:
  CheckpointWriter(const std::filesystem::path& path, const Json& state);
  void add_weight(const NamedTensor& weight) { add("weights/", weight); }
  void add_optimizer(const NamedTensor& tensor) { add("optimizer/", tensor); }
  void commit();

 private:
  void add(std::string_view folder, const NamedTensor& tensor);
  AtomicFile file_;
  ZipWriter zip_;
};

// Fails (io) where it cannot be read, (data) where it is no whole checkpoint.
Checkpoint read_checkpoint(const std::filesystem::path& path);

// Fails (data) where the tensors of the checkpoint at `path` lack one: it would keep its first value in silence.
void require(const std::vector<NamedTensor>& tensors, const std::string& name, const std::filesystem::path& path);

}  // namespace tandem
