// Matrix products of float32 and bfloat16 numbers, in panels that fit the caches. bfloat16 is widened when it is packed: products and
// sums are float32's, and what is stored is rounded once. Each element is summed in order, long sums of few elements in pieces that go by
// the product's sizes, and those of up to four rows in lanes of the instruction set's vectors. So results depend neither on the threads nor
// on the machine's caches.
#pragma once
#include "kernels/cpu/native/native.h"

namespace tandem::native {

// One side of a product: how far apart its lines (a's rows, b's columns) and the numbers to be summed along them lie, in elements.
struct Side {
  bool narrow = false;  // bfloat16
  std::int64_t line = 0, step = 0;
};

// c[i·c_row + j] = bias[j] + Σ a[i, p]·b[p, j] over p; max(0, ·) of that with `relu`. With `sums`: sums[i] = Σ a[i, p], too.
struct MatrixProduct {
  std::int64_t rows = 0, columns = 0, inner = 0;
  Side a, b;
  std::int64_t c_row = 0;
  bool narrow_c = false;     // c, bias and sums are bfloat16
  bool relu = false;
  bool sums = false;
  int threads = 1;

  std::int64_t workspace() const;  // bytes
  // bias: null for none; sums: where they are wanted
  void run(const void* a, const void* b, void* c, const void* bias, void* sums, std::byte* workspace) const;

 private:
  struct Cut;
  struct Run;
  Cut cut() const;
};

// The share of the device's peak that such products reach; about none without vectors of the instruction set.
double product_efficiency();

}  // namespace tandem::native
