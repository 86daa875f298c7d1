// GroupNormalizationTraining(x, scale?, bias?) {groups, epsilon} → y, mean, inverse_deviation and its gradient
// (docs/internal-operators.md), row-major: a group is a run of channels. Each part of the groups sums dscale and dbias into sums of
// its own, which are then added in order: they do not depend on threads.
#include "kernels/cpu/native/dense.h"
#include "kernels/cpu/native/row_loops.h"

namespace tandem::native {
namespace {

struct Groups {
  std::int64_t groups, all, channels, n;  // of a sample, of all samples; channels of a group, elements of a channel
  int parts;
  explicit Groups(const KernelRequest& request) : groups(request.attributes->integer("groups")) {
    const Shape& x = request.inputs[0].shape;
    all = x[0] * groups;
    channels = x[1] / groups;
    n = product(spatial(x));
    parts =
        static_cast<int>(std::min<std::int64_t>(threads_for(all * channels * n, request.options.threads), std::max<std::int64_t>(1, all)));
  }
  std::int64_t elements() const { return channels * n; }  // of a group
  std::int64_t channel(std::int64_t group) const { return group % groups * channels; }  // its first
};

}  // namespace

Descriptions describe_group_normalization(const KernelRequest& request) {
  const Groups g(request);
  const bool scales = operand_at(request.inputs, 1).present(), shifts = operand_at(request.inputs, 2).present();
  const double epsilon = static_cast<double>(request.attributes->real("epsilon", 1e-5F));
  KernelDescription d = row_major_description("native.group_normalization", request, 0.8);
  d.in_place = {{0, 0}};
  visit_rows(request.inputs[0].dtype, [&]<class T, class S>(const vector::RowNormalizations& loops) {
    d.make = make_kernel([=, run = loops.forward_channels](const Memory& m) {
      parallel(g.parts, [&](int k) {
        const Range r = part_of(g.all, k, g.parts);
        for (std::int64_t i = r.begin; i < r.end; ++i)
          run({.x = m.in<T>(0) + i * g.elements(),
               .y = m.out<T>(0) + i * g.elements(),
               .scale = scales ? m.in<S>(1) + g.channel(i) : nullptr,
               .bias = shifts ? m.in<S>(2) + g.channel(i) : nullptr,
               .mean = m.out<S>(1) + i,
               .inverse_deviation = m.out<S>(2) + i,
               .channels = g.channels,
               .n = g.n,
               .epsilon = epsilon});
      });
    });
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

Descriptions describe_group_normalization_backward(const KernelRequest& request) {
  const Groups g(request);
  const bool scales = request.inputs[2].present();
  const bool wants_scale = operand_at(request.outputs, 1).present(), wants_bias = operand_at(request.outputs, 2).present(),
             sums = wants_scale || wants_bias;
  const std::int64_t channels = g.groups * g.channels;
  KernelDescription d = row_major_description("native.group_normalization_backward", request, 0.8);
  d.in_place = {{0, 0}};
  // Of each part the sums of dscale and dbias.
  if (sums) d.workspace = g.parts * 2 * channels * static_cast<std::int64_t>(sizeof(double));
  visit_rows(request.inputs[0].dtype, [&]<class T, class S>(const vector::RowNormalizations& loops) {
    d.make = make_kernel([=, run = loops.backward_channels](const Memory& m) {
      double* const partial = reinterpret_cast<double*>(m.workspace);
      parallel(g.parts, [&](int k) {
        const Range r = part_of(g.all, k, g.parts);
        double* const own = sums ? partial + 2 * k * channels : nullptr;
        if (sums) std::fill_n(own, 2 * channels, 0.0);
        for (std::int64_t i = r.begin; i < r.end; ++i)
          run({.dy = m.in<T>(0) + i * g.elements(),
               .x = m.in<T>(1) + i * g.elements(),
               .dx = m.out<T>(0) + i * g.elements(),
               .scale = scales ? m.in<S>(2) + g.channel(i) : nullptr,
               .mean = m.in<S>(3) + i,
               .inverse_deviation = m.in<S>(4) + i,
               .dscale = sums ? own + g.channel(i) : nullptr,
               .dbias = sums ? own + channels + g.channel(i) : nullptr,
               .channels = g.channels,
               .n = g.n});
      });
      const auto finish = [&](S* to, const double* from) {
        for (std::int64_t c = 0; c < channels; ++c) {
          double sum = 0;
          for (int k = 0; k < g.parts; ++k) sum += from[2 * k * channels + c];
          to[c] = static_cast<S>(sum);
        }
      };
      if (wants_scale) finish(m.out<S>(1), partial);
      if (wants_bias) finish(m.out<S>(2), partial + channels);
    });
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::native
