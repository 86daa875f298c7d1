// The loops over rows that are normalized (vector/row_normalization.cpp), by the type of their elements.
#pragma once
#include "graph/half.h"
#include "kernels/cpu/isa.h"

namespace tandem::native {

// f<element, type of its statistics>(loops)
template <class F>
void visit_rows(DType dtype, F&& f) {
  const vector::RowNormalizations* const loops = vector_table().row_normalizations;
  if (dtype == DType::float32) f.template operator()<float, float>(loops[0]);
  if (dtype == DType::float64) f.template operator()<double, double>(loops[1]);
  if (dtype == DType::bfloat16) f.template operator()<BFloat16, float>(loops[rounds_to_bfloat16() ? 5 : 2]);
}

// The loops of float rows beside addends and dy of bfloat16, with y in that type or in float.
inline const vector::RowNormalizations& loops_beside_float(DType y) {
  return vector_table().row_normalizations[y == DType::float32 ? 3 : rounds_to_bfloat16() ? 6 : 4];
}

}  // namespace tandem::native
