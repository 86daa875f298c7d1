// LpPool and GlobalLpPool: the p-norm of windows, and of whole images. A window of zeros has gradient 0.
#include <algorithm>

#include "graph/operators/window.h"

namespace tandem::operator_rows {
namespace {

void settle_p(InferContext& c) {
  const double p = static_number(c.attributes(), "p", 2);
  if (!(p >= 1 && p < 1000)) c.fail("p is ", p, ", expected at least 1");
  c.node().attributes.set("p", static_cast<float>(p));
}

double p_of(ExpandContext& e) { return e.attributes().real("p"); }

// |x|^p
ValueId power(ExpandContext& e, ValueId x) {
  const double p = p_of(e);
  if (p == 2) return e.mul(x, x);
  const ValueId magnitude = e.emit("Abs", {x});
  return p == 1 ? magnitude : e.emit("Pow", {magnitude, e.scalar(p, e.type(x).dtype)});
}

ValueId root(ExpandContext& e, ValueId sum) { return norm_of(e, sum, p_of(e)); }

}  // namespace

// y = (Σ |x|^p over the window)^(1/p)
Operator lp_pool() {
  return {.name = "LpPool",
          .since = {1, 2, 11, 18, 22}, .types = {{"T", types::floats}},
          .infer =
              [](InferContext& c) {
                settle_p(c);
                const Shape& x = c.shape(0);
                auto [window, y] = pool_input(c);
                // All that the windows reach counts as padding, so that every mean is one of a whole window.
                for (int i = 0; i < window.rank(); ++i) {
                  const Size reach = Size(y[i + 2] - 1) * window.strides[at(i)] + window.extent(i);
                  window.pads[at(i + window.rank())] = std::max<std::int64_t>(0, (reach - x[i + 2] - window.pads[at(i)]).value());
                }
                c.node().attributes.erase("ceil_mode");
                write_window(c, window);
                c.set_output(0, c.input(0).dtype, std::move(y));
              },
          .follow = follow_rows,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const Attributes& a = e.attributes();
            const Ints kernel = a.ints("kernel_shape"), pads = a.ints("pads");
            const std::ptrdiff_t axes = std::ssize(kernel);
            Ints around(static_cast<std::size_t>(2 * axes + 4), 0);
            std::copy_n(pads.begin(), axes, around.begin() + 2);
            std::copy_n(pads.begin() + axes, axes, around.begin() + axes + 4);
            const bool any = std::any_of(pads.begin(), pads.end(), [](std::int64_t n) { return n != 0; });
            const ValueId padded = any ? e.emit("Pad", {e.x()}, {{"pads", around}}) : e.x();
            const ValueId mean = e.emit("AveragePool", {power(e, padded)},
                                        {{"kernel_shape", kernel}, {"strides", a.ints("strides")}, {"dilations", a.ints("dilations")}});
            return {root(e, e.mul(mean, static_cast<double>(Shape(kernel).elements())))};
          },
          .precision = PrecisionRole::parts, .operands = {{"X"}}};
}

Operator global_lp_pool() {
  return {.name = "GlobalLpPool",
          .since = {1, 2, 22}, .types = {{"T", types::floats}},
          .infer =
              [](InferContext& c) {
                settle_p(c);
                Shape y = c.shape(0);
                if (y.rank() < 3) c.fail("input 0 is ", c.input(0), ", expected [N,C,...] with at least one spatial axis");
                for (int i = 2; i < y.rank(); ++i) y[i] = 1;
                c.set_output(0, c.input(0).dtype, std::move(y));
              },
          .follow = follow_rows,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            Ints axes = all_axes(e.shape(e.x()).rank());
            axes.erase(axes.begin(), axes.begin() + 2);
            return {root(e, e.reduce_sum(power(e, e.x()), axes, true))};
          },
          .precision = PrecisionRole::parts, .operands = {{"X"}}};
}

}  // namespace tandem::operator_rows
