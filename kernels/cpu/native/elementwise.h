// Runs a program of elementwise instructions over chunks that stay in the first-level cache.
#pragma once
#include "kernels/cpu/native/copy.h"
#include "kernels/cpu/native/elementwise_loops.h"

namespace tandem::native {

struct Instruction {
  vector::MicroOp run;
  int args[3];       // < 0: none; < inputs: an input; else inputs + an earlier instruction
  double params[2];
  DType dtype;       // of what it gives
};

struct Program {
  std::vector<Operand> inputs, outputs;  // outputs share shape and layout; inputs: plain layouts or the outputs' own
  std::vector<Instruction> code;
  std::vector<int> results;              // of each output: the operand it is, an instruction's
  int threads = 1;
};

// Bytes of workspace that the program needs, and its kernel.
std::int64_t workspace_of(const Program& program);
std::unique_ptr<Kernel> kernel_of(const Program& program);

// True where `in` broadcasts to the shape and is smaller.
bool is_broadcast(const Operand& in, const Shape& out);
// True where both hold the same elements in the same order.
bool runs_along(const Operand& in, const Operand& out);

}  // namespace tandem::native
