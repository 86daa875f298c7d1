// GridSample and AffineGrid: spatial transformers. Coordinates are computed in float64, so that a plan of 16 bits leaves them as
// exact as they came; what is read there is one SampleRows.
#include <algorithm>

#include "graph/operators/sampling.h"

namespace tandem::operator_rows {
namespace {

struct ModeRow {
  std::string_view name;
  TapMode mode;
};
constexpr ModeRow modes[] = {{"linear", TapMode::linear},
                             {"bilinear", TapMode::linear},
                             {"nearest", TapMode::nearest},
                             {"cubic", TapMode::cubic},
                             {"bicubic", TapMode::cubic}};
struct OutsideRow {
  std::string_view name;
  Outside outside;
};
constexpr OutsideRow paddings[] = {{"zeros", Outside::zeros}, {"border", Outside::border}, {"reflection", Outside::reflection}};

template <class Row, std::size_t N>
const Row* row_of(const Row (&rows)[N], std::string_view name) {
  const auto found = std::find_if(rows, rows + N, [&](const Row& r) { return r.name == name; });
  return found == rows + N ? nullptr : found;
}

void infer_grid_sample(InferContext& c) {
  const Shape &x = c.shape(0), &grid = c.shape(1);
  if (x.rank() < 3) c.fail("x is ", c.input(0), ", expected [N,C,...]");
  if (!is_float(c.input(0).dtype)) c.fail("x is ", c.input(0), ", expected floats");
  if (grid.rank() != x.rank() || grid[0] != x[0] || grid[grid.rank() - 1] != x.rank() - 2)
    c.fail("the grid is ", c.input(1), ", expected [", x[0], ",...,", x.rank() - 2, "] of rank ", x.rank(), " for x ", x);
  Attributes& a = c.node().attributes;
  a.set("mode", a.text("mode", "linear"));
  a.set("padding_mode", a.text("padding_mode", "zeros"));
  a.set("align_corners", a.integer("align_corners", 0));
  if (!row_of(modes, a.text("mode"))) c.fail("mode is '", a.text("mode"), "', expected linear, nearest or cubic");
  if (!row_of(paddings, a.text("padding_mode")))
    c.fail("padding_mode is '", a.text("padding_mode"), "', expected zeros, border or reflection");
  for (int i = 2; i < x.rank(); ++i)
    if (x[i] == 0) c.fail("x is ", x, ": an image without elements");
  Shape y{x[0], x[1]};
  y.dims.insert(y.dims.end(), grid.begin() + 1, grid.end() - 1);
  c.set_output(0, c.input(0).dtype, std::move(y));
}

std::vector<ValueId> expand_grid_sample(ExpandContext& e) {
  const TensorType x = e.type(e.x(0));
  const Shape grid = e.shape(e.x(1));
  const Attributes& a = e.attributes();
  const TapMode mode = row_of(modes, a.text("mode"))->mode;
  const Outside outside = row_of(paddings, a.text("padding_mode"))->outside;
  const bool aligned = a.integer("align_corners") != 0;
  const int axes = x.shape.rank() - 2;
  const std::int64_t places = product(grid, 1, grid.rank() - 1), elements = product(x.shape, 2, x.shape.rank());
  const DType weights = x.dtype == DType::float64 ? DType::float64 : DType::float32;
  // Where the nearest element is meant ties are what float32 makes of them, as elsewhere.
  const ValueId coordinates = cast(e, e.reshape(e.x(1), Shape{x.shape[0], places, axes}),
                                   mode == TapMode::nearest && elements < 1 << 22 ? weights : DType::float64);
  std::vector<Taps> taps;
  std::int64_t stride = elements;
  for (int i = 0; i < axes; ++i) {
    const std::int64_t size = x.shape[i + 2];
    stride /= size;
    const int k = axes - 1 - i;  // the grid names the last axis first
    const ValueId g = e.reshape(slice_axis(e, coordinates, 2, k, k + 1), Shape{x.shape[0], places});
    const double n = static_cast<double>(size);
    const ValueId place = aligned ? e.mul(e.add(g, 1.0), (n - 1) / 2) : e.mul(e.add(e.mul(e.add(g, 1.0), n), -1.0), 0.5);
    taps.push_back(taps_at(e, place, {size, stride, elements, aligned ? 0 : -0.5, aligned ? n - 1 : n - 0.5}, mode, outside, weights));
  }
  const JoinedTaps joined = join(e, taps);
  const ValueId rows = sample_rows(e, to_rows(e, e.x(0)), joined.index, joined.weight);
  return {from_rows(e, rows, Ints(grid.begin() + 1, grid.end() - 1))};
}

// Every operand has the samples on axis 0; one without them is there once for each.
void follow_first_axis(FollowContext& c) {
  BatchPlace place;
  for (int i = 0; i < c.inputs(); ++i) {
    if (!c.place(i).present()) continue;
    if (c.place(i).axis != 0) c.fail("the samples lie along axis ", c.place(i).axis, " of input ", i, ", which it works on as a whole");
    if (place.present() && place != c.place(i)) c.fail("its operands hold the samples at different places: samples would meet");
    place = c.place(i);
  }
  for (int i = 0; i < c.inputs(); ++i)
    if (c.has_input(i) && !c.place(i).present()) c.repeat(i, 0, place.outer);
  c.set(0, place);
}

void infer_affine_grid(InferContext& c) {
  if (!c.attributes().has("size")) c.fail("size must be known when the plan is made");
  const Ints size = static_ints(c.attributes(), "size");
  const int axes = static_cast<int>(std::ssize(size)) - 2;
  if (axes != 2 && axes != 3) c.fail("size is ", Shape(size), ", expected [N,C,H,W] or [N,C,D,H,W]");
  for (const std::int64_t d : size)
    if (d < 0 || d >= std::int64_t{1} << 31) c.fail("size is ", Shape(size));
  expect_shape(c, 0, Shape{size[0], axes, axes + 1});
  c.node().attributes.set("size", size);
  c.node().attributes.set("align_corners", c.attributes().integer("align_corners", 0));
  Shape y{size[0]};
  y.dims.insert(y.dims.end(), size.begin() + 2, size.end());
  y.dims.push_back(axes);
  c.set_output(0, c.input(0).dtype, std::move(y));
}

// grid[n, ..., i] = Σ_j theta[n,i,j] · base[..., j], base the coordinates (x, y, z) in [-1, 1] and 1
std::vector<ValueId> expand_affine_grid(ExpandContext& e) {
  const Ints& size = e.attributes().ints("size");
  const bool aligned = e.attributes().integer("align_corners") != 0;
  const int axes = static_cast<int>(std::ssize(size)) - 2;
  const Shape space(Ints(size.begin() + 2, size.end()));
  Tensor base = bounded_tensor({DType::float64, Shape{axes + 1, space.elements()}});
  const auto out = base.write<double>();
  for (std::int64_t place = 0; place < space.elements(); ++place)
    for (int j = 0; j <= axes; ++j) {
      double value = 1;
      if (const int axis = axes - 1 - j; axis >= 0) {
        const double n = static_cast<double>(space[axis]), i = static_cast<double>(place / product(space, axis + 1, axes) % space[axis]);
        value = aligned ? (n > 1 ? 2 * i / (n - 1) - 1 : 0) : (2 * i + 1) / n - 1;
      }
      out[static_cast<std::size_t>(j * space.elements() + place)] = value;
    }
  const DType dtype = e.type(e.x()).dtype;
  const ValueId known = e.graph().add_constant(
      e.node().name + "/base", is_float(dtype) && size_of(dtype) < 4 ? base.cast(DType::float32).cast(dtype) : base.cast(dtype));
  const ValueId grid = e.transpose(e.emit("MatMul", {e.x(), known}), {0, 2, 1});
  Shape y{size[0]};
  y.dims.insert(y.dims.end(), space.begin(), space.end());
  y.dims.push_back(axes);
  return {e.reshape(grid, y)};
}

}  // namespace

Operator grid_sample() {
  return {.name = "GridSample",
          .since = {16, 20, 22}, .inputs = {2, 2}, .types = {{"T1", types::all}, {"T2", types::floats}},
          .infer = infer_grid_sample,
          .follow = follow_first_axis,
          .expand = expand_grid_sample,
          .precision = PrecisionRole::parts, .operands = {{"X"}, {"grid"}}};
}

Operator affine_grid() {
  return {.name = "AffineGrid",
          .since = {20}, .inputs = {2, 2}, .types = {{"T1", types::floats}, {"T2", types::integers_64}},
          .infer = infer_affine_grid,
          .follow = follow_rows,
          .expand = expand_affine_grid,
          .static_operands = {{1, "size"}},
          .precision = PrecisionRole::parts, .operands = {{"theta"}, {"size", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
