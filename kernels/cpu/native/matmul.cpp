// numpy's matmul: the last two axes are matrices, those before broadcast. A vector is a row on the left and a column on
// the right.
#include "kernels/cpu/native/dense.h"
#include "kernels/cpu/native/gemm.h"

namespace tandem::native {
namespace {

struct Side {
  Ints batch;                      // axes before the matrix
  std::int64_t rows, columns;      // after the transpose
  std::int64_t row, column, size;  // strides of the matrix, its elements
};

Side side_of(const Shape& shape, bool transposed, bool left) {
  if (shape.rank() == 0) fail("MatMul of a scalar");
  if (shape.rank() == 1) return left ? Side{{}, 1, shape[0], shape[0], 1, shape[0]} : Side{{}, shape[0], 1, 1, 1, shape[0]};
  const std::int64_t r = shape[shape.rank() - 2], c = shape[shape.rank() - 1];
  Side s{Ints(shape.begin(), shape.end() - 2), r, c, c, 1, r * c};
  if (transposed) {
    std::swap(s.rows, s.columns);
    std::swap(s.row, s.column);
  }
  return s;
}

// The number of the operand's matrix that goes into matrix `index` of the result.
std::int64_t matrix_of(const Ints& batch, const Ints& all, std::int64_t index) {
  std::int64_t number = 0, stride = 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t size = all[all.size() - 1 - i], at = index % size;
    index /= size;
    if (i >= batch.size()) continue;
    const std::int64_t mine = batch[batch.size() - 1 - i];
    if (mine != 1) number += at * stride;
    stride *= mine;
  }
  return number;
}

}  // namespace

Descriptions describe_matmul(const KernelRequest& request) {
  if (!is_real(request.inputs[0])) return {};
  const Attributes& attributes = *request.attributes;
  const Shape &shape_a = request.inputs[0].shape, &shape_b = request.inputs[1].shape, &shape_y = request.outputs[0].shape;
  const Side a = side_of(shape_a, attributes.integer("transA", 0) != 0, true);
  const Side b = side_of(shape_b, attributes.integer("transB", 0) != 0, false);
  const int matrix_axes = (shape_a.rank() > 1) + (shape_b.rank() > 1);
  const Ints batch(shape_y.begin(), shape_y.end() - matrix_axes);
  KernelDescription d = dense_description(request, "native.matmul");
  const int threads = request.options.threads;
  visit_float(request.inputs[0].dtype, [&]<class T>() {
    d.make = make_kernel([=](const Memory& m) {
      const std::int64_t lines = product(batch) * a.rows;  // of the result, over all its matrices
      const int parts = threads_for(lines * b.columns * a.columns, threads);
      parallel(parts, [&](int part) {
        const Range range = part_of(lines, part, parts);
        for (std::int64_t line = range.begin; line < range.end;) {
          const std::int64_t i = line / a.rows, row = line % a.rows, rows = std::min(a.rows - row, range.end - line);
          const T* const left = m.in<T>(0) + matrix_of(a.batch, batch, i) * a.size + row * a.row;
          const T* const right = m.in<T>(1) + matrix_of(b.batch, batch, i) * b.size;
          gemm<T>(rows, b.columns, a.columns, {left, a.row, a.column}, {right, b.row, b.column}, m.out<T>(0) + line * b.columns, b.columns, false);
          line += rows;
        }
      });
    });
  });
  return {d};
}

}  // namespace tandem::native
