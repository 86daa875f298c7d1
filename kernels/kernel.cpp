// How operands are measured and printed.
#include "kernels/kernel.h"

namespace tandem {

std::int64_t Operand::bytes() const {
  return present() ? physical_elements(shape, layout) * static_cast<std::int64_t>(size_of(dtype)) : 0;
}

std::string to_string(const Operand& operand) {
  return operand.present() ? concat(operand.dtype, operand.shape, ':', operand.layout) : "-";
}

}  // namespace tandem
