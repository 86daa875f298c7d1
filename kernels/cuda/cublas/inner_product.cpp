// InnerProduct and its gradients: y[N,O] = x[N,K] · w[O,K]ᵀ in row-major terms, where K runs over x's axes but the first
// in x's own order, which w shares. cuBLAS sees the transposed, column-major matrices.
#include "graph/layout_tag.h"
#include "kernels/cuda/cublas/ways.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/native/bias.h"
#include "kernels/cuda/native/describe.h"
#include "kernels/cuda/native/reduce.h"

namespace tandem::cuda {
namespace {

bool samples_outermost(const Operand& o) {
  if (!o.layout.plain()) return false;
  const std::vector<int> axes = tag_of(o.layout).axes;
  return std::ssize(axes) == o.shape.rank() && axes[0] == 0;
}

// The layout that x (or dx) and w (or dw) share: the first one's that is chosen and has axis 0 outermost.
Layout shared_layout(const Operand& first, const Operand& second) {
  if (samples_outermost(first)) return first.layout;
  if (samples_outermost(second)) return second.layout;
  return Layout::row_major(first.shape.rank());
}

bool takes(const KernelDescription& d) {
  for (const auto* operands : {&d.inputs, &d.outputs})
    for (const Operand& o : *operands)
      if (o.present() && (!is_storage_float(o.dtype) || o.dtype != d.inputs[0].dtype || o.shape.elements() == 0)) return false;
  return true;
}

struct Sizes {
  std::int64_t samples, inner, outputs;
};

// The product, then perhaps launches of our own.
class InnerProductKernel final : public Kernel {
 public:
  struct Roles {
    std::size_t a, b;  // inputs
    int bias_in = -1, bias_out = -1;
  };
  InnerProductKernel(std::unique_ptr<GemmPlan> plan, Roles roles, Binder after) : plan_(std::move(plan)), roles_(roles), after_(std::move(after)) {}

  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    a_ = inputs[roles_.a];
    b_ = inputs[roles_.b];
    d_ = outputs[0];
    workspace_ = workspace;
    if (roles_.bias_in >= 0) plan_->set_bias(inputs[static_cast<std::size_t>(roles_.bias_in)]);
    if (roles_.bias_out >= 0) plan_->set_bias(outputs[static_cast<std::size_t>(roles_.bias_out)]);
    if (after_) launches_ = after_({{inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}, workspace + gemm_workspace});
  }
  void run(StreamHandle stream) override {
    plan_->run(a_, b_, d_, workspace_, stream.native);
    if (launches_) launches_(stream.native);
  }

 private:
  std::unique_ptr<GemmPlan> plan_;
  Roles roles_;
  Binder after_;
  Launches launches_;
  const std::byte *a_ = nullptr, *b_ = nullptr;
  std::byte *d_ = nullptr, *workspace_ = nullptr;
};

// What is fused into the product, and what does the same apart, where cuBLASLt has no algorithm for that.
struct Fusion {
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  InnerProductKernel::Roles roles;
  Binder instead;
};

std::vector<KernelDescription> descriptions_of(const KernelDescription& d, const KernelRequest& request, Gemm gemm, const Fusion& fusion, std::int64_t own_workspace, Libraries& libraries) {
  gemm.tf32 = request.options.tf32;
  gemm.deterministic = request.options.deterministic;
  gemm.epilogue = fusion.epilogue;
  const std::string prefix = concat(d.kernel, gemm.tf32 && gemm.dtype == DType::float32 ? ".tf32" : "");
  std::vector<KernelDescription> all;
  for (const GemmWay& way : ways_to_run(gemm, prefix, request, libraries.cublaslt_at_hand(request))) {
    KernelDescription& k = all.emplace_back(d);
    k.kernel = way.kernel;
    k.workspace = gemm_workspace + own_workspace;
    k.efficiency = 0.7 * speed_of_products(libraries.device(), gemm.dtype, gemm.tf32);
    k.make = [gemm, fusion, way, &libraries]() -> std::unique_ptr<Kernel> {
      auto [plan, apart] = prepare(gemm, way, libraries.cublaslt());
      if (!apart) return std::make_unique<InnerProductKernel>(std::move(plan), fusion.roles, Binder());
      return std::make_unique<InnerProductKernel>(std::move(plan), InnerProductKernel::Roles{fusion.roles.a, fusion.roles.b}, fusion.instead);
    };
  }
  return all;
}

}  // namespace

std::vector<KernelDescription> describe_inner_product(const KernelRequest& request, Libraries* libraries) {
  KernelDescription d = description_of(request, "cublaslt.inner_product", Layout::row_major(request.inputs[0].shape.rank()));
  d.inputs[0].layout = d.inputs[1].layout = shared_layout(request.inputs[0], request.inputs[1]);
  d.outputs[0].layout = Layout::row_major(2);
  if (!takes(d)) return {};
  const Sizes s{d.inputs[0].shape[0], d.inputs[0].shape.elements() / d.inputs[0].shape[0], d.outputs[0].shape[1]};
  const bool bias = has(d.inputs, 2), relu = request.attributes->text("activation", "") == "Relu";
  Fusion f{.epilogue = bias   ? (relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
                       : relu ? CUBLASLT_EPILOGUE_RELU
                              : CUBLASLT_EPILOGUE_DEFAULT,
           .roles = {.a = 1, .b = 0, .bias_in = bias ? 2 : -1}};
  if (bias || relu) f.instead = bias_binder(d.outputs[0], bias ? 2 : -1, relu);
  // yᵀ[O,N] = w[O,K] · xᵀ[K,N]
  return descriptions_of(d, request, {.m = s.outputs, .n = s.samples, .k = s.inner, .transpose_a = true, .dtype = d.inputs[0].dtype}, f, 0, *libraries);
}

std::vector<KernelDescription> describe_inner_product_backward_data(const KernelRequest& request, Libraries* libraries) {
  KernelDescription d = description_of(request, "cublaslt.inner_product_backward_data", Layout::row_major(request.inputs[1].shape.rank()));
  d.inputs[1].layout = d.outputs[0].layout = shared_layout(request.inputs[1], request.outputs[0]);
  d.inputs[0].layout = Layout::row_major(2);
  if (!takes(d)) return {};
  const Sizes s{d.inputs[0].shape[0], d.outputs[0].shape.elements() / d.inputs[0].shape[0], d.inputs[0].shape[1]};
  // dxᵀ[K,N] = wᵀ[K,O] · dyᵀ[O,N]
  return descriptions_of(d, request, {.m = s.inner, .n = s.samples, .k = s.outputs, .dtype = d.inputs[0].dtype}, {.roles = {.a = 1, .b = 0}}, 0, *libraries);
}

std::vector<KernelDescription> describe_inner_product_backward_weights(const KernelRequest& request, Libraries* libraries) {
  KernelDescription d = description_of(request, "cublaslt.inner_product_backward_weights", Layout::row_major(request.inputs[0].shape.rank()));
  d.inputs[0].layout = d.outputs[0].layout = shared_layout(request.inputs[0], request.outputs[0]);
  d.inputs[1].layout = Layout::row_major(2);
  if (!takes(d)) return {};
  const Sizes s{d.inputs[0].shape[0], d.inputs[0].shape.elements() / d.inputs[0].shape[0], d.inputs[1].shape[1]};
  Fusion f{.roles = {.a = 0, .b = 1}};
  std::int64_t own_workspace = 0;
  if (has(d.outputs, 1)) {
    const std::optional<ReductionPlan> sum = plan_channel_sum(d.inputs[1], request.options);
    if (!sum) return {};
    own_workspace = sum->workspace;
    f.epilogue = CUBLASLT_EPILOGUE_BGRADB;
    f.roles.bias_out = 1;
    f.instead = [sum = *sum](const Buffers& b) { return sum.bind(b.inputs[1], b.outputs[1], b.workspace); };
  }
  // dwᵀ[K,O] = xᵀ[K,N] · dy[N,O]
  return descriptions_of(d, request, {.m = s.inner, .n = s.outputs, .k = s.samples, .transpose_b = true, .dtype = d.inputs[0].dtype}, f, own_workspace, *libraries);
}

}  // namespace tandem::cuda
