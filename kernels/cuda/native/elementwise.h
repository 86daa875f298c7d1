// Fused elementwise programs (the operator Elementwise): what the interpreter and the source generator share.
#pragma once
#include <optional>
#include <vector>

#include "kernels/cuda/bodies/elementwise.h"
#include "kernels/cuda/native/describe.h"
#include "kernels/cuda/native/nest.h"

namespace tandem::cuda {

struct ElementwiseProgram {
  DType dtype = DType::float32;
  std::int64_t elements = 0;
  int inputs = 0;
  std::vector<Instruction> instructions;
  std::vector<std::uint8_t> results;
  std::vector<LoopDim> dims;  // operand 0 is the outputs', then the inputs
  std::vector<Walk> walks;    // of each input
};

// The operator Elementwise's program, or one instruction for an elementwise operator by itself. Nothing where the program
// is longer than the kernels hold, or has an operator that they lack.
std::optional<ElementwiseProgram> parse_program(const KernelDescription& description, std::string_view op, const Attributes& attributes);

// CUDA source of the program as one kernel `tandem_elementwise(Arguments)`, Arguments being the inputs' addresses and
// then the outputs'. It moves `vector` elements at once; one thread walks `threads` blocks of them.
struct FusedSource {
  std::string text;
  int vector = 1;
  int threads = 256;
};
FusedSource fused_source(const ElementwiseProgram& program);

}  // namespace tandem::cuda
