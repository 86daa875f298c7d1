// Batch normalization as launches: moments by tiles of the matrix [pixels, channels], what follows from them, its application.
#include "kernels/cuda/native/batch_normalization.h"

#include "graph/updates.h"
#include "kernels/cuda/bodies/batch_normalization.h"
#include "kernels/cuda/bodies/channel_statistics.h"
#include "kernels/cuda/native/channel_tiles.h"
#include "kernels/cuda/native/launches.h"
#include "kernels/cuda/native/tensor_tables.h"

namespace tandem::cuda {
namespace {

constexpr std::string_view family = "inverse_deviation";

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

// How many times the operands move.
double normalization_passes(const KernelRequest& request) {
  const bool backward = request.op == "BatchNormalizationBackward";
  const std::size_t statistics = 4, y = 7, other = 8, addend = 3;
  if (!backward) return has(request.inputs, statistics) ? 1 : has(request.inputs, addend) ? 4.0 / 3 : 1.5;  // x once more
  const double sums = 2 + has(request.inputs, y) + has(request.inputs, other), written = has(request.outputs, addend);
  // Behind the sums x is read again, and what flows in: by itself where it was written, else all that it is made of.
  return (sums + written + (written > 0 ? 2 : sums) + 1) / (sums + written + 1);
}

Operand opaque_of(DType x, std::int64_t channels) {
  return {x == DType::float64 ? DType::float64 : DType::float32, Shape{channels}, Layout::opaque(family)};
}
Operand opaque_of(const Operand& x) { return opaque_of(x.dtype, x.shape[1]); }

template <class F>
auto visit_norm(DType dtype, F&& f) {
  return visit_storage(dtype,
                       [&]<class T>() { return f.template operator()<T, std::conditional_t<std::is_same_v<T, double>, double, float>>(); });
}

Groups each_channel(const ChannelMatrix& m) { return {static_cast<std::int32_t>(m.channels), 1}; }

template <class T, class S>
Launches normalize(Normalization<T, S> n, const ChannelMatrix& m) {
  n.groups = each_channel(m);
  return visit_width<T>(m.channels, [&]<int width>() {
    const ChannelTiles tiles = tiles_of(m, width);
    return launches_of(NormalizeBody<T, S, width>{tiles, n}, blocks_of(tiles));
  });
}

// Sums of each block's rows, and then `statistics`, whose tiles and partial sums are filled in.
template <class T>
Launches statistics(const ChannelMatrix& m, const T* x, std::byte* workspace, StatisticsBody<Compute<T>> end) {
  return visit_width<T>(m.channels, [&]<int width>() {
    const ChannelTiles tiles = tiles_of(m, width);
    end.tiles = tiles;
    end.partial = reinterpret_cast<Compute<T>*>(workspace);
    end.channels = static_cast<std::int32_t>(m.channels);
    return in_turn({launches_of(MomentsBody<T, width>{tiles, x, reinterpret_cast<Compute<T>*>(workspace)}, blocks_of(tiles)),
                    launches_of(end, ceil_div(m.channels, finish_columns))});
  });
}
template <class T>
std::int64_t statistics_workspace(const ChannelMatrix& m) {
  return align_up(std::int64_t{tiles_of<T>(m).splits} * 3 * m.channels * static_cast<std::int64_t>(sizeof(Compute<T>)));
}

}  // namespace

std::optional<KernelDescription> batch_normalization_description(const KernelRequest& request, std::string_view kernel) {
  KernelDescription d = description_of(request, kernel, layout_of(request, request.inputs[0].shape.rank()));
  if (d.outputs.size() < 4) return std::nullopt;
  d.outputs[3] = opaque_of(d.inputs[0]);
  if (!settle(d, *request.attributes, kernel)) return std::nullopt;
  d.passes = normalization_passes(request);
  return d;
}

std::optional<KernelDescription> batch_normalization_backward_description(const KernelRequest& request, std::string_view kernel) {
  KernelDescription d = description_of(request, kernel, layout_of(request, request.inputs[0].shape.rank()));
  if (d.inputs.size() < 7 || d.inputs[6] != opaque_of(d.inputs[0])) return std::nullopt;
  if (!settle(d, *request.attributes, kernel)) return std::nullopt;
  d.passes = normalization_passes(request);
  return d;
}

Binder variance_binder(std::int64_t channels, float epsilon) {
  return [=](const Buffers& b) {
    return launches_of(
        VarianceBody{reinterpret_cast<const float*>(b.outputs[3]), b.out<float>(2), static_cast<std::int32_t>(channels), epsilon},
        ceil_div(channels, VarianceBody::threads));
  };
}

std::optional<ChannelSums> channel_sums_of(const KernelRequest& request) {
  if (!has(request.outputs, 1)) return std::nullopt;
  ChannelSums sums{request, {request.outputs.begin() + 1, request.outputs.end()}, 0, {}};
  sums.request.outputs.resize(1);
  for (Operand& o : sums.outputs) o.layout = Layout::row_major(1);
  const ChannelMatrix m = as_one(request.outputs[0].shape, request.options);
  visit_norm(request.outputs[0].dtype, [&]<class T, class S>() {
    sums.workspace = statistics_workspace<T>(m);
    sums.bind = [m](const Buffers& b) { return statistics<T>(m, b.out<T>(0), b.workspace, {.sum = b.out<S>(1), .squares = b.out<S>(2)}); };
  });
  return sums;
}

Descriptions describe_batch_normalization_training(const KernelRequest& request, Libraries*) {
  std::optional<KernelDescription> d = batch_normalization_description(request, "native.batch_normalization_training");
  if (!d) return {};
  const ChannelMatrix m = as_one(d->inputs[0].shape, request.options);
  const float epsilon = request.attributes->real("epsilon", 1e-5F);
  const bool relu = relu_of(*request.attributes), summed = has(d->inputs, 4);
  visit_norm(d->inputs[0].dtype, [&]<class T, class S>() {
    d->workspace = summed ? 0 : statistics_workspace<T>(m);
    d->make = launches([=](const Buffers& b) -> Launches {
      const Launches apply = normalize(
          Normalization<T, S>{
              b.in<T>(0), b.in<T>(3), b.out<T>(0), b.in<S>(1), b.in<S>(2), b.out<S>(1), b.out<S>(2), b.out<S>(3), epsilon, relu, {}},
          m);
      if (!summed)
        return in_turn({statistics<T>(m, b.in<T>(0), b.workspace,
                                      {.mean = b.out<S>(1), .variance = b.out<S>(2), .inverse_deviation = b.out<S>(3), .epsilon = epsilon}),
                        apply});
      const SummedStatisticsBody<T, S> body{b.in<S>(4),
                                            b.in<S>(5),
                                            b.in<S>(1),
                                            b.in<S>(2),
                                            b.out<S>(1),
                                            b.out<S>(2),
                                            b.out<S>(3),
                                            nullptr,
                                            nullptr,
                                            m.rows,
                                            static_cast<std::int32_t>(m.channels),
                                            epsilon};
      return in_turn({launches_of(body, ceil_div(m.channels, body.threads)), apply});
    });
  });
  return {*d};
}

Descriptions describe_batch_normalization_factors(const KernelRequest& request, Libraries*) {
  KernelDescription d = description_of(request, "native.batch_normalization_factors", Layout::row_major(1));
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
      return launches_of(Body{b.in<S>(0), b.in<S>(1), b.in<S>(2), b.in<S>(3), b.out<S>(0), b.out<S>(1), b.out<S>(2), b.out<T>(3),
                              b.out<T>(4), count, channels, epsilon},
                         ceil_div(channels, Body::threads));
    });
  });
  return {d};
}

std::optional<NormalizedInput> normalized_input_of(const KernelRequest& request, std::size_t factor) {
  if (!has(request.inputs, factor)) return std::nullopt;
  const Operand& x = request.inputs[0];
  NormalizedInput n{align_up(x.shape.elements() * static_cast<std::int64_t>(size_of(x.dtype))), {}};
  visit_storage(x.dtype, [&]<class T>() {
    n.bind = [m = as_one(x.shape, request.options), factor](const Buffers& b) {
      return normalize(Normalization<T, T>{b.in<T>(0),
                                           nullptr,
                                           reinterpret_cast<T*>(b.workspace),
                                           b.in<T>(factor),
                                           b.in<T>(factor + 1),
                                           nullptr,
                                           nullptr,
                                           nullptr,
                                           0,
                                           true,
                                           {}},
                       m);
    };
  });
  return n;
}

Descriptions describe_batch_normalization_backward(const KernelRequest& request, Libraries*) {
  std::optional<KernelDescription> d = batch_normalization_backward_description(request, "native.batch_normalization_backward");
  if (!d) return {};
  const ChannelMatrix m = as_one(d->inputs[0].shape, request.options);
  const bool relu = relu_of(*request.attributes);
  visit_norm(d->inputs[0].dtype, [&]<class T, class S>() {
    d->workspace = align_up(2 * std::int64_t{tiles_of<T>(m).splits} * m.channels * static_cast<std::int64_t>(sizeof(S)));
    d->make = launches([=](const Buffers& b) {
      auto* const partial = reinterpret_cast<S*>(b.workspace);
      const NormInput<T> in{b.in<T>(0), b.in<T>(1), b.in<T>(7), b.in<S>(2),      b.in<S>(3),
                            b.in<S>(4), b.in<S>(6), relu,       each_channel(m), b.in<T>(8)};
      NormInput<T> again = in;  // what the first pass leaves is read in place of all that it is made of
      if (T* const daddend = b.out<T>(3)) {
        again.dy = daddend;
        again.y = again.other = nullptr;
        again.relu = false;
      }
      return visit_width<T>(m.channels, [&]<int width>() {
        const ChannelTiles tiles = tiles_of(m, width);
        return in_turn(
            {launches_of(NormSumsBody<T, width>{tiles, in, partial, b.out<T>(3)}, blocks_of(tiles)),
             launches_of(PairSumsBody<S>{partial, b.out<S>(1), b.out<S>(2), m.channels, tiles.splits},
                         ceil_div(2 * m.channels, finish_columns)),
             launches_of(NormGradientBody<T, width>{tiles, again, b.out<S>(1), b.out<S>(2), nullptr, b.out<T>(0)}, blocks_of(tiles))});
      });
    });
  });
  return {*d};
}

Descriptions describe_batch_normalization(const KernelRequest& request, Libraries*) {
  KernelDescription d = description_of(request, "native.batch_normalization", layout_of(request, request.inputs[0].shape.rank()));
  if (!settle(d, *request.attributes, "native.batch_normalization")) return {};
  const ChannelMatrix m = as_one(d.inputs[0].shape, request.options);
  const float epsilon = request.attributes->real("epsilon", 1e-5F);
  const bool relu = relu_of(*request.attributes);
  d.in_place = {{0, 0}};
  visit_norm(d.inputs[0].dtype, [&]<class T, class S>() {
    d.make = launches([=](const Buffers& b) {
      return normalize(
          Normalization<T, S>{b.in<T>(0), nullptr, b.out<T>(0), b.in<S>(1), b.in<S>(2), b.in<S>(3), b.in<S>(4), nullptr, epsilon, relu, {}},
          m);
    });
  });
  return {d};
}

// One statistic, with the scalars perhaps behind, or several behind them.
Descriptions describe_running_statistics(const KernelRequest& request, Libraries*) {
  const Attributes& attributes = *request.attributes;
  const bool several = attributes.has("tensors");
  const std::size_t tensors = several ? static_cast<std::size_t>(attributes.integer("tensors")) : 1, first = several ? 1 : 0,
                    scalars = several ? 0 : 2;
  const std::vector<std::int64_t> inverse = attributes.has("inverse") ? attributes.ints("inverse") : std::vector<std::int64_t>(tensors, 0);
  KernelDescription d;
  d.kernel = "native.running_statistics";
  d.inputs = request.inputs;
  d.outputs = request.outputs;
  const DType dtype = request.inputs[first].dtype;
  if (dtype != DType::float32 && dtype != DType::float64) return {};
  if (has(d.inputs, scalars)) d.inputs[scalars].layout = Layout::row_major(1);
  std::vector<std::int64_t> elements;
  std::vector<double> shares;
  for (std::size_t t = 0; t < tensors; ++t) {
    shares.push_back(statistic_share(attributes, t));
    Operand &running = d.inputs[first + 2 * t], &value = d.inputs[first + 2 * t + 1];
    if (running.layout.any()) running.layout = Layout::row_major(running.shape.rank());
    if (inverse[t] == 0)
      value.layout = running.layout;
    else if (value != opaque_of(dtype, running.shape[0]))
      return {};
    d.outputs[t].layout = running.layout;
    d.in_place.emplace_back(static_cast<int>(t), static_cast<int>(first + 2 * t));
    elements.push_back(physical_elements(running.shape, running.layout));
  }
  visit_float(dtype, [&]<class T>() {
    using Body = RunningBody<T>;
    d.make = launches([=, momentum = static_cast<double>(attributes.real("momentum")),
                       epsilon = attributes.real("epsilon", 0)](const Buffers& b) -> Launches {
      std::vector<typename Body::Tensor> list;
      for (std::size_t t = 0; t < tensors; ++t) {
        const T *const running = b.in<T>(first + 2 * t), *const given = b.in<T>(first + 2 * t + 1);
        list.push_back({running, given, b.out<T>(t), elements[t], static_cast<T>(shares[t]), inverse[t] != 0,
                        in_packs({running, given, b.out<T>(t)})});
      }
      auto all = tables_of<&Body::table>(std::span<const typename Body::Tensor>(list), [&] {
        return Body{{}, momentum, epsilon, b.in<StepScalars>(scalars)};
      });
      return [all = std::move(all)](void* stream) {
        for (const auto& one : all) one.start(stream);
      };
    });
  });
  return {d};
}

}  // namespace tandem::cuda
