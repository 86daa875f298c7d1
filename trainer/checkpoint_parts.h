// A checkpoint that several ranks have written: parts, one a rank, and an index that names them. A part is a safetensors file in the folder
// `parts` beside the index, with what of the values its rank has written: "weights/NAME" of a whole value, "weights[0:4,:]/NAME" of a part
// of one. An index is a checkpoint (trainer/checkpoint.h) that holds no values, but where each lies. It is the last to be written.
#pragma once
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/json.h"
#include "graph/index_runs.h"
#include "runtime/session.h"
#include "trainer/part_files.h"

namespace tandem {

// What a part has of a value.
struct PlacedValue {
  std::string folder, name;  // of the value: "weights" or "optimizer", and the template's or the planner's name
  TensorType type;           // of the whole value
  AxisRuns runs{};           // what the part has of it
  std::size_t part = 0;      // by number
  std::int64_t at = 0;       // in the part's file: lay_out()
};

// "step-12-01234567.0-of-2.part": of step 12, drawn number 01234567, rank 0 of 2.
std::string name_of_part(std::int64_t step, std::uint32_t drawn, int rank, int ranks);

// Sets where the values of one part lie. Returns the file's header and its size.
struct PartHeader {
  std::string text;
  std::int64_t file_bytes = 0;
};
PartHeader lay_out(std::span<PlacedValue> values, std::size_t part);
// Writes what was laid out; `value` gives the values of each by its number, once. The file is on the disk, and has its name, behind
// file.commit(). Fails (io).
struct WrittenPart {
  AtomicFile file;
  std::uint32_t crc32c = 0;  // of all its bytes
};
WrittenPart write_part(const std::filesystem::path& path, const PartHeader& header, std::span<const PlacedValue> values, std::size_t part,
                       const std::function<Tensor(std::size_t)>& value);

// What an index says: its parts, and where the values lie, of one value one behind the other.
Json json_of_parts(std::span<const CheckpointPart> parts, std::span<const PlacedValue> values);

// The values of an index, which stay in the parts until they are asked for. Parts of the numbers that `check` takes are read once, for
// their checksum; empty: all. The others are opened when a value in them is read. Fails (io) where a part cannot be read, (data) where it
// is not the one that was written, naming it.
struct PlacedTensors {
  std::vector<NamedTensor> weights{}, optimizer{};
};
PlacedTensors open_parts(const std::filesystem::path& index, const Json& parts, const std::function<bool(std::size_t)>& check);

// Removes the parts in a run's folder that no index there names, and half-written ones that no process writes: what is left of a killed
// run, or of checkpoints that are gone. No whole part goes where an index cannot be read.
void remove_unnamed_parts(const std::filesystem::path& run);

}  // namespace tandem
