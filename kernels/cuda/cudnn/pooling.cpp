// Two-dimensional max pooling, channels last. It keeps the place of each maximum in its window as one byte. Averages are our own: on an
// H100 some of cuDNN 9.19's were wrong.
#include <limits>

#include "kernels/cuda/cudnn/kernel.h"
#include "kernels/cuda/libraries.h"

namespace tandem::cuda {
namespace {

constexpr std::string_view index_family = "cudnn.max_pool";
constexpr std::int64_t most_window = 127;  // places that a byte tells apart

}  // namespace

std::vector<KernelDescription> describe_cudnn_pooling(const KernelRequest& request, Libraries* libraries) {
  const bool backward = request.op == "MaxPoolBackward";
  const Operand& first = request.inputs[0];
  const Attributes& a = *request.attributes;
  if (first.shape.rank() != 4 || first.dtype == DType::float64 || !is_float(first.dtype)) return {};
  if (first.shape.elements() == 0) return {};
  const Ints kernel = a.ints("kernel_shape"), pads = a.ints("pads", Ints(4, 0));
  if (a.ints("dilations", Ints(2, 1)) != Ints(2, 1) || kernel[0] * kernel[1] > most_window) return {};
  const Window window{kernel, a.ints("strides", Ints(2, 1)), {pads[0], pads[1]}, {pads[2], pads[3]}, {1, 1}};

  const std::string family = backward ? "cudnn.max_pool_backward" : std::string(index_family);
  KernelDescription d = description_of(request, family, Layout::channels_last(4));
  d.inputs[0].layout = d.outputs[0].layout = Layout::channels_last(4);
  d.efficiency = 0.8;
  const DType dtype = first.dtype;
  for (const Operand* o : {&d.inputs[0], &d.outputs[0]})
    if (o->shape.elements() > std::numeric_limits<std::int32_t>::max()) return {};
  const Shape& whole = backward ? d.outputs[0].shape : d.inputs[0].shape;
  const Shape& pooled = backward ? d.inputs[0].shape : d.outputs[0].shape;
  // What ceil_mode added, cuDNN would have to be told as more padding: left to our own kernels.
  for (int i = 0; i < 2; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const std::int64_t floor = (whole[2 + i] + pads[k] + pads[k + 2] - kernel[k]) / window.strides[k] + 1;
    if (pooled[2 + i] != floor) return {};
  }
  const Operand index{DType::int8, pooled, Layout::opaque(index_family)};
  if (!backward) {
    if (d.outputs.size() < 2) return {};
    d.outputs[1] = index;
  } else if (d.inputs[1] != index) {
    return {};  // another family's
  }
  return descriptions_of({.family = family,
                          .description = d,
                          .build =
                              [=, in = d.inputs[0].shape.dims, out = d.outputs[0].shape.dims, pooled = pooled.dims] {
                                CudnnGraph g;
                                const auto x = g.tensor(dtype, in, input_role(0));
                                const auto y = g.tensor(dtype, out, output_role(0));
                                const auto places = g.tensor(DType::int8, pooled, backward ? input_role(1) : output_role(1));
                                if (backward)
                                  g.pool_backward(x, y, places, window);
                                else
                                  g.pool(x, y, places, window);
                                return g;
                              },
                          .filter = filter_of(request.options, DType::float16)},
                         request, *libraries);
}

}  // namespace tandem::cuda
