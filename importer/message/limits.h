// What the reader accepts at most, so that a small hostile file cannot ask for much.
#pragma once
#include <cstdint>

namespace tandem::limits {

inline constexpr std::int64_t model_bytes = (std::int64_t{1} << 31) - 1;  // protobuf's own limit for one message
inline constexpr int subgraph_depth = 32;
inline constexpr int function_depth = 100;
inline constexpr int rank = 1024;
inline constexpr int nodes = 500'000;
// Nested functions grow exponentially: with them inlined there may be so many nodes, and so many times those of the file.
inline constexpr int inlined_nodes = 16'384, inlined_factor = 64;
// The iterations of loops stand one behind the other; lists of tensors are copied as they grow.
inline constexpr std::int64_t unrolled_nodes = 65'536, list_elements = 1 << 22;
inline constexpr std::int64_t copied_nodes = 4 * unrolled_nodes;  // iterations copy the branches in them, too
inline constexpr std::int64_t operands = 16 * std::int64_t{nodes};  // and attributes, likewise
inline constexpr std::int64_t attribute_bytes = std::int64_t{1} << 27;
inline constexpr std::size_t name = 256;  // characters of a function's names that its callers' are joined with
inline constexpr int oldest_ir = 3, newest_ir = 14;
inline constexpr int oldest_opset = 7, newest_opset = 28;  // of an older one only what means the same here
// Constants that are computed when a graph is built, all of it together: what they take, and what computing them reads and
// writes; to each are added so many times the bytes of the file.
inline constexpr std::int64_t constants_bytes = std::int64_t{128} << 20, constants_factor = 4;
inline constexpr std::int64_t folded_bytes = std::int64_t{512} << 20, folded_factor = 16;
// Bytes of external data that tensors besides the first one have in common.
inline constexpr std::int64_t shared_bytes = std::int64_t{1} << 30, shared_factor = 8;
// Weights made by ConstantOfShape may take this many times ImportOptions::fold_limit, all together.
inline constexpr std::int64_t weight_factor = 16;
// An axis of any value: so many elements, or so many times those of the largest input or tensor of the file. Kernels have
// tables of an axis's length.
inline constexpr std::int64_t axis = std::int64_t{1} << 24, axis_factor = 64;

}  // namespace tandem::limits
