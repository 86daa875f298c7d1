// ProductFp8: y[M,N] = a[M,K] · w[N,K]ᵀ of 8 bits, in row-major terms, with a bias and an activation. Tensor cores take such products in
// one form only: both sides lie along what is summed over ("TN"), m and k are multiples of 16. Here m is w's rows, which the planner chose
// so; k is too, but for the gradient of a weight, where it is rows of the batch: others are filled up with zeros in the workspace.
#include <cuda_runtime_api.h>

#include "kernels/cuda/check.h"
#include "kernels/cuda/cublas/ways.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/native/bias.h"
#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {
namespace {

constexpr std::int64_t multiple = 16;

std::int64_t filled_up(std::int64_t n) { return ceil_div(n, multiple) * multiple; }

struct Sizes {
  std::int64_t rows, inner, outputs;
  bool padded() const { return inner % multiple != 0; }
  std::int64_t a_bytes() const { return padded() ? align_up(rows * filled_up(inner)) : 0; }
  std::int64_t w_bytes() const { return padded() ? align_up(outputs * filled_up(inner)) : 0; }
};

class ProductFp8Kernel final : public Kernel {
 public:
  ProductFp8Kernel(std::unique_ptr<GemmPlan> plan, const Sizes& sizes, bool bias, Binder after)
      : plan_(std::move(plan)), sizes_(sizes), bias_(bias), after_(std::move(after)) {}

  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    a_ = inputs[0];
    w_ = inputs[1];
    d_ = outputs[0];
    workspace_ = workspace;
    plan_->set_scales(inputs[3], inputs[2]);  // w is cuBLAS's a
    if (bias_) plan_->set_bias(inputs[4]);
    if (after_) launches_ = after_({{inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}, nullptr});
  }
  void run(StreamHandle handle) override {
    auto* const stream = static_cast<cudaStream_t>(handle.native);
    const std::byte *a = a_, *w = w_;
    if (sizes_.padded()) {
      a = padded(a_, sizes_.rows, workspace_ + gemm_workspace, stream);
      w = padded(w_, sizes_.outputs, workspace_ + gemm_workspace + sizes_.a_bytes(), stream);
    }
    plan_->run(w, a, d_, workspace_, stream);
    if (launches_) launches_(stream);
  }

 private:
  const std::byte* padded(const std::byte* from, std::int64_t rows, std::byte* to, cudaStream_t stream) const {
    const auto width = static_cast<std::size_t>(sizes_.inner), pitch = static_cast<std::size_t>(filled_up(sizes_.inner));
    check(cudaMemsetAsync(to, 0, pitch * static_cast<std::size_t>(rows), stream), "clear memory");
    check(cudaMemcpy2DAsync(to, pitch, from, width, width, static_cast<std::size_t>(rows), cudaMemcpyDeviceToDevice, stream), "copy rows");
    return to;
  }

  std::unique_ptr<GemmPlan> plan_;
  const Sizes sizes_;
  const bool bias_;
  Binder after_;
  Launches launches_;
  const std::byte *a_ = nullptr, *w_ = nullptr;
  std::byte *d_ = nullptr, *workspace_ = nullptr;
};

}  // namespace

Descriptions describe_product_fp8(const KernelRequest& request, Libraries* libraries) {
  KernelDescription d = row_major_description(request, "cublaslt.product_fp8");
  const Sizes s{d.inputs[0].shape[0], d.inputs[0].shape[1], d.inputs[1].shape[0]};
  if (d.outputs[0].dtype != DType::bfloat16 || s.rows * s.inner * s.outputs == 0 || s.outputs % multiple != 0) return {};
  const bool bias = has(d.inputs, 4), relu = request.attributes->text("activation", "") == "Relu";
  // yᵀ[N,M] = w[N,K] · aᵀ[K,M]
  const Gemm gemm{.m = s.outputs,
                  .n = s.rows,
                  .k = filled_up(s.inner),
                  .transpose_a = true,
                  .epilogue = bias   ? (relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
                              : relu ? CUBLASLT_EPILOGUE_RELU
                                     : CUBLASLT_EPILOGUE_DEFAULT,
                  .dtype = DType::bfloat16,
                  .fp8 = GemmFp8{.a = d.inputs[1].dtype, .b = d.inputs[0].dtype, .fast = request.attributes->integer("fast", 0) != 0},
                  .deterministic = request.options.deterministic};
  const Binder instead = bias || relu ? bias_binder(d.outputs[0], bias ? 4 : -1, relu) : Binder();
  Descriptions all;
  for (const GemmWay& way : ways_to_run(gemm, d.kernel, request, libraries->cublaslt_at_hand(request))) {
    KernelDescription& k = all.emplace_back(d);
    k.kernel = way.kernel;
    k.workspace = gemm_workspace + s.a_bytes() + s.w_bytes();
    k.efficiency = product_efficiency * speed_of_products(libraries->device(), DType::float8e4m3fn, false);
    k.make = [=]() -> std::unique_ptr<Kernel> {
      auto [plan, apart] = prepare(gemm, way, libraries->cublaslt());
      return std::make_unique<ProductFp8Kernel>(std::move(plan), s, bias && !apart, apart ? instead : Binder());
    };
  }
  return all;
}

}  // namespace tandem::cuda
