// Finds the loop that computes an elementwise operator.
#pragma once
#include <optional>
#include <string_view>

#include "graph/dtype.h"
#include "kernels/cpu/native/vector/vector.h"

namespace tandem::native {

struct Micro {
  vector::MicroOp run;
  int arity;
};
// `in`: the dtype of the (last) input; `out` of the output. None: there is no such operator, or not on these types.
std::optional<Micro> find_micro(std::string_view op, DType in, DType out);

bool has_formula(std::string_view op);  // an operator that there is a loop for, on some types

}  // namespace tandem::native
