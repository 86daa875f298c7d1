// numpy's matmul: the last two axes are matrices, those before broadcast. A vector is a row on the left and a column on
// the right.
#include "kernels/cpu/native/dense.h"
#include "kernels/cpu/native/gemm.h"
#include "kernels/cpu/native/products.h"

namespace tandem::native {
namespace {

struct Matrices {
  Ints batch;                      // axes before the matrix
  std::int64_t rows, columns;      // after the transpose
  std::int64_t row, column, size;  // strides of the matrix, its elements
};

Matrices matrices_of(const Shape& shape, bool transposed, bool left) {
  if (shape.rank() == 0) fail("MatMul of a scalar");
  if (shape.rank() == 1) return left ? Matrices{{}, 1, shape[0], shape[0], 1, shape[0]} : Matrices{{}, shape[0], 1, 1, 1, shape[0]};
  const std::int64_t r = shape[shape.rank() - 2], c = shape[shape.rank() - 1];
  Matrices s{Ints(shape.begin(), shape.end() - 2), r, c, c, 1, r * c};
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
  const DType type = request.inputs[0].dtype;
  const bool narrow = type == DType::bfloat16;
  if ((type != DType::float32 && type != DType::float64 && !narrow) || request.inputs[1].dtype != type || request.outputs[0].dtype != type)
    return {};
  const Attributes& attributes = *request.attributes;
  const Shape &shape_a = request.inputs[0].shape, &shape_b = request.inputs[1].shape, &shape_y = request.outputs[0].shape;
  const Matrices a = matrices_of(shape_a, attributes.integer("transA", 0) != 0, true);
  const Matrices b = matrices_of(shape_b, attributes.integer("transB", 0) != 0, false);
  const int matrix_axes = (shape_a.rank() > 1) + (shape_b.rank() > 1);
  const Ints batch(shape_y.begin(), shape_y.end() - matrix_axes);
  const std::int64_t count = product(batch), size_y = a.rows * b.columns;
  const int threads = request.options.threads;
  KernelDescription d = row_major_description("native.matmul", request, type == DType::float64 ? 0.05 : product_efficiency());
  if (type == DType::float64) {
    d.make = make_kernel([=](const Memory& m) {
      const std::int64_t lines = count * a.rows;  // of the result, over all its matrices
      const int parts = threads_for(lines * b.columns * a.columns, threads);
      parallel(parts, [&](int part) {
        const Range range = part_of(lines, part, parts);
        for (std::int64_t line = range.begin; line < range.end;) {
          const std::int64_t i = line / a.rows, row = line % a.rows, rows = std::min(a.rows - row, range.end - line);
          const double* const left = m.in<double>(0) + matrix_of(a.batch, batch, i) * a.size + row * a.row;
          const double* const right = m.in<double>(1) + matrix_of(b.batch, batch, i) * b.size;
          gemm<double>(rows, b.columns, a.columns, {left, a.row, a.column}, {right, b.row, b.column}, m.out<double>(0) + line * b.columns,
                       b.columns, false);
          line += rows;
        }
      });
    });
    return {d};
  }
  // Each thread has matrices of its own, or all share every one.
  const bool apart = count >= threads;
  const MatrixProduct p{a.rows, b.columns, a.columns, {narrow, a.row, a.column}, {narrow, b.column, b.row}, b.columns,
                        narrow, false,     false,     apart ? 1 : threads};
  const std::int64_t workspace = (p.workspace() + 63) / 64 * 64, bytes = static_cast<std::int64_t>(size_of(type));
  const int parts = apart ? threads_for(count * size_y * a.columns, threads) : 1;
  d.workspace = workspace * (apart ? threads : 1);
  d.make = make_kernel([=](const Memory& m) {
    parallel(parts, [&](int part) {
      const Range range = part_of(count, part, parts);
      for (std::int64_t i = range.begin; i < range.end; ++i)
        p.run(m.inputs[0] + matrix_of(a.batch, batch, i) * a.size * bytes, m.inputs[1] + matrix_of(b.batch, batch, i) * b.size * bytes,
              m.outputs[0] + i * size_y * bytes, nullptr, nullptr, m.workspace + part * workspace);
    });
  });
  return {d};
}

}  // namespace tandem::native
