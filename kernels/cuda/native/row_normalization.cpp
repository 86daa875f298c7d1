// RowNormalization and its gradient (docs/internal-operators.md), row-major. Blocks of the gradient sum dscale and dbias of the rows
// that they take into sums of their own, which are then added in order.
#include <algorithm>

#include "kernels/cuda/bodies/pair_sums.h"
#include "kernels/cuda/bodies/row_normalization.h"
#include "kernels/cuda/native/dropout.h"
#include "kernels/cuda/native/launches.h"
#include "kernels/precision.h"

namespace tandem::cuda {
namespace {

struct Rows {
  std::int64_t rows = 1, n = 1;
  explicit Rows(const KernelRequest& request) {
    const Shape& x = request.inputs[0].shape;
    const auto axis = request.attributes->integer("axis");
    for (int i = 0; i < x.rank(); ++i) (i < axis ? rows : n) *= x[i];
  }
};

// Calls f with the width of a pack, the threads of a row, and the packs that each of them keeps. Packs are of 16 bytes where these divide
// a row. A warp takes a row that its registers hold; of longer ones each thread keeps 16 numbers.
template <class T, class F>
auto visit_rows(std::int64_t n, F&& f) {
  constexpr int full = full_pack<T>;
  if constexpr (std::is_same_v<T, double>) {
    return f.template operator()<1, 128, 4>();
  } else {
    if (n % full != 0) return f.template operator()<1, 128, 4>();
    if (n <= 512) return f.template operator()<full, 32, 16 / full>();
    if (n <= 768) return f.template operator()<full, 32, 24 / full>();
    if (n <= 1024) return f.template operator()<full, 32, 32 / full>();
    if (n <= 2048) return f.template operator()<full, 128, 16 / full>();
    if (n <= 4096) return f.template operator()<full, 256, 16 / full>();
    return f.template operator()<full, 512, 16 / full>();
  }
}

// Calls f with whether the addend, or the copy of dx, is dropped; not where no kernel drops of such rows.
template <class T, int width, class F>
void visit_drops(bool drops, F&& f) {
  if constexpr (std::is_same_v<T, float> && width > 1)
    if (drops) return f.template operator()<true>();
  if (!drops) f.template operator()<false>();
}
template <bool drops>
auto rule_for(const DropoutRule& rule, const Buffers& b, int random) {
  if constexpr (drops) {
    DropoutRule bound = rule;
    bound.random = b.in<std::int64_t>(random);
    return bound;
  } else {
    return NoDropout{};
  }
}
DropoutRule rule_of(const KernelRequest& request) { return dropout_rule(*request.attributes, request.attributes->integer("sample", 0)); }

bool rms_of(const KernelRequest& request) { return request.attributes->integer("rms", 0) != 0; }

// Calls f with T, or beside float with the type of 16 bits.
template <class T, class F>
void visit_narrow(DType dtype, F&& f) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::float16) return f.template operator()<Half>();
    if (dtype == DType::bfloat16) return f.template operator()<BFloat16>();
  }
  f.template operator()<T>();
}
bool fit(DType x, DType other) { return other == x || (x == DType::float32 && is_16_bit(other)); }

std::optional<KernelDescription> describe_rows(const KernelRequest& request, DType x, std::string_view kernel, const Rows& all) {
  if (!is_storage_float(x) || all.rows * all.n == 0 || all.n >= (std::int64_t{1} << 31)) return std::nullopt;
  KernelDescription d = row_major_description(request, kernel);
  d.efficiency = 0.8;
  return d;
}

}  // namespace

Descriptions describe_row_normalization(const KernelRequest& request, Libraries*) {
  const Rows all(request);
  std::optional<KernelDescription> d = describe_rows(request, request.inputs[0].dtype, "native.row_normalization", all);
  if (!d) return {};
  const DType x = request.inputs[0].dtype, y = request.outputs[0].dtype, addend = has(request.inputs, 3) ? request.inputs[3].dtype : y;
  if (!fit(x, y) || !fit(x, addend) || (y != x && y != addend)) return {};
  if (has(request.outputs, 4) && (y != x || addend == x || request.outputs[4].dtype != addend)) return {};
  if (y == x) d->in_place = {{0, 0}};
  if (has(request.inputs, 3)) d->in_place = {{3, 0}};
  if (has(request.inputs, 3) && addend == x) d->in_place.push_back({3, 3});
  const double epsilon = static_cast<double>(request.attributes->real("epsilon", 1e-5F));
  const bool rms = rms_of(request);
  visit_storage(x, [&]<class T>() {
    visit_narrow<T>(addend, [&]<class A>() {
      const auto make = [&]<class Y>() {
        visit_rows<T>(all.n, [&]<int width, int lanes, int kept>() {
          visit_drops<T, width>(has(request.inputs, 4), [&]<bool drops>() {
            using Body = RowNormalizationBody<T, width, lanes, kept, A, Y, drops>;
            using C = Compute<T>;
            d->make = launches([=, rule = rule_of(request)](const Buffers& b) {
              const Body body{b.in<T>(0), b.in<A>(3),  b.out<Y>(0), b.out<T>(3), b.in<C>(1),
                              b.in<C>(2), b.out<C>(1), b.out<C>(2), all.rows,    static_cast<std::int32_t>(all.n / width),
                              epsilon,    rms,        b.out<A>(4), rule_for<drops>(rule, b, 4)};
              return launches_of(body, ceil_div(all.rows, Body::threads / lanes));
            });
          });
        });
      };
      if (y == x) make.template operator()<T>();
      if (y != x && y == addend) make.template operator()<A>();
    });
  });
  return d->make ? Descriptions{*d} : Descriptions{};
}

Descriptions describe_row_normalization_backward(const KernelRequest& request, Libraries*) {
  const Rows all(request);
  std::optional<KernelDescription> d = describe_rows(request, request.inputs[1].dtype, "native.row_normalization_backward", all);
  if (!d) return {};
  const DType x = request.inputs[1].dtype, dy = request.inputs[0].dtype;
  const bool adds = has(request.inputs, 6);
  const DType more = adds ? request.inputs[6].dtype : dy;
  if (!fit(x, dy) || (adds && (x != DType::float32 || dy != x || !is_16_bit(more)))) return {};
  if (dy == x) d->in_place = {{0, 0}};
  if (has(request.inputs, 5)) d->in_place.push_back({0, 5});
  const bool rms = rms_of(request), sums = has(request.outputs, 1) || has(request.outputs, 2),
             copies = has(request.outputs, 3), drops_copy = copies && has(request.inputs, 7);
  if (copies && (request.outputs[3].dtype != more || (more == x && !drops_copy))) return {};
  if (copies && more != x) d->in_place.push_back({3, adds ? 6 : 0});
  visit_storage(x, [&]<class T>() {
    const auto of_types = [&]<class D, class M>() {
      visit_rows<T>(all.n, [&]<int width, int lanes, int kept>() {
        visit_drops<T, width>(drops_copy, [&]<bool drops>() {
          using Body = RowGradientBody<T, width, lanes, kept, D, M, drops>;
          using Sums = RowSumsBody<T, D, M>;
          using C = Compute<T>;
          constexpr std::int64_t reach = std::int64_t{kept} * lanes * width;
          const std::int64_t blocks =
              std::min<std::int64_t>(multiprocessors_of(request.options) * Body::blocks_at_once, ceil_div(all.rows, Body::threads / lanes));
          if (sums) d->workspace = align_up(blocks * 2 * all.n * static_cast<std::int64_t>(sizeof(C)));
          d->make = launches([=, rule = rule_of(request)](const Buffers& b) -> Launches {
            C* const partial = sums ? reinterpret_cast<C*>(b.workspace) : nullptr;
            std::vector<Launches> steps;
            // Before dx, which may lie where dy does.
            if (sums && all.n > reach)
              steps.push_back(launches_of(Sums{b.in<D>(0), b.in<T>(1), b.in<C>(3), b.in<C>(4), partial, all.rows, all.n, reach,
                                               static_cast<std::int32_t>(blocks), rms, b.in<M>(6)},
                                          blocks * ceil_div(all.n - reach, Sums::threads)));
            steps.push_back(launches_of(Body{b.in<D>(0), b.in<T>(1), b.in<T>(5), b.out<T>(0), b.in<C>(2), b.in<C>(3), b.in<C>(4), partial,
                                             all.rows, static_cast<std::int32_t>(all.n / width), rms, b.in<M>(6),
                                             b.out<M>(3), rule_for<drops>(rule, b, 7)},
                                        blocks));
            if (sums)
              steps.push_back(
                  launches_of(PairSumsBody<C>{partial, b.out<C>(1), b.out<C>(2), all.n, blocks}, ceil_div(2 * all.n, finish_columns)));
            return in_turn(std::move(steps));
          });
        });
      });
    };
    visit_narrow<T>(dy, [&]<class D>() { visit_narrow<D>(more, [&]<class M>() { of_types.template operator()<D, M>(); }); });
  });
  return d->make ? Descriptions{*d} : Descriptions{};
}

}  // namespace tandem::cuda
