// The functions that exist once per instruction set. The sources of this folder include nothing that holds templates or
// inline functions of others: a copy compiled for AVX-512 could be the one the linker keeps for everybody.
#pragma once
#include <cstdint>

namespace tandem::vector {

// y[i] = f(a[i], b[i], c[i]; p[0], p[1]) for i < n. y may be one of the others, exactly; unused ones are not read.
using MicroOp = void (*)(void* y, const void* a, const void* b, const void* c, std::int64_t n, const double* p);

struct MicroRow {
  const char* name;   // the operator's
  int arity;
  MicroOp float32, float64;
};

struct Table {
  const char* isa;
  const MicroRow* micro_ops;
  int micro_op_count;
};

namespace baseline { const Table& table(); }
namespace avx2 { const Table& table(); }
namespace avx512 { const Table& table(); }

}  // namespace tandem::vector
