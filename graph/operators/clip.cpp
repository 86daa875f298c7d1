// Clip, whose bounds became operands with opset 11. The importer moves those that are known into attributes, and kernels see one form;
// with a bound that is computed or trained it is Max and Min.
#include <limits>
#include <type_traits>

#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

Folded fold_clip(const FoldContext& c) {
  const Attributes& a = c.node.attributes;
  if (c.inputs.size() > 1) return {};  // a bound that is computed: its Max and Min are folded
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

// y = min(max(x, min), max), either bound optional; dx = dy where min < y < max, told from y so that x need not be kept. Integers are
// clipped by Max and Min, because their bounds do not fit in a float.
Operator clip() {
  constexpr float inf = std::numeric_limits<float>::infinity();
  return {.name = "Clip",
          .since = {1, 6, 11, 12, 13},
          .inputs = {1, 3},
          .types = {{"T", types::numbers}},
          .infer =
              [](InferContext& c) {
                for (const int bound : {1, 2})
                  if (c.has_input(bound) && c.shape(bound).elements() != 1) c.fail("a bound is ", c.shape(bound), ", expected one number");
                if (is_float(c.input(0).dtype))
                  for (const char* bound : {"min", "max"})
                    if (c.attributes().has(bound))
                      c.node().attributes.set(bound, static_cast<float>(static_number(c.attributes(), bound, 0)));
                infer_same(c);
              },
          .differentiate =
              [](GradientContext& g) {
                g.set_dx(g.emit("ClipBackward", {g.dy(), g.y()},
                                {{"min", g.attributes().real("min", -inf)}, {"max", g.attributes().real("max", inf)}}));
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const DType dtype = e.type(e.x()).dtype;
            if (is_float(dtype) && !e.has_x(1) && !e.has_x(2)) return {};
            const auto bounded = [&](ValueId x, const char* op, int input, const char* name) {
              if (e.has_x(input)) return e.emit(op, {x, e.reshape(e.x(input), Shape{})});
              if (!e.attributes().has(name)) return x;
              const Tensor value = is_float(dtype) ? Tensor::scalar(static_cast<float>(static_number(e.attributes(), name, 0)))
                                                   : Tensor::of<std::int64_t>(Shape{}, {static_integer(e.attributes(), name, 0)});
              return e.emit(op, {x, e.graph().add_constant(e.node().name + "/" + name, value.cast(dtype))});
            };
            return {bounded(bounded(e.x(), "Max", 1, "min"), "Min", 2, "max")};
          },
          .fold = fold_clip,
          .static_operands = {{1, "min", true}, {2, "max", true}},
          .elementwise = true,
          .parameters = {{"min", -inf}, {"max", inf}},
          .rectifies = true,
          .operands = {{"input"}, {"min", OperandRole::bound}, {"max", OperandRole::bound}}};
}

}  // namespace tandem::operator_rows
