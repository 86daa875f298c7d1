// What the plan's writer, reader and verifier agree on.
#pragma once
#include "planner/plan/plan.h"

namespace tandem {

inline constexpr std::string_view plan_format = "tandem.plan";  // the file's first field
inline constexpr int plan_version = 1;
inline constexpr int plan_streams = 3;  // compute, communication, copies
inline constexpr std::int64_t plan_alignment = 64;

// A plan file's bytes with its last field, the checksum of all before it.
inline constexpr std::size_t checksum_bytes = 10;  // the field's key and eight bytes
std::string with_checksum(std::string bytes);

// Empty, or what is wrong with an operand: its element type, its shape, or a layout that does not fit it. Nothing is
// assumed: the operand may come from a hostile file, and Operand::bytes() is safe only after this.
std::string problem_of(const Operand& operand);
std::string problem_of(const TensorType& type);

}  // namespace tandem
