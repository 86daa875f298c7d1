// Padding and cropping, by pads of every axis once the shape rule has settled the node.
#include "graph/operators/gradient_rules.h"
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

void infer_pad(InferContext& c) {
  const Shape& x = c.shape(0);
  const int rank = x.rank();
  if (!c.attributes().has("pads")) c.fail("pads must be known when the plan is made");
  if (c.has_input(2)) c.fail("the constant must be known when the plan is made");
  const Ints given = static_ints(c.attributes(), "pads");
  const Ints axes = static_ints(c.attributes(), "axes", all_axes(rank));
  if (given.size() != 2 * axes.size()) c.fail("pads has ", given.size(), " entries, expected ", 2 * axes.size());
  axes_of(c, axes, rank);  // each once
  Ints pads(at(2 * rank), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = axis_of(c, axes[i], rank);
    pads[at(axis)] = given[i];
    pads[at(axis + rank)] = given[i + axes.size()];
  }
  const std::string mode = c.attributes().text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    c.fail("mode is '", mode, "', expected constant, reflect, edge or wrap");
  Shape y = x;
  for (int i = 0; i < rank; ++i) {
    const std::int64_t begin = pads[at(i)], end = pads[at(i + rank)];
    constexpr std::int64_t limit = std::int64_t{1} << 40;
    if (begin <= -limit || begin >= limit || end <= -limit || end >= limit || x[i] >= limit)
      c.fail("pads of axis ", i, " are ", begin, " and ", end);
    if (mode != "constant" && x[i] == 0 && begin + end > 0) c.fail("x ", x, " has nothing along axis ", i, " to pad with");
    if (mode == "reflect" && (begin >= std::max<std::int64_t>(x[i], 1) || end >= std::max<std::int64_t>(x[i], 1)))
      c.fail("pads of axis ", i, " are ", begin, " and ", end, ", more than x ", x, " can reflect");
    y[i] += begin + end;
    if (y[i] < 0) c.fail("pads of axis ", i, " crop more than x ", x, " has");
  }
  Attributes& a = c.node().attributes;
  a.set("value", static_cast<float>(static_number(a, "value", 0)));
  a.set("pads", pads);
  a.set("mode", mode);
  a.erase("axes");
  c.set_output(0, c.input(0).dtype, std::move(y));
}

void follow_pad(FollowContext& c) {
  const Ints& pads = c.attributes().ints("pads");
  const int axis = c.place().axis;
  if (pads[at(axis)] != 0 || pads[at(axis + c.x().rank())] != 0) c.fail("it pads axis ", axis, " of ", c.x(), ", which holds the samples");
  c.set(0, c.place());
}

}  // namespace

// y = x with `pads` (begins, then ends; negative ones crop) around it: a constant, x reflected at its border elements,
// the border repeated, or x itself repeated. dx sums dy over the places that each element went to.
Operator pad() {
  return {.name = "Pad",
          .since = {1, 2, 11, 13, 18, 19, 21, 23, 24, 25},
          .inputs = {1, 4},
          .types = {{"T", types::stored}, {"I", types::integers_64}, {"T", types::stored}, {"Tind", types::indices}},
          .infer = infer_pad,
          .follow = follow_pad,
          .differentiate =
              [](GradientContext& g) {
                Attributes attributes = g.attributes();
                attributes.set("input_shape", g.shape(g.x()).dims);
                g.set_dx(g.emit("PadBackward", {g.dy()}, attributes));
              },
          .static_operands = {{1, "pads"}, {2, "value"}, {3, "axes"}},
          .precision = PrecisionRole::follows,
          .operands = {{"data"}}};
}

Operator pad_backward() {
  return {.name = "PadBackward",
          .domain = "tandem",
          .since = {1},
          .infer = [](InferContext& c) { infer_gradient(c, "Pad", 1); },
          .place = place_uncut,
          .linear = Linear::first};
}

}  // namespace tandem::operator_rows
