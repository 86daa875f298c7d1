// The functions that this instruction set's copy of the folder has; compiled once for each.
#include "kernels/cpu/native/vector/parts.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

#define TANDEM_TEXT_OF(x) #x
#define TANDEM_TEXT(x) TANDEM_TEXT_OF(x)
constexpr const char* isa = TANDEM_TEXT(TANDEM_ISA);

}  // namespace

const Table& table() {
  static const Table the_table = {isa,
                                  micro_ops,
                                  micro_op_count,
                                  widen_bfloat16,
                                  narrow_bfloat16,
                                  {&reductions<float>(), &updates<float>(), dropping<float>(), &attending<float>(), &recurring<float>()},
                                  {&reductions<double>(), &updates<double>(), dropping<double>(), &attending<double>(), &recurring<double>()},
                                  philox_run,
                                  philox_at,
                                  &convolution_tiles(),
                                  &products(),
                                  &row_products,
                                  dots(),
                                  row_normalizations,
                                  batch_normalizations,
                                  transposes,
                                  &pooling()};
  return the_table;
}

}  // namespace tandem::vector::TANDEM_ISA
