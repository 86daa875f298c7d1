// Local response normalisation across channels, in x's own layout.
#include "kernels/cpu/onednn/primitive.h"

namespace tandem::onednn {
namespace {

using dnnl::prop_kind;

auto forward_of(const KernelRequest& request, prop_kind kind, const Desc& x) {
  const Attributes& a = *request.attributes;
  return compat::lrn(cpu_engine(), attributes(), kind, x, a.integer("size"), a.real("alpha", 1e-4f), a.real("beta", 0.75f),
                     a.real("bias", 1.f));
}

// oneDNN centres the window; ONNX's is centred too only where its size is odd.
bool supported(const KernelRequest& request) {
  const int rank = request.inputs[0].shape.rank();
  return float_operands(request) && rank >= 2 && rank <= 5 && request.attributes->integer("size") % 2 == 1;
}

}  // namespace

std::vector<KernelDescription> describe_lrn(const KernelRequest& request) {
  if (!supported(request)) return {};
  const bool training = request.op == "LRNTraining";
  const ThreadScope threads(request.options.threads);
  const Operand& x = request.inputs[0];
  // Row-major, 16-bit operands have the reference loop only.
  const Layout open = has_16_bit(request) ? preferred_layout(x.shape.rank(), request.options) : Layout::row_major(x.shape.rank());
  const Layout layout = x.layout.any() ? open : x.layout;
  const auto desc = to_desc(x, layout);
  if (!desc) return {};
  const auto pd = forward_of(request, training ? prop_kind::forward_training : prop_kind::forward_inference, *desc);
  std::vector<KernelDescription> found;
  if (!pd) return found;
  Candidate c(request, training ? "onednn.lrn_training" : "onednn.lrn", pd);
  c.input(0, DNNL_ARG_SRC, *desc);
  c.output(0, DNNL_ARG_DST, *desc);
  if (training) c.opaque_output(1, DNNL_ARG_WORKSPACE, pd.workspace_desc(), layout);
  std::move(c).add_to(found);
  return found;
}

std::vector<KernelDescription> describe_lrn_backward(const KernelRequest& request) {
  if (!supported(request)) return {};
  const ThreadScope threads(request.options.threads);
  const Operand &x = request.inputs[0], &opaque = request.inputs[3];
  const std::optional<Layout> layout = data_layout(opaque.layout);
  const auto desc = layout ? to_desc(x, *layout) : std::nullopt;
  if (!desc) return {};
  const auto hint = forward_of(request, prop_kind::forward_training, *desc);
  if (!hint || static_cast<std::int64_t>(hint.workspace_desc().get_size()) != opaque.shape.elements()) return {};
  const Attributes& a = *request.attributes;
  const auto pd = compat::lrn_backward(cpu_engine(), attributes(), hint, *desc, a.integer("size"), a.real("alpha", 1e-4f),
                                       a.real("beta", 0.75f), a.real("bias", 1.f));
  std::vector<KernelDescription> found;
  if (!pd) return found;
  Candidate c(request, "onednn.lrn_backward", pd);
  c.input(0, DNNL_ARG_SRC, *desc);
  c.input(1, DNNL_ARG_DST, *desc);
  c.input(2, DNNL_ARG_DIFF_DST, *desc);
  if (opaque.shape.elements() > 0) c.input(3, DNNL_ARG_WORKSPACE, hint.workspace_desc(), opaque.layout);
  c.output(0, DNNL_ARG_DIFF_SRC, *desc);
  std::move(c).add_to(found);
  return found;
}

}  // namespace tandem::onednn
