// What the reader accepts at most, so that a small hostile file cannot ask for much.
#pragma once
#include <cstdint>

namespace tandem::limits {

inline constexpr std::int64_t model_bytes = (std::int64_t{1} << 31) - 1;  // protobuf's own limit for one message
inline constexpr int subgraph_depth = 32;
inline constexpr int function_depth = 100;
inline constexpr int rank = 1024;
inline constexpr int nodes = 500'000;                               // after inlining: nested functions grow exponentially
inline constexpr std::int64_t operands = 16 * std::int64_t{nodes};  // and attributes, likewise
inline constexpr std::int64_t attribute_bytes = std::int64_t{1} << 28;
inline constexpr std::size_t name = 256;  // characters of a function's names that its callers' are joined with
inline constexpr int oldest_ir = 3;
inline constexpr int oldest_opset = 7;  // of an older one only what means the same here
// Weights made by ConstantOfShape may take this many times ImportOptions::fold_limit, all together.
inline constexpr std::int64_t weight_factor = 64;

}  // namespace tandem::limits
