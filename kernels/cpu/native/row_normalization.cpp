// RowNormalization(x, scale?, bias?, addend?) {axis, epsilon, rms} → y, mean, inverse_deviation, sum? and its gradient
// (docs/internal-operators.md), row-major. Each part of the rows sums dscale and dbias in blocks into sums of its own, which are
// then added in order: they do not depend on threads.
#include "kernels/cpu/native/dense.h"
#include "kernels/cpu/native/row_loops.h"

namespace tandem::native {
namespace {

constexpr std::int64_t rows_a_block = 64;  // summed before they are added to a part's sums

struct Rows {
  std::int64_t rows = 1, n = 1;
  int parts = 1;
  Rows(const KernelRequest& request, const Shape& x) {
    const Extent e = extent_of(x, static_cast<int>(request.attributes->integer("axis")));
    rows = e.outer;
    n = e.axis * e.inner;
    parts = static_cast<int>(std::min<std::int64_t>(threads_for(rows * n, request.options.threads), std::max<std::int64_t>(1, rows)));
  }
};

}  // namespace

Descriptions describe_row_normalization(const KernelRequest& request) {
  const Rows all(request, request.inputs[0].shape);
  const bool adds = operand_at(request.inputs, 3).present(), scales = operand_at(request.inputs, 1).present(),
             shifts = operand_at(request.inputs, 2).present();
  const double epsilon = static_cast<double>(request.attributes->real("epsilon", 1e-5F));
  const bool rms = request.attributes->integer("rms", 0) != 0;
  KernelDescription d = row_major_description("native.row_normalization", request, 0.8);
  const DType x = request.inputs[0].dtype, y = request.outputs[0].dtype, addend = adds ? request.inputs[3].dtype : y;
  const bool mixed = x == DType::float32 && addend == DType::bfloat16;
  if (!mixed && (addend != x || y != x)) return {};
  if (adds) d.in_place = {{3, 0}};
  if (adds && !mixed) d.in_place.push_back({3, 3});
  visit_rows(x, [&]<class T, class S>(const vector::RowNormalizations& same) {
    d.make = [=, run = (mixed ? loops_beside_float(y) : same).forward[adds]] {
      const std::vector<S> ones(static_cast<std::size_t>(scales ? 0 : all.n), S(1)),
          zeros(static_cast<std::size_t>(shifts ? 0 : all.n), S(0));
      return make_kernel([=](const Memory& m) {
        parallel(all.parts, [&](int k) {
          const Range r = part_of(all.rows, k, all.parts);
          const std::int64_t at = r.begin * all.n;
          const auto place = [&](auto* memory, DType held) { return memory + at * static_cast<std::int64_t>(size_of(held)); };
          run({.x = m.in<T>(0) + at,
               .addend = adds ? place(m.in<std::byte>(3), addend) : nullptr,
               .sum = adds ? m.out<T>(3) + at : nullptr,
               .y = place(m.out<std::byte>(0), y),
               .scale = scales ? m.in<S>(1) : ones.data(),
               .bias = shifts ? m.in<S>(2) : zeros.data(),
               .mean = m.out<S>(1) + r.begin,
               .inverse_deviation = m.out<S>(2) + r.begin,
               .rows = r.end - r.begin,
               .n = all.n,
               .epsilon = epsilon,
               .rms = rms});
        });
      })();
    };
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

Descriptions describe_row_normalization_backward(const KernelRequest& request) {
  if (operand_at(request.inputs, 6).present()) return {};
  const Rows all(request, request.inputs[0].shape);
  const bool adds = operand_at(request.inputs, 5).present(), scales = request.inputs[2].present();
  const bool wants_scale = operand_at(request.outputs, 1).present(), wants_bias = operand_at(request.outputs, 2).present(),
             sums = wants_scale || wants_bias;
  const bool rms = request.attributes->integer("rms", 0) != 0;
  KernelDescription d = row_major_description("native.row_normalization_backward", request, 0.8);
  const DType dy = request.inputs[0].dtype, x = request.inputs[1].dtype;
  const bool mixed = dy != x;
  if (mixed && (x != DType::float32 || dy != DType::bfloat16)) return {};
  if (!mixed) d.in_place = {{0, 0}};
  if (adds) d.in_place.push_back({0, 5});
  visit_rows(x, [&]<class T, class S>(const vector::RowNormalizations& same) {
    // Of each part: the sums of its rows and those of a block, of dscale and dbias each.
    if (sums) d.workspace = all.parts * 4 * all.n * static_cast<std::int64_t>(sizeof(S));
    d.make = [=, run = (mixed ? loops_beside_float(x) : same).backward[adds][sums]] {
      const std::vector<S> ones(static_cast<std::size_t>(scales ? 0 : all.n), S(1));
      return make_kernel([=](const Memory& m) {
        S* const partial = reinterpret_cast<S*>(m.workspace);
        const std::int64_t both = 2 * all.n;
        parallel(all.parts, [&](int k) {
          const Range r = part_of(all.rows, k, all.parts);
          S *const whole = sums ? partial + 2 * k * both : nullptr, *const block = sums ? whole + both : nullptr;
          if (sums) std::fill_n(whole, both, S(0));
          const std::int64_t step = sums ? rows_a_block : r.end - r.begin;
          for (std::int64_t row = r.begin; row < r.end; row += step) {
            const std::int64_t rows = std::min(step, r.end - row), at = row * all.n;
            if (sums) std::fill_n(block, both, S(0));
            run({.dy = m.in<std::byte>(0) + at * static_cast<std::int64_t>(size_of(dy)),
                 .x = m.in<T>(1) + at,
                 .dsum = adds ? m.in<T>(5) + at : nullptr,
                 .dx = m.out<T>(0) + at,
                 .scale = scales ? m.in<S>(2) : ones.data(),
                 .mean = m.in<S>(3) + row,
                 .inverse_deviation = m.in<S>(4) + row,
                 .dscale = block,
                 .dbias = sums ? block + all.n : nullptr,
                 .rows = rows,
                 .n = all.n,
                 .rms = rms});
            if (sums)
              for (std::int64_t i = 0; i < both; ++i) whole[i] += block[i];
          }
        });
        if (!sums) return;
        in_order(all.parts, both, all.parts, [&](std::int64_t k, const Range& r) {
          for (std::int64_t i = k == 0 ? r.end : r.begin; i < r.end; ++i) partial[i] += partial[2 * k * both + i];
          if (k + 1 < all.parts) return;
          for (const auto& [to, first] : {std::pair{wants_scale ? m.out<S>(1) : nullptr, std::int64_t{0}},
                                          std::pair{wants_bias ? m.out<S>(2) : nullptr, all.n}}) {
            const std::int64_t begin = std::clamp(r.begin, first, first + all.n), end = std::clamp(r.end, first, first + all.n);
            if (to) std::copy(partial + begin, partial + end, to + begin - first);
          }
        });
      })();
    };
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::native
