// All that a run needs to go on, as one file, or as an index of the parts that several ranks have written (trainer/checkpoint_parts.h).
// It is a safetensors file, whose metadata hold where the run stands. Python's safetensors reads it: tensors "weights/NAME" and
// "optimizer/NAME". Those that earlier versions wrote (zip archives of npy) are read too.
#pragma once
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/json.h"
#include "runtime/safetensors.h"

namespace tandem {

struct Checkpoint {
  Json state;                          // where the run stands: epoch, step, sums, history, and what it was started with
  std::string checksum{};              // of the file, as it was read
  std::vector<NamedTensor> weights;    // by the template's names
  std::vector<NamedTensor> optimizer;  // by the planner's names: "momentum/WEIGHT"
};

// Replaces the file at once: a failure (io) leaves the earlier one whole. The sources are asked twice, for what there is and
// to write it, and no more than one tensor is kept at a time: of one with a source (graph/tensor.h) a piece.
void write_checkpoint(const std::filesystem::path& path, const Json& state, const EachTensor& weights, const EachTensor& optimizer);
// The same, but for its last step, AtomicFile::commit(), which brings it to the disk: behind it the sources are asked no more.
AtomicFile filled_checkpoint(const std::filesystem::path& path, const Json& state, const EachTensor& weights, const EachTensor& optimizer);
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);

// An index of parts in a checkpoint's place, by json_of_parts(). They must be there.
void write_index(const std::filesystem::path& path, const Json& state, const Json& parts);

// Fails (io) where it cannot be read, (data) where it is no whole checkpoint. Large values stay in the file until they are asked for.
// `check`: the numbers of the files that are read once for their checksum, 0 of one that is no index; empty: all.
Checkpoint read_checkpoint(const std::filesystem::path& path, const std::function<bool(std::size_t)>& check = {});
// The names of an index's parts; none where the file is no index. Fails as above.
std::set<std::string> names_of_parts(const std::filesystem::path& path);

// Fails (data) where the tensors of the checkpoint at `path` lack one: it would keep its first value in silence.
void require(const std::vector<NamedTensor>& tensors, const std::string& name, const std::filesystem::path& path);

}  // namespace tandem
