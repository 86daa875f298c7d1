// Batch normalization as launches: moments by tiles of the matrix [pixels, channels], what follows from them, its application.
#include "kernels/cuda/native/batch_normalization.h"

#include <algorithm>

#include "kernels/cuda/bodies/batch_normalization.h"
#include "kernels/cuda/native/launches.h"

namespace tandem::cuda {
namespace {

constexpr std::string_view family = "inverse_deviation";

struct Matrix {
  std::int64_t rows, channels, splits, tiles;
};
Matrix matrix_of(const Shape& shape) {
  constexpr std::int64_t most_blocks = 132 * 4, least_rows = 8 * channel_rows;
  Matrix m;
  m.channels = shape[1];
  m.rows = m.channels == 0 ? 0 : shape.elements() / m.channels;
  m.tiles = ceil_div(m.channels, channel_columns);
  m.splits = std::clamp<std::int64_t>(most_blocks / std::max<std::int64_t>(1, m.tiles), 1, std::max<std::int64_t>(1, m.rows / least_rows));
  return m;
}

bool relu_or_none(const Attributes& a) {
  const std::string activation = a.text("activation", "");
  return activation.empty() || activation == "Relu";
}
bool relu_of(const Attributes& a) { return a.text("activation", "") == "Relu"; }

// Rank 1 operands in their own layout, the others channels last; one floating-point type for x, y and gradients, one
// for scale, bias and statistics: float32, or x's own where that is wider.
bool settle(KernelDescription& d, const Attributes& attributes, std::string_view kernel) {
  const Operand& x = d.inputs[0];
  const int rank = x.shape.rank();
  if (rank < 2 || !is_storage_float(x.dtype) || !relu_or_none(attributes)) return false;
  const DType statistics = x.dtype == DType::float64 ? DType::float64 : DType::float32;
  d.kernel = std::string(kernel);
  for (std::vector<Operand>* operands : {&d.inputs, &d.outputs})
    for (Operand& o : *operands) {
      if (o.shape.rank() == rank && o.dtype == x.dtype)
        o.layout = Layout::channels_last(rank);
      else if (o.present() && !o.layout.opaque() && o.dtype != statistics)
        return false;
    }
  d.efficiency = 0.7;
  return true;
}

Operand opaque_of(DType x, std::int64_t channels) { return {x == DType::float64 ? DType::float64 : DType::float32, Shape{channels}, Layout::opaque(family)}; }
Operand opaque_of(const Operand& x) { return opaque_of(x.dtype, x.shape[1]); }

template <class F>
auto visit_norm(DType dtype, F&& f) {
  return visit_storage(dtype, [&]<class T>() { return f.template operator()<T, std::conditional_t<std::is_same_v<T, double>, double, float>>(); });
}

// 16 bytes at a time where the channels fill them.
template <class T, class S>
Launches normalize(const Normalization<T, S>& n, const Matrix& m) {
  constexpr int width = 16 / sizeof(T);
  const auto packed = [&]<int w>(std::integral_constant<int, w>) {
    const std::int64_t packs = m.rows * m.channels / w;
    return launches_of(NormalizeBody<T, S, w>{n, packs, static_cast<std::int32_t>(m.channels / w)}, blocks_for(packs, NormalizeBody<T, S, w>::threads));
  };
  return m.channels % width == 0 ? packed(std::integral_constant<int, width>()) : packed(std::integral_constant<int, 1>());
}

}  // namespace

std::optional<KernelDescription> batch_norm_description(const KernelRequest& request, std::string_view kernel) {
  KernelDescription d = description_of(request, kernel, layout_of(request, request.inputs[0].shape.rank()));
  if (d.outputs.size() < 4) return std::nullopt;
  d.outputs[3] = opaque_of(d.inputs[0]);
  if (!settle(d, *request.attributes, kernel)) return std::nullopt;
  return d;
}

std::optional<KernelDescription> batch_norm_backward_description(const KernelRequest& request, std::string_view kernel) {
  KernelDescription d = description_of(request, kernel, layout_of(request, request.inputs[0].shape.rank()));
  if (d.inputs.size() < 7 || d.inputs[6] != opaque_of(d.inputs[0])) return std::nullopt;
  if (!settle(d, *request.attributes, kernel)) return std::nullopt;
  return d;
}

Binder variance_binder(std::int64_t channels, float epsilon) {
  return [=](const Buffers& b) {
    return launches_of(VarianceBody{reinterpret_cast<const float*>(b.outputs[3]), b.out<float>(2), static_cast<std::int32_t>(channels), epsilon}, ceil_div(channels, VarianceBody::threads));
  };
}

std::optional<ChannelSums> channel_sums_of(const KernelRequest& request) {
  if (!has(request.outputs, 1)) return std::nullopt;
  ChannelSums sums{request, {request.outputs.begin() + 1, request.outputs.end()}, 0, {}};
  sums.request.outputs.resize(1);
  for (Operand& o : sums.outputs) o.layout = Layout::row_major(1);
  const Matrix m = matrix_of(request.outputs[0].shape);
  visit_norm(request.outputs[0].dtype, [&]<class T, class S>() {
    sums.workspace = align_up(m.splits * m.channels * static_cast<std::int64_t>(sizeof(Moments<S>)));
    sums.bind = [m](const Buffers& b) -> Launches {
      auto* const partial = reinterpret_cast<Moments<S>*>(b.workspace);
      const auto channels = static_cast<std::int32_t>(m.channels), splits = static_cast<std::int32_t>(m.splits);
      const Launches moments = launches_of(MomentsBody<T>{b.out<T>(0), partial, m.rows, channels, splits}, m.tiles * m.splits);
      const Launches last = launches_of(ChannelSumsBody<S>{partial, b.out<S>(1), b.out<S>(2), channels, splits}, ceil_div(m.channels, ChannelSumsBody<S>::threads));
      return [=](void* stream) {
        moments(stream);
        last(stream);
      };
    };
  });
  return sums;
}

Descriptions describe_batch_norm_training(const KernelRequest& request, Libraries*) {
  std::optional<KernelDescription> d = batch_norm_description(request, "native.batch_norm");
  if (!d) return {};
  const Matrix m = matrix_of(d->inputs[0].shape);
  const float epsilon = request.attributes->real("epsilon", 1e-5F);
  const bool relu = relu_of(*request.attributes), summed = has(d->inputs, 4);
  visit_norm(d->inputs[0].dtype, [&]<class T, class S>() {
    d->workspace = summed ? 0 : align_up(m.splits * m.channels * static_cast<std::int64_t>(sizeof(Moments<S>)));
    d->make = launches([=](const Buffers& b) -> Launches {
      const auto channels = static_cast<std::int32_t>(m.channels), splits = static_cast<std::int32_t>(m.splits);
      const Launches apply = normalize(Normalization<T, S>{b.in<T>(0), b.in<T>(3), b.out<T>(0), b.in<S>(1), b.in<S>(2), b.out<S>(1), b.out<S>(2), b.out<S>(3), epsilon, relu}, m);
      const std::int64_t blocks = ceil_div(m.channels, StatisticsBody<S>::threads);
      if (summed) {
        const Launches statistics =
            launches_of(SummedStatisticsBody<T, S>{b.in<S>(4), b.in<S>(5), b.in<S>(1), b.in<S>(2), b.out<S>(1), b.out<S>(2), b.out<S>(3), nullptr, nullptr, m.rows, channels, epsilon}, blocks);
        return [=](void* stream) {
          statistics(stream);
          apply(stream);
        };
      }
      auto* const partial = reinterpret_cast<Moments<S>*>(b.workspace);
      const Launches moments = launches_of(MomentsBody<T>{b.in<T>(0), partial, m.rows, channels, splits}, m.tiles * m.splits);
      const Launches statistics = launches_of(StatisticsBody<S>{partial, b.out<S>(1), b.out<S>(2), b.out<S>(3), channels, splits, epsilon}, blocks);
      return [=](void* stream) {
        moments(stream);
        statistics(stream);
        apply(stream);
      };
    });
  });
  return {*d};
}

Descriptions describe_batch_norm_factors(const KernelRequest& request, Libraries*) {
  KernelDescription d = description_of(request, "native.batch_norm_factors", Layout::row_major(1));
  const DType type = d.outputs[3].dtype;
  if (!is_storage_float(type)) return {};
  const auto channels = static_cast<std::int32_t>(d.inputs[0].shape[0]);
  const std::int64_t count = request.attributes->integer("count");
  const float epsilon = request.attributes->real("epsilon", 1e-5F);
  d.outputs[2] = opaque_of(type, channels);
  for (const Operand& o : d.inputs)
    if (o.dtype != d.outputs[2].dtype) return {};
  visit_norm(type, [&]<class T, class S>() {
    using Body = SummedStatisticsBody<T, S>;
    d.make = launches([=](const Buffers& b) {
      return launches_of(Body{b.in<S>(0), b.in<S>(1), b.in<S>(2), b.in<S>(3), b.out<S>(0), b.out<S>(1), b.out<S>(2), b.out<T>(3), b.out<T>(4), count, channels, epsilon}, ceil_div(channels, Body::threads));
    });
  });
  return {d};
}

std::optional<NormalizedInput> normalized_input_of(const KernelRequest& request, std::size_t factor) {
  if (!has(request.inputs, factor)) return std::nullopt;
  const Operand& x = request.inputs[0];
  NormalizedInput n{align_up(x.shape.elements() * static_cast<std::int64_t>(size_of(x.dtype))), {}};
  visit_storage(x.dtype, [&]<class T>() {
    n.bind = [m = matrix_of(x.shape), factor](const Buffers& b) {
      return normalize(Normalization<T, T>{b.in<T>(0), nullptr, reinterpret_cast<T*>(b.workspace), b.in<T>(factor), b.in<T>(factor + 1), nullptr, nullptr, nullptr, 0, true}, m);
    };
  });
  return n;
}

Descriptions describe_batch_norm_backward(const KernelRequest& request, Libraries*) {
  std::optional<KernelDescription> d = batch_norm_backward_description(request, "native.batch_norm_backward");
  if (!d) return {};
  const Matrix m = matrix_of(d->inputs[0].shape);
  const bool relu = relu_of(*request.attributes);
  visit_norm(d->inputs[0].dtype, [&]<class T, class S>() {
    d->workspace = align_up(2 * m.splits * m.channels * static_cast<std::int64_t>(sizeof(S)));
    d->make = launches([=](const Buffers& b) -> Launches {
      auto* const partial = reinterpret_cast<S*>(b.workspace);
      const auto channels = static_cast<std::int32_t>(m.channels), splits = static_cast<std::int32_t>(m.splits);
      const NormInput<T, S> in{b.in<T>(0), b.in<T>(1), b.in<T>(7), b.in<S>(2), b.in<S>(3), b.in<S>(4), b.in<S>(6), relu};
      const Launches sums = launches_of(NormSumsBody<T, S>{in, partial, m.rows, channels, splits}, m.tiles * m.splits);
      const Launches scale = launches_of(NormScaleBody<S>{partial, b.out<S>(1), b.out<S>(2), channels, splits}, ceil_div(m.channels, NormScaleBody<S>::threads));
      const Launches gradient = launches_of(NormGradientBody<T, S>{in, b.out<S>(1), b.out<S>(2), b.out<T>(0), b.out<T>(3), m.rows, channels}, blocks_for(m.rows * m.channels, NormGradientBody<T, S>::threads));
      return [=](void* stream) {
        sums(stream);
        scale(stream);
        gradient(stream);
      };
    });
  });
  return {*d};
}

Descriptions describe_batch_norm_inference(const KernelRequest& request, Libraries*) {
  KernelDescription d = description_of(request, "native.batch_norm_inference", layout_of(request, request.inputs[0].shape.rank()));
  if (!settle(d, *request.attributes, "native.batch_norm_inference")) return {};
  const Matrix m = matrix_of(d.inputs[0].shape);
  const float epsilon = request.attributes->real("epsilon", 1e-5F);
  const bool relu = relu_of(*request.attributes);
  d.in_place = {{0, 0}};
  visit_norm(d.inputs[0].dtype, [&]<class T, class S>() {
    d.make = launches([=](const Buffers& b) {
      return normalize(Normalization<T, S>{b.in<T>(0), nullptr, b.out<T>(0), b.in<S>(1), b.in<S>(2), b.in<S>(3), b.in<S>(4), nullptr, epsilon, relu}, m);
    });
  });
  return {d};
}

Descriptions describe_running_statistics(const KernelRequest& request, Libraries*) {
  KernelDescription d;
  d.kernel = "native.running_statistics";
  d.inputs = request.inputs;
  d.outputs = request.outputs;
  const Operand& running = request.inputs[0];
  if (running.dtype != DType::float32 && running.dtype != DType::float64) return {};
  const Layout layout = running.layout.any() ? Layout::row_major(running.shape.rank()) : running.layout;
  d.inputs[0].layout = d.inputs[1].layout = d.outputs[0].layout = layout;
  if (has(d.inputs, 2)) d.inputs[2].layout = Layout::row_major(1);
  d.in_place = {{0, 0}};
  visit_float(running.dtype, [&]<class T>() {
    d.make = launches([elements = physical_elements(running.shape, layout), momentum = static_cast<double>(request.attributes->real("momentum"))](const Buffers& b) -> Launches {
      const RunningBody<T> body{b.in<T>(0), b.in<T>(1), b.out<T>(0), elements, momentum, b.in<StepScalars>(2)};
      return [body, blocks = blocks_for(elements, RunningBody<T>::threads)](void* stream) { launch(body, blocks, stream); };
    });
  });
  return {d};
}

}  // namespace tandem::cuda
