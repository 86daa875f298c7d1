// Host tensors between layouts, when parameters are loaded or read; never in a step.
#pragma once
#include <span>

#include "kernels/kernel.h"

namespace tandem {

// The values of `from`, lying as its layout says, as `to` lies: same dtype and shape, both layouts chosen. The padding
// of a blocked layout becomes zero.
void reorder(const Operand& from, std::span<const std::byte> source, const Operand& to, std::span<std::byte> target);

}  // namespace tandem
