// InnerProduct and its gradients: y[N,O] = x[N,K] · w[O,K]ᵀ in row-major terms, where K runs over x's axes but the first
// in x's own order, which w shares. cuBLAS sees the transposed, column-major matrices.
#include "graph/layout_tag.h"
#include "kernels/cuda/cublas/activation.h"
#include "kernels/cuda/cublas/padded.h"
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

// The product, then perhaps launches of our own.
class InnerProductKernel final : public Kernel {
 public:
  struct Roles {
    std::size_t a, b;  // inputs
    int bias_in = -1, bias_out = -1;
    int before_in = -1, before_out = -1;  // what Gelu is of
    std::size_t product = 0;              // output
  };
  InnerProductKernel(std::unique_ptr<GemmPlan> plan, Roles roles, Binder after)
      : plan_(std::move(plan)), roles_(roles), after_(std::move(after)) {}

  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    a_ = inputs[roles_.a];
    b_ = inputs[roles_.b];
    d_ = outputs[roles_.product];
    workspace_ = workspace;
    if (roles_.bias_in >= 0) plan_->set_bias(inputs[static_cast<std::size_t>(roles_.bias_in)]);
    if (roles_.bias_out >= 0) plan_->set_bias(outputs[static_cast<std::size_t>(roles_.bias_out)]);
    if (roles_.before_in >= 0) plan_->set_aux(inputs[static_cast<std::size_t>(roles_.before_in)]);
    if (roles_.before_out >= 0) plan_->set_aux(outputs[static_cast<std::size_t>(roles_.before_out)]);
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

// What is fused into the product, and what does the same apart, where cuBLASLt has no algorithm for that. What follows the product
// either way is what nothing is fused of.
struct Fusion {
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  InnerProductKernel::Roles roles;
  Binder instead = {}, after = {};
  std::size_t apart_product = 0;  // the output that the product is, where `instead` runs
  std::string_view form = {};     // in the kernel's name
  std::int64_t more_bytes = 0;    // that what follows reads and writes
};

Binder both(Binder first, Binder second) {
  if (!first || !second) return first ? first : second;
  return [first = std::move(first), second = std::move(second)](const Buffers& b) { return in_turn({first(b), second(b)}); };
}

std::vector<KernelDescription> descriptions_of(const KernelDescription& d, const KernelRequest& request, Gemm gemm, const Fusion& fusion,
                                               std::int64_t own_workspace, Libraries& libraries) {
  gemm.tf32 = request.options.tf32;
  gemm.deterministic = request.options.deterministic;
  gemm.epilogue = fusion.epilogue;
  const bool slow = size_of(gemm.dtype) == 2 && (gemm.m % 8 != 0 || (gemm.transpose_a ? gemm.k : gemm.m) % 8 != 0 ||
                                                 (gemm.transpose_b ? gemm.n : gemm.k) % 8 != 0);
  const double efficiency = slow ? slow_product_efficiency : gemm.transpose_b ? weights_efficiency : product_efficiency;
  const double flops = 2.0 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) * static_cast<double>(gemm.k);
  const std::string prefix = concat(d.kernel, fusion.form, gemm.tf32 && gemm.dtype == DType::float32 ? ".tf32" : "");
  std::vector<KernelDescription> all;
  for (const GemmWay& way : ways_to_run(gemm, prefix, request, libraries.cublaslt_at_hand(request))) {
    KernelDescription& k = all.emplace_back(d);
    k.kernel = way.kernel;
    k.workspace = gemm_workspace + own_workspace;
    k.efficiency = slowed(efficiency * speed_of_products(libraries.device(), gemm.dtype, gemm.tf32), flops, fusion.more_bytes,
                          libraries.device().model);
    k.make = [gemm, fusion, way, &libraries]() -> std::unique_ptr<Kernel> {
      auto [plan, apart] = prepare(gemm, way, libraries.cublaslt());
      if (!apart) return std::make_unique<InnerProductKernel>(std::move(plan), fusion.roles, fusion.after);
      return std::make_unique<InnerProductKernel>(
          std::move(plan), InnerProductKernel::Roles{.a = fusion.roles.a, .b = fusion.roles.b, .product = fusion.apart_product},
          both(fusion.instead, fusion.after));
    };
  }
  return all;
}

// A binder for output 0, of another output.
Binder of_output(std::size_t i, Binder bind) {
  if (!bind || i == 0) return bind;
  return [i, bind = std::move(bind)](Buffers b) {
    std::swap(b.outputs[0], b.outputs[i]);
    return bind(b);
  };
}

// The ways with an activation: `epilogue`, cuBLASLt's of Gelu, where the formula is that one's, by tanh; and the activation as a kernel
// of our own behind the product without it.
std::vector<KernelDescription> activated(const KernelDescription& d, const KernelRequest& request, const Gemm& gemm, const Fusion& linear,
                                         cublasLtEpilogue_t epilogue, Libraries& libraries) {
  Fusion behind = linear;
  behind.form = ".then";
  behind.roles.before_in = behind.roles.before_out = -1;
  behind.roles.product = behind.apart_product = has(d.outputs, 1) ? 1 : 0;
  behind.instead = of_output(behind.apart_product, linear.instead);
  behind.after = activation_binder(d, request, libraries);
  behind.more_bytes = (request.op == "InnerProduct" ? 2 : 3) * d.outputs[0].bytes();
  std::vector<KernelDescription> all;
  constexpr std::int64_t rows_of_aux = 8;  // cuBLASLt wants a multiple
  if (request.attributes->text("activation", "") == "GeluTanh" && gemm.m % rows_of_aux == 0) {
    Fusion fused = linear;
    fused.form = ".gelu";
    fused.epilogue = epilogue;
    fused.instead = both(behind.instead, behind.after);
    fused.apart_product = behind.apart_product;
    all = descriptions_of(d, request, gemm, fused, 0, libraries);
  }
  for (KernelDescription& k : descriptions_of(d, request, gemm, behind, 0, libraries)) all.push_back(std::move(k));
  return all;
}

// The ways as cuBLASLt has them, and, where that is faster, those by padded rows before them.
std::vector<KernelDescription> with_padded(Padded which, const KernelDescription& d, const KernelRequest& request, const PaddedSizes& s,
                                           Binder after, std::int64_t own_workspace, std::vector<KernelDescription> plain,
                                           Libraries& libraries) {
  if (!gains_by_padding(s, d.inputs[0].dtype)) return plain;
  std::vector<KernelDescription> all = describe_padded(which, d, request, s, std::move(after), own_workspace, libraries);
  for (KernelDescription& k : plain) all.push_back(std::move(k));
  return all;
}

}  // namespace

std::vector<KernelDescription> describe_inner_product(const KernelRequest& request, Libraries* libraries) {
  KernelDescription d = description_of(request, "cublaslt.inner_product", Layout::row_major(request.inputs[0].shape.rank()));
  d.inputs[0].layout = d.inputs[1].layout = shared_layout(request.inputs[0], request.inputs[1]);
  for (Operand& o : d.outputs) o.layout = Layout::row_major(2);
  if (!takes(d)) return {};
  const PaddedSizes s{d.inputs[0].shape[0], d.inputs[0].shape.elements() / d.inputs[0].shape[0], d.outputs[0].shape[1]};
  const std::string activation = request.attributes->text("activation", "");
  const bool bias = has(d.inputs, 2), relu = activation == "Relu";
  const Gemm gemm{.m = s.outputs, .n = s.samples, .k = s.inner, .transpose_a = true, .dtype = d.inputs[0].dtype};
  Fusion f{.epilogue = bias   ? (relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
                       : relu ? CUBLASLT_EPILOGUE_RELU
                              : CUBLASLT_EPILOGUE_DEFAULT,
           .roles = {.a = 1, .b = 0, .bias_in = bias ? 2 : -1}};
  if (bias || relu) f.instead = bias_binder(d.outputs[0], bias ? 2 : -1, relu);
  // yᵀ[O,N] = w[O,K] · xᵀ[K,N]
  if (activation.empty() || relu)
    return with_padded(Padded::outputs, d, request, s, f.instead, 0, descriptions_of(d, request, gemm, f, 0, *libraries), *libraries);
  const bool kept = has(d.outputs, 1);
  if (kept) f.roles.before_out = 1;
  return activated(d, request, gemm, f,
                   bias ? (kept ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_BIAS)
                        : (kept ? CUBLASLT_EPILOGUE_GELU_AUX : CUBLASLT_EPILOGUE_GELU),
                   *libraries);
}

std::vector<KernelDescription> describe_inner_product_backward_data(const KernelRequest& request, Libraries* libraries) {
  KernelDescription d = description_of(request, "cublaslt.inner_product_backward_data", Layout::row_major(request.inputs[1].shape.rank()));
  d.inputs[1].layout = d.outputs[0].layout = shared_layout(request.inputs[1], request.outputs[0]);
  d.inputs[0].layout = Layout::row_major(2);
  if (has(d.inputs, 2)) d.inputs[2].layout = d.outputs[0].layout;
  if (!takes(d)) return {};
  const PaddedSizes s{d.inputs[0].shape[0], d.outputs[0].shape.elements() / d.inputs[0].shape[0], d.inputs[0].shape[1]};
  // dxᵀ[K,N] = wᵀ[K,O] · dyᵀ[O,N]
  const Gemm gemm{.m = s.inner, .n = s.samples, .k = s.outputs, .dtype = d.inputs[0].dtype};
  if (!has(d.inputs, 2))
    return with_padded(Padded::gradients, d, request, s, {}, 0,
                       descriptions_of(d, request, gemm, {.roles = {.a = 1, .b = 0}}, 0, *libraries), *libraries);
  return activated(d, request, gemm, {.roles = {.a = 1, .b = 0, .before_in = 2}}, CUBLASLT_EPILOGUE_DGELU, *libraries);
}

std::vector<KernelDescription> describe_inner_product_backward_weights(const KernelRequest& request, Libraries* libraries) {
  KernelDescription d =
      description_of(request, "cublaslt.inner_product_backward_weights", Layout::row_major(request.inputs[0].shape.rank()));
  d.inputs[0].layout = d.outputs[0].layout = shared_layout(request.inputs[0], request.outputs[0]);
  d.inputs[1].layout = Layout::row_major(2);
  if (!takes(d)) return {};
  const PaddedSizes s{d.inputs[0].shape[0], d.inputs[0].shape.elements() / d.inputs[0].shape[0], d.inputs[1].shape[1]};
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
  const Gemm gemm{.m = s.inner, .n = s.outputs, .k = s.samples, .transpose_b = true, .dtype = d.inputs[0].dtype};
  return with_padded(Padded::gradients_of_weights, d, request, s, f.instead, own_workspace,
                     descriptions_of(d, request, gemm, f, own_workspace, *libraries), *libraries);
}

}  // namespace tandem::cuda
