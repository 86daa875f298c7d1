// MatMul: numpy's, row-major; cuBLAS sees yᵀ = bᵀ · aᵀ. Batches at one distance are one call, others one call each.
#include <algorithm>
#include <bit>
#include <span>

#include "kernels/cuda/cublas/ways.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/native/describe.h"
#include "kernels/cuda/native/nest.h"

namespace tandem::cuda {
namespace {

struct Offsets {
  std::int64_t y, a, b;  // elements
};

class MatMulKernel final : public Kernel {
 public:
  MatMulKernel(std::unique_ptr<GemmPlan> plan, std::vector<Offsets> calls, std::int64_t element)
      : plan_(std::move(plan)), calls_(std::move(calls)), element_(element) {}
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    a_ = inputs[0];
    b_ = inputs[1];
    y_ = outputs[0];
    workspace_ = workspace;
  }
  void run(StreamHandle stream) override {
    for (const Offsets& o : calls_) plan_->run(b_ + o.b * element_, a_ + o.a * element_, y_ + o.y * element_, workspace_, stream.native);
  }

 private:
  std::unique_ptr<GemmPlan> plan_;
  std::vector<Offsets> calls_;
  std::int64_t element_;
  const std::byte *a_ = nullptr, *b_ = nullptr;
  std::byte *y_ = nullptr, *workspace_ = nullptr;
};

// The last two axes as a matrix: a vector is a row on the left and a column on the right.
struct Matrix {
  std::int64_t rows, columns;
  std::vector<std::int64_t> batch;
};
Matrix matrix_of(const Shape& s, bool left) {
  if (s.rank() == 1) return left ? Matrix{1, s[0], {}} : Matrix{s[0], 1, {}};
  return {s[s.rank() - 2], s[s.rank() - 1], {s.dims.begin(), s.dims.end() - 2}};
}

// Strides of the batch axes of a matrix, aligned to `rank` axes; 0 where it repeats.
std::vector<std::int64_t> batch_strides(const Matrix& m, std::size_t rank) {
  std::vector<std::int64_t> strides(rank, 0);
  std::int64_t stride = m.rows * m.columns;
  for (std::size_t i = m.batch.size(); i-- > 0;) {
    if (m.batch[i] != 1) strides[rank - m.batch.size() + i] = stride;
    stride *= m.batch[i];
  }
  return strides;
}

// The loops over a product's batch, with the strides of y, a and b, of matrices of so many elements of y.
std::vector<LoopDim> loops_of(const Matrix& a, const Matrix& b, std::int64_t elements) {
  const std::size_t rank = std::max(a.batch.size(), b.batch.size());
  const std::vector<std::int64_t> as = batch_strides(a, rank), bs = batch_strides(b, rank);
  std::vector<LoopDim> dims(rank);
  std::int64_t stride = elements;
  for (std::size_t i = rank; i-- > 0;) {
    const auto size = [&](const Matrix& x) { return i + x.batch.size() < rank ? 1 : x.batch[i - (rank - x.batch.size())]; };
    dims[i] = {std::max(size(a), size(b)), {stride, as[i], bs[i]}};
    stride *= dims[i].size;
  }
  return merged(std::move(dims));
}

// Where each product of these loops begins.
std::vector<Offsets> offsets_of(std::span<const LoopDim> dims) {
  std::vector<Offsets> calls{{0, 0, 0}};
  for (const LoopDim& dim : dims) {
    std::vector<Offsets> more;
    for (const Offsets& o : calls)
      for (std::int64_t i = 0; i < dim.size; ++i)
        more.push_back({o.y + i * dim.strides[0], o.a + i * dim.strides[1], o.b + i * dim.strides[2]});
    calls = std::move(more);
  }
  return calls;
}

}  // namespace

std::vector<KernelDescription> describe_matmul(const KernelRequest& request, Libraries* libraries) {
  KernelDescription d = description_of(request, "cublaslt.matmul", Layout());
  for (std::vector<Operand>* operands : {&d.inputs, &d.outputs})
    for (Operand& o : *operands) {
      o.layout = Layout::row_major(o.shape.rank());
      if (!is_storage_float(o.dtype) || o.dtype != d.inputs[0].dtype || o.shape.elements() == 0) return {};
    }
  Matrix a = matrix_of(d.inputs[0].shape, true), b = matrix_of(d.inputs[1].shape, false);
  const bool trans_a = d.inputs[0].shape.rank() > 1 && request.attributes->integer("transA", 0) != 0;
  const bool trans_b = d.inputs[1].shape.rank() > 1 && request.attributes->integer("transB", 0) != 0;
  const std::int64_t m = trans_a ? a.columns : a.rows, k = trans_a ? a.rows : a.columns, n = trans_b ? b.rows : b.columns;
  std::vector<LoopDim> dims = loops_of(a, b, m * n);
  // The innermost loop is cuBLAS's batch, the others are calls.
  Gemm gemm{.m = n,
            .n = m,
            .k = k,
            .transpose_a = trans_b,
            .transpose_b = trans_a,
            .dtype = d.inputs[0].dtype,
            .tf32 = request.options.tf32,
            .deterministic = request.options.deterministic};
  if (!dims.empty()) {
    gemm.batch = dims.back().size;
    gemm.stride_d = dims.back().strides[0];
    gemm.stride_b = dims.back().strides[1];
    gemm.stride_a = dims.back().strides[2];
    dims.pop_back();
  }
  const std::vector<Offsets> calls = offsets_of(dims);
  const auto element = static_cast<std::int64_t>(size_of(gemm.dtype));
  auto together = static_cast<std::uint64_t>(gemm.alignment);
  for (const Offsets& o : calls) together |= static_cast<std::uint64_t>((o.y | o.a | o.b) * element);
  gemm.alignment = static_cast<int>(std::uint64_t{1} << std::countr_zero(together));

  const std::string prefix = concat(d.kernel, gemm.tf32 && gemm.dtype == DType::float32 ? ".tf32" : "");
  std::vector<KernelDescription> all;
  for (const GemmWay& way : ways_to_run(gemm, prefix, request, libraries->cublaslt_at_hand(request))) {
    KernelDescription& one = all.emplace_back(d);
    one.kernel = way.kernel;
    one.workspace = gemm_workspace;
    one.efficiency = product_efficiency * speed_of_products(libraries->device(), gemm.dtype, gemm.tf32);
    one.make = [gemm, calls, element, way, libraries]() -> std::unique_ptr<Kernel> {
      return std::make_unique<MatMulKernel>(prepare(gemm, way, libraries->cublaslt()).plan, calls, element);
    };
  }
  return all;
}

}  // namespace tandem::cuda
