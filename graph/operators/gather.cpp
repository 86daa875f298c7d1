#include "graph/operators/fold.h"
#include "graph/operators/gradient_rules.h"

namespace tandem::operator_rows {
namespace {

Folded fold_gather(const FoldContext& c) {
  const Tensor& x = c.inputs[0];
  const int axis = static_cast<int>(c.node.attributes.integer("axis"));
  const std::int64_t size = x.shape()[axis], inner = product(x.shape(), axis + 1, x.shape().rank());
  const std::int64_t outer = product(x.shape(), 0, axis);
  const std::size_t row = static_cast<std::size_t>(inner) * size_of(x.dtype());
  const Ints indices = c.inputs[1].to_int64s();
  Tensor out(c.outputs[0]);
  std::byte* to = out.write().data();
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t index : indices) {
      if (index < 0) index += size;
      if (index < 0 || index >= size) fail("Gather '", c.node.name, "': an index is outside [", -size, ",", size - 1, "]");
      const std::byte* from = x.bytes().data() + static_cast<std::size_t>(o * size + index) * row;
      std::copy(from, from + row, to);
      to += row;
    }
  }
  return std::vector{out};
}

void follow_gather(FollowContext& c) {
  const int axis = static_cast<int>(c.attributes().integer("axis"));
  BatchPlace place = c.place(0);
  if (place.present()) {
    only_operand(c, 0);
    if (place.axis == axis) c.fail("it picks from axis ", axis, " of ", c.x(), ", which holds the samples");
    if (place.axis > axis) place.axis += c.x(1).rank() - 1;
  } else {
    place = c.place(1);
    place.axis += axis;
  }
  c.set(0, place);
}

}  // namespace

// y = x[..., indices, ...] along axis; dx sums the rows of dy into the places they came from
Operator gather() {
  return {.name = "Gather",
          .since = {1, 11, 13}, .inputs = {2, 2}, .types = {{"T", types::all}, {"Tind", types::indices}},
          .infer =
              [](InferContext& c) {
                const Shape &x = c.shape(0), &indices = c.shape(1);
                const int axis = axis_of(c, c.attributes().integer("axis", 0), x.rank());
                if (c.input(1).dtype != DType::int64 && c.input(1).dtype != DType::int32) c.fail("indices are ", c.input(1), ", expected int32 or int64");
                Shape y(Ints(x.begin(), x.begin() + axis));
                y.dims.insert(y.dims.end(), indices.begin(), indices.end());
                y.dims.insert(y.dims.end(), x.begin() + axis + 1, x.end());
                c.node().attributes.set("axis", std::int64_t{axis});
                c.set_output(0, c.input(0).dtype, std::move(y));
              },
          .follow = follow_gather,
          .differentiate =
              [](GradientContext& g) {
                Attributes attributes{{"axis", g.attributes().integer("axis")}, {"input_shape", g.shape(g.x(0)).dims}};
                if (g.wants(0)) g.set_dx(0, g.emit("GatherBackward", {g.dy(), g.x(1)}, std::move(attributes)));
              },
          .fold = fold_gather,
          .precision = PrecisionRole::follows,
          .operands = {{"data", OperandRole::embedding}, {"indices", OperandRole::positions}}};
}

Operator gather_backward() {
  return {.name = "GatherBackward", .domain = "tandem", .since = {1}, .inputs = {2, 2}, .infer = [](InferContext& c) { infer_gradient(c, "Gather", 1); }};
}

}  // namespace tandem::operator_rows
