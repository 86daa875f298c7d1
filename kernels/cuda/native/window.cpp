// A node's attributes as the geometry of a window over three spatial axes.
#include "kernels/cuda/native/window.h"

#include <span>

#include "kernels/cuda/native/nest.h"

namespace tandem::cuda {

std::optional<WindowGeometry> window_geometry(const Attributes& a, const Shape& x, const Shape& y) {
  const auto n = static_cast<std::size_t>(x.rank() - 2);
  if (n < 1 || n > 3) return std::nullopt;
  WindowGeometry g;
  for (int d = 0; d < 3; ++d) {
    g.input[d] = g.output[d] = g.kernel[d] = g.stride[d] = g.dilation[d] = 1;
    g.begin[d] = g.end[d] = 0;
    g.by_stride[d] = g.by_dilation[d] = divider(1);
  }
  const Ints kernel = a.ints("kernel_shape"), strides = a.ints("strides", Ints(n, 1)), pads = a.ints("pads", Ints(2 * n, 0)),
             dilations = a.ints("dilations", Ints(n, 1));
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t d = 3 - n + i;
    const auto narrow = [](std::int64_t v) { return static_cast<std::int32_t>(v); };
    g.input[d] = narrow(x.dims[2 + i]);
    g.output[d] = narrow(y.dims[2 + i]);
    g.kernel[d] = narrow(kernel[i]);
    g.stride[d] = narrow(strides[i]);
    g.begin[d] = narrow(pads[i]);
    g.end[d] = narrow(pads[n + i]);
    g.dilation[d] = narrow(dilations[i]);
    g.by_stride[d] = divider(strides[i]);
    g.by_dilation[d] = divider(dilations[i]);
  }
  const auto numbered = [](const auto& sizes) {
    std::int64_t places = 1;
    for (const std::int64_t size : sizes)
      places = size >= std::int64_t{1} << 31 || places * size >= std::int64_t{1} << 31 ? std::int64_t{1} << 31 : places * size;
    return places < std::int64_t{1} << 31;
  };
  return numbered(std::span(x.dims).subspan(2)) && numbered(std::span(y.dims).subspan(2)) && numbered(kernel) ? std::optional(g)
                                                                                                              : std::nullopt;
}

std::optional<KernelDescription> channels_last_description(const KernelRequest& request, std::string_view kernel) {
  const int rank = request.inputs[0].shape.rank();
  if (rank < 2 || !is_storage_float(request.inputs[0].dtype)) return std::nullopt;
  KernelDescription d = description_of(request, kernel, Layout::channels_last(rank));
  for (std::vector<Operand>* operands : {&d.inputs, &d.outputs})
    for (Operand& o : *operands)
      if (o.present() && !o.layout.opaque() && o.shape.rank() == rank) o.layout = Layout::channels_last(rank);
  d.efficiency = 0.4;
  return d;
}

}  // namespace tandem::cuda
