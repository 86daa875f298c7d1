// Programs of devices that have several chunks of the model's layers: each is computed again by itself, as a program of its own.
#pragma once
#include "planner/recompute/recompute.h"

namespace tandem {

int chunks_of(const LoweredGraph& program);

// What one chunk does, and what is done once a step. Its outputs are the program's, and what other chunks read.
LoweredGraph chunk_of(const LoweredGraph& program, int chunk);
// The program with that chunk as it is now.
LoweredGraph with_chunk(const LoweredGraph& program, LoweredGraph part, int chunk);

// Chunk after chunk, each down to its share of the bytes that are too many: shares are those of its activations. No bound is told. Of one
// chunk recompute_within().
Recomputed recompute_chunks(const LoweredGraph& program, std::span<const std::size_t> losses, std::int64_t budget, const BytesOf& bytes_of);
// The same by names.
Recomputed recompute_named_chunks(const LoweredGraph& program, std::span<const std::size_t> losses,
                                  const std::function<bool(const Step&)>& named);

}  // namespace tandem
