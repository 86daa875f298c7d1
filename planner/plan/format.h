// What all who make, write, read, verify and run plans agree on.
#pragma once
#include <iterator>

#include "planner/plan/plan.h"

namespace tandem {

inline constexpr std::string_view plan_format = "tandem.plan";  // the file's first field
inline constexpr int plan_version = 6;
inline constexpr std::string_view stream_names[] = {"compute",         "communication", "copies",           "send forward",
                                                    "receive forward", "send backward", "receive backward", "offload",
                                                    "fetch",           "weight gradients"};
// By which activations go to the device that keeps them, and come back.
inline constexpr int offload_stream = 7, fetch_stream = 8;
inline constexpr int weights_stream = 9;
inline constexpr int plan_streams = static_cast<int>(std::size(stream_names));
// Of all offsets and sizes in arenas, in bytes, at least (DeviceModel::alignment): a cache line, and the widest vector of any
// processor here.
inline constexpr std::int64_t plan_alignment = 64;
inline std::int64_t aligned(std::int64_t bytes, std::int64_t to = plan_alignment) { return (bytes + to - 1) / to * to; }

// A plan file's bytes with its last field, the checksum of all before it.
inline constexpr std::size_t checksum_bytes = 10;  // the field's key and eight bytes
std::string with_checksum(std::string bytes);

// Empty, or what is wrong with an operand: its element type, its shape, or a layout that does not fit it. Nothing is
// assumed: the operand may come from a hostile file, and Operand::bytes() is safe only after this.
std::string problem_of(const Operand& operand);
std::string problem_of(const TensorType& type);

}  // namespace tandem
