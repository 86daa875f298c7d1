// Two-dimensional pooling, channels last. Max pooling keeps the place of each maximum in its window as one byte.
#include <limits>

#include "kernels/cuda/cudnn/kernel.h"
#include "kernels/cuda/libraries.h"

namespace tandem::cuda {
namespace {

constexpr std::string_view index_family = "cudnn.max_pool";
constexpr std::int64_t most_window = 127;  // places that a byte tells apart

struct PoolingRow {
  std::string_view op;
  std::string_view family;
  bool maximum, backward;
};
constexpr PoolingRow pooling_rows[] = {
    {"MaxPoolTraining", "cudnn.max_pool", true, false},
    {"MaxPoolBackward", "cudnn.max_pool_backward", true, true},
    {"AveragePool", "cudnn.average_pool", false, false},
    {"AveragePoolBackward", "cudnn.average_pool_backward", false, true},
};

}  // namespace

std::vector<KernelDescription> describe_cudnn_pooling(const KernelRequest& request, Libraries* libraries) {
  const PoolingRow* row = nullptr;
  for (const PoolingRow& r : pooling_rows)
    if (r.op == request.op) row = &r;
  const Operand& first = request.inputs[0];
  const Attributes& a = *request.attributes;
  if (!row || first.shape.rank() != 4 || first.dtype == DType::float64 || !is_float(first.dtype)) return {};
  if (first.shape.elements() == 0) return {};
  const Ints kernel = a.ints("kernel_shape"), pads = a.ints("pads", Ints(4, 0));
  if (a.ints("dilations", Ints(2, 1)) != Ints(2, 1) || (row->maximum && kernel[0] * kernel[1] > most_window)) return {};
  const Window window{kernel, a.ints("strides", Ints(2, 1)), {pads[0], pads[1]}, {pads[2], pads[3]}, {1, 1}};
  // cuDNN 9.19's averages are wrong where an axis is padded on one side more than on the other.
  if (!row->maximum && window.pads_begin != window.pads_end) return {};

  KernelDescription d = description_of(request, row->family, Layout::channels_last(4));
  d.inputs[0].layout = d.outputs[0].layout = Layout::channels_last(4);
  d.efficiency = 0.8;
  const DType dtype = first.dtype;
  for (const Operand* o : {&d.inputs[0], &d.outputs[0]})
    if (o->shape.elements() > std::numeric_limits<std::int32_t>::max()) return {};
  const Shape& whole = row->backward ? d.outputs[0].shape : d.inputs[0].shape;
  const Shape& pooled = row->backward ? d.inputs[0].shape : d.outputs[0].shape;
  // What ceil_mode added, cuDNN would have to be told as more padding: left to our own kernels.
  for (int i = 0; i < 2; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const std::int64_t floor = (whole[2 + i] + pads[k] + pads[k + 2] - kernel[k]) / window.strides[k] + 1;
    if (pooled[2 + i] != floor) return {};
  }
  const Operand index{DType::int8, pooled, Layout::opaque(index_family)};
  if (row->maximum) {
    if (!row->backward) {
      if (d.outputs.size() < 2) return {};
      d.outputs[1] = index;
    } else if (d.inputs[1] != index) {
      return {};  // another family's
    }
  }
  const bool include_padding = a.integer("count_include_pad", 0) != 0 || pads == Ints(4, 0);
  const cudnnResampleMode_t mode = row->maximum      ? CUDNN_RESAMPLE_MAXPOOL
                                   : include_padding ? CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING
                                                     : CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
  return descriptions_of({.family = std::string(row->family),
                          .description = d,
                          .build =
                              [=, maximum = row->maximum, backward = row->backward, in = d.inputs[0].shape.dims,
                               out = d.outputs[0].shape.dims, pooled = pooled.dims] {
                                CudnnGraph g;
                                const auto x = g.tensor(dtype, in, input_role(0));
                                const auto y = g.tensor(dtype, out, output_role(0));
                                std::optional<CudnnGraph::TensorId> places;
                                if (maximum) places = g.tensor(DType::int8, pooled, backward ? input_role(1) : output_role(1));
                                if (backward)
                                  g.pool_backward(mode, x, y, places, window);
                                else
                                  g.pool(mode, x, y, places, window);
                                return g;
                              },
                          .filter = filter_of(request.options, DType::float16)},
                         request, *libraries);
}

}  // namespace tandem::cuda
