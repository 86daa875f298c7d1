// GroupNormalizationTraining and its gradient (docs/internal-operators.md), channels last: sums by sample and channel of each block's
// rows, what follows from them for the groups, its application.
#include "kernels/cuda/bodies/batch_normalization.h"
#include "kernels/cuda/bodies/channel_statistics.h"
#include "kernels/cuda/native/channel_tiles.h"
#include "kernels/cuda/native/launches.h"

namespace tandem::cuda {
namespace {

struct Problem {
  ChannelMatrix matrix;
  Groups groups;
  explicit Problem(const KernelRequest& request) : matrix(by_samples(request.inputs[0].shape, request.options)) {
    groups.groups = static_cast<std::int32_t>(request.attributes->integer("groups"));
    groups.channels = static_cast<std::int32_t>(matrix.channels / groups.groups);
  }
  std::int64_t all() const { return matrix.samples * groups.groups; }
  // Of so many numbers for each sample, split and channel.
  template <class T>
  std::int64_t partial(std::int64_t numbers) const {
    return align_up(matrix.samples * tiles_of<T>(matrix).splits * numbers * matrix.channels *
                    static_cast<std::int64_t>(sizeof(Compute<T>)));
  }
};

// x and what is like it channels last, the others in their own order.
std::optional<KernelDescription> describe_groups(const KernelRequest& request, std::string_view kernel) {
  const Operand& x = request.inputs[0];
  if (!is_storage_float(x.dtype) || x.shape.elements() == 0) return std::nullopt;
  KernelDescription d = row_major_description(request, kernel);
  for (std::vector<Operand>* operands : {&d.inputs, &d.outputs})
    for (Operand& o : *operands)
      if (o.present() && o.shape == x.shape && o.dtype == x.dtype) o.layout = Layout::channels_last(x.shape.rank());
  d.in_place = {{0, 0}};
  d.efficiency = 0.7;
  return d;
}

}  // namespace

Descriptions describe_group_normalization(const KernelRequest& request, Libraries*) {
  std::optional<KernelDescription> d = describe_groups(request, "native.group_normalization");
  if (!d) return {};
  const Problem p(request);
  const double epsilon = static_cast<double>(request.attributes->real("epsilon", 1e-5F));
  visit_storage(request.inputs[0].dtype, [&]<class T>() {
    using C = Compute<T>;
    d->workspace = p.partial<T>(3);
    d->make = launches([=](const Buffers& b) {
      auto* const partial = reinterpret_cast<C*>(b.workspace);
      return visit_width<T>(p.matrix.channels, [&]<int width>() {
        const ChannelTiles tiles = tiles_of(p.matrix, width);
        const Normalization<T, C> n{b.in<T>(0), nullptr,     b.out<T>(0), b.in<C>(1), b.in<C>(2), b.out<C>(1),
                                    nullptr,    b.out<C>(2), 0,           false,      p.groups};
        return in_turn({launches_of(MomentsBody<T, width>{tiles, b.in<T>(0), partial}, blocks_of(tiles)),
                        launches_of(GroupStatisticsBody<C>{tiles, partial, b.out<C>(1), b.out<C>(2), p.groups.groups, p.groups.channels, epsilon}, p.all()),
                        launches_of(NormalizeBody<T, C, width>{tiles, n}, blocks_of(tiles))});
      });
    });
  });
  return {*d};
}

Descriptions describe_group_normalization_backward(const KernelRequest& request, Libraries*) {
  std::optional<KernelDescription> d = describe_groups(request, "native.group_normalization_backward");
  if (!d) return {};
  const Problem p(request);
  const bool sums = has(request.outputs, 1) || has(request.outputs, 2);
  visit_storage(request.inputs[0].dtype, [&]<class T>() {
    using C = Compute<T>;
    const std::int64_t before = p.partial<T>(2);
    d->workspace = before + align_up(2 * p.all() * static_cast<std::int64_t>(sizeof(C)));
    d->make = launches([=](const Buffers& b) {
      auto* const partial = reinterpret_cast<C*>(b.workspace);
      auto* const of_groups = reinterpret_cast<C*>(b.workspace + before);
      const NormInput<T> in{b.in<T>(1), b.in<T>(0), nullptr, b.in<C>(2), nullptr, b.in<C>(3), b.in<C>(4), false, p.groups};
      return visit_width<T>(p.matrix.channels, [&]<int width>() {
        const ChannelTiles tiles = tiles_of(p.matrix, width);
        std::vector<Launches> steps{
            launches_of(NormSumsBody<T, width>{tiles, in, partial}, blocks_of(tiles)),
            launches_of(GroupSumsBody<C>{partial, b.in<C>(2), of_groups, p.groups.groups, p.groups.channels, tiles.splits}, p.all())};
        if (sums)
          steps.push_back(
              launches_of(PairSumsBody<C>{partial, b.out<C>(1), b.out<C>(2), p.matrix.channels, p.matrix.samples * tiles.splits},
                          ceil_div(2 * p.matrix.channels, finish_columns)));
        steps.push_back(launches_of(NormGradientBody<T, width>{tiles, in, nullptr, nullptr, of_groups, b.out<T>(0)}, blocks_of(tiles)));
        return in_turn(std::move(steps));
      });
    });
  });
  return {*d};
}

}  // namespace tandem::cuda
