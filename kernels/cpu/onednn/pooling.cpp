// Pooling in x's own layout, forward and backward. Declined where oneDNN's meaning is not ONNX's: an average that counts
// padding counts, in oneDNN, also what ceil_mode appends beyond it.
#include <algorithm>
#include <cmath>

#include "graph/half.h"
#include "kernels/cpu/native/copy.h"
#include "kernels/cpu/native/dense.h"
#include "kernels/cpu/native/window.h"
#include "kernels/cpu/onednn/primitive.h"

namespace tandem::onednn {
namespace {

using dnnl::algorithm;
using dnnl::prop_kind;

struct Problem {
  Operand x, y;
  Window window;
  Dims dilations;  // oneDNN counts from 0
  Dims end;        // padding that the output's size implies
  bool beyond = false;  // ceil_mode reaches past the padding
};

std::optional<Problem> problem_of(const KernelRequest& request, const Operand& whole, const Operand& pooled) {
  const Shape &x = whole.shape, &y = pooled.shape;
  if (!float_operands(request) || x.rank() < 3 || x.rank() > 5) return std::nullopt;
  Problem p{whole, pooled, window_of(*request.attributes, request.attributes->ints("kernel_shape")), {}, {}, false};
  for (int i = 0; i < p.window.rank(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t needed = (y[i + 2] - 1) * p.window.strides[at] + p.window.reach(i) - x[i + 2] - p.window.begin[at];
    p.beyond = p.beyond || needed > p.window.end[at];
    p.end.push_back(std::max(needed, p.window.end[at]));
    p.dilations.push_back(p.window.dilations[at] - 1);
  }
  return p;
}

std::optional<algorithm> average(const KernelRequest& request, const Problem& p) {
  if (request.attributes->integer("count_include_pad", 0) == 0) return algorithm::pooling_avg_exclude_padding;
  if (p.beyond) return std::nullopt;
  return algorithm::pooling_avg_include_padding;
}

auto forward_of(const Problem& p, prop_kind kind, algorithm a, const Desc& x, const Desc& y) {
  return compat::describe<compat::Pooling>(cpu_engine(), attributes(), kind, a, x, y, p.window.strides, p.window.kernel, p.dilations,
                                           p.window.begin, p.end);
}

// The layouts worth trying: as the data lies, else as the preference says. One window to a plane lies in all layouts
// alike, or nearly so: then its gradient is best in the layout that the network before it likes.
std::vector<Layout> layouts(const KernelRequest& request, const Operand& data) {
  const Layout preferred = preferred_layout(data.shape.rank(), request.options);
  if (data.layout.any() || data.layout == preferred) return {preferred};
  const bool single = std::all_of(data.shape.begin() + 2, data.shape.end(), [](std::int64_t n) { return n == 1; });
  return single ? std::vector<Layout>{preferred, data.layout} : std::vector<Layout>{data.layout};
}

// y[o] = NaN where window o holds one, which the library's comparisons pass over.
template <class T>
Repair nan_of_windows(const Problem& p, const Layout& layout) {
  return [p, layout](const std::byte* in, std::byte* out) {
    // Where the elements of a sample's channel lie, and each channel of each sample.
    const auto offsets_of = [&](const Operand& o, int first, int last) {
      std::vector<std::int64_t> places{0};
      for (int axis = first; axis < last; ++axis) {
        std::vector<std::int64_t> all;
        for (const std::int64_t place : places)
          for (const std::int64_t offset : native::axis_offsets(o.shape, layout, axis)) all.push_back(place + offset);
        places = std::move(all);
      }
      return places;
    };
    const int rank = p.x.shape.rank();
    const native::Windows windows(p.x.shape, p.y.shape, p.window);
    const auto from = offsets_of(p.x, 2, rank), to = offsets_of(p.y, 2, rank), x_channels = offsets_of(p.x, 0, 2),
               y_channels = offsets_of(p.y, 0, 2);
    for (std::size_t c = 0; c < x_channels.size(); ++c) {
      const T* const x = reinterpret_cast<const T*>(in) + x_channels[c];
      T* const y = reinterpret_cast<T*>(out) + y_channels[c];
      for (std::int64_t o = 0; o < windows.outputs(); ++o)
        for (std::int64_t tap = 0; tap < windows.taps(); ++tap)
          if (const std::int64_t place = windows.place(o, tap);
              place >= 0 && std::isnan(number_as<float>(x[from[static_cast<std::size_t>(place)]])))
            y[to[static_cast<std::size_t>(o)]] = x[from[static_cast<std::size_t>(place)]];
    }
  };
}

std::vector<KernelDescription> forward(const KernelRequest& request, const std::string& kernel, const Problem& p, prop_kind kind,
                                       algorithm a) {
  const ThreadScope threads(request.options.threads);
  std::vector<KernelDescription> found;
  for (const Layout& layout : layouts(request, request.inputs[0])) {
    const auto x = to_desc(p.x, layout), y = to_desc(p.y, layout);
    if (!x || !y) continue;
    const auto pd = forward_of(p, kind, a, *x, *y);
    if (!pd) continue;
    Candidate c(request, kernel, pd);
    c.input(0, DNNL_ARG_SRC, pd.src_desc());
    c.output(0, DNNL_ARG_DST, pd.dst_desc());
    if (kind == prop_kind::forward_training && a == algorithm::pooling_max)
      c.opaque_output(1, DNNL_ARG_WORKSPACE, pd.workspace_desc(), layout);
    if (a == algorithm::pooling_max)
      c.repaired_by(p.x.dtype == DType::float32 ? nan_of_windows<float>(p, layout) : nan_of_windows<BFloat16>(p, layout));
    std::move(c).add_to(found);
  }
  return found;
}

// `mask`: the forward kernel's workspace, for the maximum.
std::vector<KernelDescription> backward(const KernelRequest& request, const std::string& kernel, const Problem& p, algorithm a,
                                        const Layout& layout, const Operand* mask) {
  const ThreadScope threads(request.options.threads);
  std::vector<KernelDescription> found;
  const auto x = to_desc(p.x, layout), y = to_desc(p.y, layout);
  if (!x || !y) return found;
  const auto hint = forward_of(p, prop_kind::forward_training, a, *x, *y);
  if (!hint) return found;
  if (mask && static_cast<std::int64_t>(hint.workspace_desc().get_size()) != mask->shape.elements()) return found;
  const dnnl::primitive_desc_base pd = compat::describe_backward<compat::PoolingBackward>(
      cpu_engine(), attributes(), hint, a, *x, *y, p.window.strides, p.window.kernel, p.dilations, p.window.begin, p.end);
  if (!pd) return found;
  Candidate c(request, kernel, pd);
  c.input(0, DNNL_ARG_DIFF_DST, *y);
  if (mask) c.input(1, DNNL_ARG_WORKSPACE, hint.workspace_desc(), mask->layout);
  c.output(0, DNNL_ARG_DIFF_SRC, *x);
  std::move(c).add_to(found);
  return found;
}

}  // namespace

std::vector<KernelDescription> describe_max_pool(const KernelRequest& request) {
  const bool training = request.op == "MaxPoolTraining";
  if (!training && request.outputs.size() > 1 && request.outputs[1].present()) return {};  // ONNX's Indices
  const auto p = problem_of(request, request.inputs[0], request.outputs[0]);
  if (!p) return {};
  return training ? forward(request, "onednn.max_pool_training", *p, prop_kind::forward_training, algorithm::pooling_max)
                  : forward(request, "onednn.max_pool", *p, prop_kind::forward_inference, algorithm::pooling_max);
}

std::vector<KernelDescription> describe_average_pool(const KernelRequest& request) {
  const auto p = problem_of(request, request.inputs[0], request.outputs[0]);
  const auto a = p ? average(request, *p) : std::nullopt;
  if (!a) return {};
  return forward(request, "onednn.average_pool", *p, prop_kind::forward_training, *a);
}

std::vector<KernelDescription> describe_max_pool_backward(const KernelRequest& request) {
  const Operand& mask = request.inputs[1];
  const std::optional<Layout> layout = data_layout(mask.layout);
  const auto p = problem_of(request, request.outputs[0], request.inputs[0]);
  if (!p || !layout) return {};
  return backward(request, "onednn.max_pool_backward", *p, algorithm::pooling_max, *layout, &mask);
}

std::vector<KernelDescription> describe_average_pool_backward(const KernelRequest& request) {
  const auto p = problem_of(request, request.outputs[0], request.inputs[0]);
  const auto a = p ? average(request, *p) : std::nullopt;
  if (!a) return {};
  std::vector<KernelDescription> found;
  for (const Layout& layout : layouts(request, request.inputs[0]))
    for (KernelDescription& d : backward(request, "onednn.average_pool_backward", *p, *a, layout, nullptr)) found.push_back(std::move(d));
  return found;
}

}  // namespace tandem::onednn
