// GatherND's and ScatterND's indices: tuples, each of which names a row of x along the axes behind `batch_dims`.
#pragma once
#include "graph/operators/rules.h"

namespace tandem {

// x as [rows, inner] and the tuples one behind the other: tuple i belongs to part i / (count / parts) of x's rows.
struct IndexedRows {
  std::int64_t parts = 1, rows = 1, inner = 1, count = 1;
  Shape within;  // the axes that a tuple has coordinates of
};
IndexedRows indexed_rows(const Shape& x, const Shape& indices, int batch_dims);

// The row among `within`, negative coordinates counted from the end; -1 where a coordinate is outside.
template <class Index>
std::int64_t row_of(const Index* tuple, const Shape& within) {
  std::int64_t row = 0;
  for (int d = 0; d < within.rank(); ++d) {
    const std::int64_t size = within[d], index = tuple[d] < 0 ? tuple[d] + size : tuple[d];
    if (index < 0 || index >= size) return -1;
    row = row * size + index;
  }
  return row;
}

// Settles the attribute batch_dims and gives the shape of what the indices pick from x.
Shape infer_indexed_rows(InferContext& c);

}  // namespace tandem
