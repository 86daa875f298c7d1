// Clip, whose bounds became operands with opset 11. They must be known when the plan is made: the importer moves them into
// attributes, and kernels see one form.
#include <limits>
#include <type_traits>

#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

Folded fold_clip(const FoldContext& c) {
  const Attributes& a = c.node.attributes;
  return visit_foldable(c.inputs[0].dtype(), [&]<class T>() -> Folded {
    const auto bound = [&](const char* name) {
      if constexpr (std::is_integral_v<T>) return static_cast<T>(static_integer(a, name, 0));
      else return static_cast<T>(static_number(a, name, 0));
    };
    const bool below = a.has("min"), above = a.has("max");
    const T min = below ? bound("min") : T{}, max = above ? bound("max") : T{};
    Tensor out(c.inputs[0].type());
    const auto x = c.inputs[0].values<T>();
    const auto y = out.write<T>();
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = below && x[i] < min ? min : x[i];
      if (above && y[i] > max) y[i] = max;
    }
    return std::vector{out};
  });
}

}  // namespace

// y = min(max(x, min), max), either bound optional; dx = dy where min < y < max, told from y so that x need not be kept. Integers are clipped by Max and Min,
// because their bounds do not fit in a float.
Operator clip() {
  constexpr float inf = std::numeric_limits<float>::infinity();
  return {.name = "Clip",
          .since = {1, 6, 11, 12, 13}, .inputs = {1, 3}, .types = {{"T", types::numbers}},
          .infer =
              [](InferContext& c) {
                if (c.has_input(1) || c.has_input(2)) c.fail("min and max must be known when the plan is made");
                if (is_float(c.input(0).dtype))
                  for (const char* bound : {"min", "max"})
                    if (c.attributes().has(bound)) c.node().attributes.set(bound, static_cast<float>(static_number(c.attributes(), bound, 0)));
                infer_same(c);
              },
          .differentiate =
              [](GradientContext& g) {
                g.set_dx(g.emit("ClipBackward", {g.dy(), g.y()}, {{"min", g.attributes().real("min", -inf)}, {"max", g.attributes().real("max", inf)}}));
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const DType dtype = e.type(e.x()).dtype;
            if (is_float(dtype)) return {};
            ValueId y = e.x();
            const auto bound = [&](const char* name) {
              const Tensor value = Tensor::of<std::int64_t>(Shape{}, {static_integer(e.attributes(), name, 0)}).cast(dtype);
              return e.graph().add_constant(e.node().name + "/" + name, value);
            };
            if (e.attributes().has("min")) y = e.emit("Max", {y, bound("min")});
            if (e.attributes().has("max")) y = e.emit("Min", {y, bound("max")});
            return {y};
          },
          .fold = fold_clip,
          .static_operands = {{1, "min"}, {2, "max"}},
          .elementwise = true,
          .parameters = {{"min", -inf}, {"max", inf}},
          .rectifies = true};
}

}  // namespace tandem::operator_rows
