// The functions that describe kernels, one declared by each row of kernels.inc, for kernels.cpp and the tests: each source defines its
// own and includes nothing of this. They give the descriptions of every way to run the request, best first; none where the family
// has no kernel for it.
//
// onednn: what the library runs, where that computes what ONNX means. native: our own. Dense ones are row-major, float and double, with
// every attribute: they serve gradient checks in double and the cases that oneDNN declines. One family is there for its speed:
// convolutions channels last.
#pragma once
#include "kernels/cpu/describe.h"

namespace tandem {

#define KERNEL(op, kernel, family, describe, ...) \
  namespace family { \
  Descriptions describe(const KernelRequest&); \
  }
#include "kernels/cpu/kernels.inc"
#undef KERNEL

namespace native {
bool has_formula(std::string_view op);  // which operators the row Elementwise serves
}
namespace onednn {
// The library's name of what runs behind a kernel ("jit:avx512_core"); empty for kernels that are not of this family.
std::string implementation_of(const Kernel& kernel);
}

}  // namespace tandem
