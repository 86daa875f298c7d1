// BatchNormalization in x's own layout. With a fused Relu, training keeps a mask in the opaque output.
#include <algorithm>

#include "kernels/cpu/native/window.h"
#include "kernels/cpu/onednn/primitive.h"

namespace tandem::onednn {
namespace {

using Flags = dnnl::normalization_flags;

bool supported(const KernelRequest& request) {
  const int rank = request.inputs[0].shape.rank();
  // Scale, bias and statistics are float32 whatever x is.
  const auto wide = [](const Operand& o) { return o.shape.rank() != 1 || o.layout.opaque() || o.dtype != DType::bfloat16; };
  return float_operands(request) && request.attributes->text("activation", "Relu") == "Relu" && rank >= 2 && rank <= 5 &&
         std::all_of(request.inputs.begin(), request.inputs.end(), wide);
}

float epsilon_of(const KernelRequest& request) { return request.attributes->real("epsilon", 1e-5f); }

Flags flags_of(const KernelRequest& request) {
  const Flags flags = compat::use_scale_and_shift();
  return has_relu(*request.attributes) ? flags | Flags::fuse_norm_relu : flags;
}

// Flags: all but Relu's.
void unrectify(Candidate& c, const KernelRequest& request, dnnl::prop_kind kind, const Desc& x, Flags flags) {
  if (has_relu(*request.attributes))
    c.unrectified(compat::batch_normalization(cpu_engine(), attributes(), kind, x, epsilon_of(request), flags));
}

// The layout to work in: as x lies, else as the preference says.
Layout layout_of(const KernelRequest& request) {
  const Operand& x = request.inputs[0];
  if (!x.layout.any() && !x.layout.opaque()) return x.layout;
  return preferred_layout(x.shape.rank(), request.options);
}

Desc channels(const KernelRequest& request) { return *to_desc(Shape{request.inputs[0].shape[1]}, Layout::row_major(1)); }

void scale_and_shift(Candidate& c, const KernelRequest& request, int scale, int shift, bool reads_shift = true) {
  if (compat::scale_and_shift_are_joined) return c.joined_inputs(scale, shift, compat::arg_scale);
  c.input(scale, compat::arg_scale, channels(request));
  if (reads_shift) c.input(shift, compat::arg_shift, channels(request));
}

void scale_and_shift_gradients(Candidate& c, const KernelRequest& request, int scale, int shift) {
  if (compat::scale_and_shift_are_joined) return c.joined_outputs(scale, shift, compat::arg_diff_scale);
  c.output(scale, compat::arg_diff_scale, channels(request));
  c.output(shift, compat::arg_diff_shift, channels(request));
}

}  // namespace

std::vector<KernelDescription> describe_batch_normalization(const KernelRequest& request) {
  if (!supported(request)) return {};
  const ThreadScope threads(request.options.threads);
  const auto x = to_desc(request.inputs[0], layout_of(request));
  if (!x) return {};
  const auto pd = compat::batch_normalization(cpu_engine(), attributes(), dnnl::prop_kind::forward_inference, *x, epsilon_of(request),
                                              flags_of(request) | Flags::use_global_stats);
  std::vector<KernelDescription> found;
  if (!pd) return found;
  Candidate c(request, "onednn.batch_normalization", pd);
  unrectify(c, request, dnnl::prop_kind::forward_inference, *x, compat::use_scale_and_shift() | Flags::use_global_stats);
  c.input(0, DNNL_ARG_SRC, *x);
  scale_and_shift(c, request, 1, 2);
  c.input(3, DNNL_ARG_MEAN, channels(request));
  c.input(4, DNNL_ARG_VARIANCE, channels(request));
  c.output(0, DNNL_ARG_DST, *x);
  if (c && !has_relu(*request.attributes)) c.description().in_place = {{0, 0}};  // x is read again where Relu meets a NaN
  std::move(c).add_to(found);
  return found;
}

std::vector<KernelDescription> describe_batch_normalization_training(const KernelRequest& request) {
  // no implementation adds another tensor, or takes sums
  if (!supported(request) || request.inputs.size() > 3 || !request.outputs[2].present()) return {};
  const ThreadScope threads(request.options.threads);
  const Layout layout = layout_of(request);
  const auto x = to_desc(request.inputs[0], layout);
  if (!x) return {};
  const auto pd = compat::batch_normalization(cpu_engine(), attributes(), dnnl::prop_kind::forward_training, *x, epsilon_of(request),
                                              flags_of(request));
  std::vector<KernelDescription> found;
  if (!pd) return found;
  Candidate c(request, "onednn.batch_normalization_training", pd);
  unrectify(c, request, dnnl::prop_kind::forward_training, *x, compat::use_scale_and_shift());
  c.input(0, DNNL_ARG_SRC, *x);
  scale_and_shift(c, request, 1, 2);
  c.output(0, DNNL_ARG_DST, *x);
  c.output(1, DNNL_ARG_MEAN, channels(request));
  c.output(2, DNNL_ARG_VARIANCE, channels(request));
  c.opaque_output(3, DNNL_ARG_WORKSPACE, pd.workspace_desc(), layout);
  std::move(c).add_to(found);
  return found;
}

std::vector<KernelDescription> describe_batch_normalization_backward(const KernelRequest& request) {
  if (!supported(request) || !request.inputs[5].present() || request.inputs.size() > 8) return {};  // no implementation sums gradients
  const Operand& opaque = request.inputs[6];
  const std::optional<Layout> layout = data_layout(opaque.layout);
  if (!layout) return {};
  const ThreadScope threads(request.options.threads);
  const auto x = to_desc(request.inputs[0], *layout);
  if (!x) return {};
  const auto forward = compat::batch_normalization(cpu_engine(), attributes(), dnnl::prop_kind::forward_training, *x, epsilon_of(request),
                                                   flags_of(request));
  if (!forward || static_cast<std::int64_t>(forward.workspace_desc().get_size()) != opaque.shape.elements()) return {};
  const auto pd = compat::batch_normalization_backward(cpu_engine(), attributes(), forward, *x, epsilon_of(request), flags_of(request));
  std::vector<KernelDescription> found;
  if (!pd) return found;
  Candidate c(request, "onednn.batch_normalization_backward", pd);
  c.input(0, DNNL_ARG_SRC, *x);
  c.input(1, DNNL_ARG_DIFF_DST, *x);
  scale_and_shift(c, request, 2, 3, compat::batch_normalization_backward_reads_shift);
  c.input(4, DNNL_ARG_MEAN, channels(request));
  c.input(5, DNNL_ARG_VARIANCE, channels(request));
  if (opaque.shape.elements() > 0) c.input(6, DNNL_ARG_WORKSPACE, forward.workspace_desc(), opaque.layout);
  c.output(0, DNNL_ARG_DIFF_SRC, *x);
  scale_and_shift_gradients(c, request, 1, 2);
  if (c) c.description().in_place = {{0, 1}};
  std::move(c).add_to(found);
  return found;
}

}  // namespace tandem::onednn
