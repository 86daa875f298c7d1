// Axes in another order, and the two operators that trade blocks of pixels for channels, which are made of it.
#include <algorithm>

#include "graph/operators/fold.h"
#include "graph/views.h"

namespace tandem::operator_rows {
namespace {

void infer_transpose(InferContext& c) {
  const Shape& x = c.shape(0);
  Ints reversed = all_axes(x.rank());
  std::reverse(reversed.begin(), reversed.end());
  const Ints perm = c.attributes().ints("perm", reversed);
  if (axes_of(c, perm, x.rank()) != all_axes(x.rank()) || std::any_of(perm.begin(), perm.end(), [](auto p) { return p < 0; }))
    c.fail("perm is ", Shape(perm), ", expected each axis of x ", x, " once");
  Shape y;
  for (const std::int64_t axis : perm) y.dims.push_back(x[static_cast<int>(axis)]);
  c.node().attributes.set("perm", perm);
  c.set_output(0, c.input(0).dtype, std::move(y));
}

// Reshape, Transpose, Reshape: how blocks of pixels and channels trade places.
ValueId rearrange(ExpandContext& e, Shape split, Ints perm, Shape merged) {
  return e.reshape(e.transpose(e.reshape(e.x(), std::move(split)), std::move(perm)), std::move(merged));
}

std::int64_t blocksize(const InferContext& c) {
  const std::int64_t b = c.attributes().integer("blocksize");
  if (b < 1 || b >= std::int64_t{1} << 20) c.fail("blocksize is ", b);
  expect_rank(c, 0, 4);
  const std::string mode = c.attributes().text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") c.fail("mode is '", mode, "', expected DCR or CRD");
  return b;
}

bool depth_first(ExpandContext& e) { return e.attributes().text("mode", "DCR") == "DCR"; }

void follow_transpose(FollowContext& c) {
  const Ints& perm = c.attributes().ints("perm");
  BatchPlace place = c.place();
  place.axis = static_cast<int>(std::find(perm.begin(), perm.end(), place.axis) - perm.begin());
  c.set(0, place);
}

}  // namespace

// y's axis i is x's axis perm[i]
Operator transpose() {
  return {.name = "Transpose",
          .since = {1, 13, 21, 23, 24, 25}, .types = {{"T", types::stored}},
          .infer = infer_transpose,
          .follow = follow_transpose,
          .linear = Linear::sum,
          .differentiate = [](GradientContext& g) { g.set_dx(g.transpose(g.dy(), inverse(g.attributes().ints("perm")))); },
          .fold = [](const FoldContext& c) -> Folded {
            const Ints own = row_major_strides(c.inputs[0].shape());
            Ints strides;
            for (const std::int64_t axis : c.node.attributes.ints("perm")) strides.push_back(own[static_cast<std::size_t>(axis)]);
            return std::vector{strided_copy(c.inputs[0], c.outputs[0].shape, 0, strides)};
          },
          .precision = PrecisionRole::follows,
          .operands = {{"data", OperandRole::view}}};
}

// Channels to blocks of pixels; mode DCR takes a pixel's channels depth first, CRD column and row first.
Operator depth_to_space() {
  return {.name = "DepthToSpace",
          .since = {1, 11, 13, 28}, .types = {{"T", types::all}},
          .infer =
              [](InferContext& c) {
                const std::int64_t b = blocksize(c);
                const Shape& x = c.shape(0);
                if (x[1] % (b * b) != 0) c.fail("x ", x, " has ", x[1], " channels, expected a multiple of ", b * b);
                c.set_output(0, c.input(0).dtype, Shape{x[0], x[1] / (b * b), x[2] * b, x[3] * b});
              },
          .follow = follow_rows,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const Shape x = e.shape(e.x());
            const std::int64_t b = e.attributes().integer("blocksize"), c = x[1] / (b * b);
            const Shape y{x[0], c, x[2] * b, x[3] * b};
            if (depth_first(e)) return {rearrange(e, {x[0], b, b, c, x[2], x[3]}, {0, 3, 4, 1, 5, 2}, y)};
            return {rearrange(e, {x[0], c, b, b, x[2], x[3]}, {0, 1, 4, 2, 5, 3}, y)};
          },
          .precision = PrecisionRole::parts, .operands = {{"input"}}};
}

// Blocks of pixels to channels: DepthToSpace undone
Operator space_to_depth() {
  return {.name = "SpaceToDepth",
          .since = {1, 13, 28}, .types = {{"T", types::all}},
          .infer =
              [](InferContext& c) {
                const std::int64_t b = blocksize(c);
                const Shape& x = c.shape(0);
                if (x[2] % b != 0 || x[3] % b != 0) c.fail("x ", x, " does not divide into blocks of ", b);
                c.set_output(0, c.input(0).dtype, Shape{x[0], x[1] * b * b, x[2] / b, x[3] / b});
              },
          .follow = follow_rows,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const Shape x = e.shape(e.x());
            const std::int64_t b = e.attributes().integer("blocksize");
            return {rearrange(e, {x[0], x[1], x[2] / b, b, x[3] / b, b}, depth_first(e) ? Ints{0, 3, 5, 1, 2, 4} : Ints{0, 1, 3, 5, 2, 4},
                              {x[0], x[1] * b * b, x[2] / b, x[3] / b})};
          },
          .precision = PrecisionRole::parts, .operands = {{"input"}}};
}

}  // namespace tandem::operator_rows
