// What a list of kernels holds of one: every way it can run a request, best first; nothing where it cannot.
#pragma once
#include "kernels/kernel.h"

namespace tandem {

using Descriptions = std::vector<KernelDescription>;
using Describe = Descriptions (*)(const KernelRequest&);

inline Operand operand_at(const std::vector<Operand>& operands, std::size_t i) { return i < operands.size() ? operands[i] : Operand{}; }
inline std::int64_t to_line(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }  // whole cache lines

}  // namespace tandem
