// How attention's operands [B,H,S,D] lie.
#pragma once
#include "kernels/kernel.h"

namespace tandem::cuda {

// The request's own layout where rows lie whole, else the one that projections write, heads behind tokens.
Layout in_rows(const Operand& operand);
// A result of this operand's shape lies as it does, but with heads behind tokens where that is row-major: for what reads it.
Layout like(const Operand& operand);

}  // namespace tandem::cuda
