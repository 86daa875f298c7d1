// What the sources of this folder give the table of their instruction set.
#pragma once
#include "kernels/cpu/native/vector/vector.h"

namespace tandem::vector::TANDEM_ISA {

extern const MicroRow micro_ops[];
extern const int micro_op_count;

}  // namespace tandem::vector::TANDEM_ISA
