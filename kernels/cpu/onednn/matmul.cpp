// Batched matrix products on row-major operands: transposes are strides, broadcasts are axes of size one.
#include <algorithm>

#include "kernels/cpu/onednn/primitive.h"

namespace tandem::onednn {
namespace {

// The operand as [batch..., rows, columns] with `rank` axes, its last two swapped where `transposed`.
Desc matrix(Dims dims, int rank, bool transposed, DType dtype) {
  dims.insert(dims.begin(), static_cast<std::size_t>(rank) - dims.size(), 1);
  Dims strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  if (transposed) {
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  }
  return strided(dims, data_type_of(dtype), std::move(strides));
}

}  // namespace

std::vector<KernelDescription> describe_matmul(const KernelRequest& request) {
  if (!float_operands(request)) return {};
  const Operand &a = request.inputs[0], &b = request.inputs[1], &y = request.outputs[0];
  // A vector is a row on the left and a column on the right; the result has lost that axis.
  const bool row = a.shape.rank() == 1, column = b.shape.rank() == 1;
  const Dims da = row ? Dims{1, a.shape[0]} : Dims(a.shape.begin(), a.shape.end());
  const Dims db = column ? Dims{b.shape[0], 1} : Dims(b.shape.begin(), b.shape.end());
  if (da.size() < 2 || db.size() < 2) return {};
  const bool trans_a = !row && request.attributes->integer("transA", 0) != 0;
  const bool trans_b = !column && request.attributes->integer("transB", 0) != 0;
  Dims dy(static_cast<std::size_t>(y.shape.rank()) + row + column, 1);
  std::copy(y.shape.begin(), y.shape.end() - !column, dy.begin());
  dy[dy.size() - 2] = da[da.size() - (trans_a ? 1 : 2)];
  dy[dy.size() - 1] = db[db.size() - (trans_b ? 2 : 1)];
  const int rank = static_cast<int>(std::max(da.size(), db.size()));
  if (rank > DNNL_MAX_NDIMS || static_cast<int>(dy.size()) != rank) return {};
  const ThreadScope threads(request.options.threads);
  const Desc ma = matrix(da, rank, trans_a, a.dtype), mb = matrix(db, rank, trans_b, b.dtype), my = matrix(dy, rank, false, y.dtype);
  const auto pd = compat::describe<dnnl::matmul>(cpu_engine(), attributes(), ma, mb, Desc(), my);
  std::vector<KernelDescription> found;
  if (!pd) return found;
  Candidate c(request, "onednn.matmul", pd);
  c.input(0, DNNL_ARG_SRC, ma, Layout::row_major(a.shape.rank()));
  c.input(1, DNNL_ARG_WEIGHTS, mb, Layout::row_major(b.shape.rank()));
  c.output(0, DNNL_ARG_DST, my, Layout::row_major(y.shape.rank()));
  std::move(c).add_to(found);
  return found;
}

}  // namespace tandem::onednn
