// All that a run needs to go on, as one file: safetensors, whose metadata hold where the run stands. Python's safetensors
// reads it: tensors "weights/NAME" and "optimizer/NAME". Those that earlier versions wrote (zip archives of npy) are read too.
#pragma once
#include <filesystem>
#include <functional>
#include <vector>

#include "base/json.h"
#include "runtime/safetensors.h"

namespace tandem {

struct Checkpoint {
  Json state;                          // where the run stands: epoch, step, sums, history, and what it was started with
  std::vector<NamedTensor> weights;    // by the template's names
  std::vector<NamedTensor> optimizer;  // by the planner's names: "momentum/WEIGHT"
};

// Replaces the file at once: a failure (io) leaves the earlier one whole. The sources are asked twice, for what there is and
// to write it, and no more than one tensor is kept at a time: of one with a source (graph/tensor.h) a piece.
void write_checkpoint(const std::filesystem::path& path, const Json& state, const EachTensor& weights, const EachTensor& optimizer);
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);

// Fails (io) where it cannot be read, (data) where it is no whole checkpoint. Large values stay in the file until they are asked for.
Checkpoint read_checkpoint(const std::filesystem::path& path);

// Fails (data) where the tensors of the checkpoint at `path` lack one: it would keep its first value in silence.
void require(const std::vector<NamedTensor>& tensors, const std::string& name, const std::filesystem::path& path);

}  // namespace tandem
