// DeformConv: a convolution whose kernel's elements are read at places of their own, as a pointwise convolution of what was read.
#include "graph/operators/sampling.h"
#include "graph/operators/window.h"

namespace tandem::operator_rows {
namespace {

void infer_deform_conv(InferContext& c) {
  const Shape &x = c.shape(0), &w = c.shape(1);
  for (int i = 1; i < 5; ++i)
    if (c.has_input(i)) expect_dtype(c, i, c.input(0).dtype);
  if (w.rank() < 3) c.fail("the weight is ", c.input(1), ", expected [M,C/group,...]");
  WindowAttributes window = read_window(c, Ints(w.begin() + 2, w.end()));
  const std::int64_t group = c.attributes().integer("group", 1), offset_group = c.attributes().integer("offset_group", 1);
  if (group < 1 || x[1] % group != 0 || w[0] % group != 0 || w[1] != x[1] / group)
    c.fail("x ", x, " has ", x[1], " channels in ", group, " groups, but the weight is ", w);
  if (offset_group < 1 || x[1] % offset_group != 0)
    c.fail("offset_group is ", offset_group, ", which does not divide the ", x[1], " channels of x ", x);
  const Shape counts = window_counts(c, window, x, false);
  const std::int64_t taps = Shape(window.kernel).elements();
  const auto by_place = [&](std::int64_t channels) {
    Shape shape{x[0], channels};
    shape.dims.insert(shape.dims.end(), counts.begin(), counts.end());
    return shape;
  };
  for (int i = 2; i < x.rank(); ++i)
    if (x[i] == 0) c.fail("x is ", x, ": an image without elements");
  expect_shape(c, 2, by_place(offset_group * taps * window.rank()));
  if (c.has_input(3)) expect_shape(c, 3, Shape{w[0]});
  if (c.has_input(4)) expect_shape(c, 4, by_place(offset_group * taps));
  write_window(c, window);
  c.node().attributes.set("group", group);
  c.node().attributes.set("offset_group", offset_group);
  c.set_output(0, c.input(0).dtype, by_place(w[0]));
}

std::vector<ValueId> expand_deform_conv(ExpandContext& e) {
  const TensorType x = e.type(e.x(0));
  const Attributes& a = e.attributes();
  const Ints kernel = a.ints("kernel_shape"), strides = a.ints("strides"), dilations = a.ints("dilations"), pads = a.ints("pads");
  const int axes = static_cast<int>(std::ssize(kernel));
  const Shape offsets = e.shape(e.x(2)), counts(Ints(offsets.begin() + 2, offsets.end())), window(kernel);
  const std::int64_t groups = a.integer("offset_group"), taps = window.elements(), places = counts.elements(), batch = x.shape[0] * groups;
  const std::int64_t channels = x.shape[1] / groups, elements = product(x.shape, 2, x.shape.rank());
  const DType weights = x.dtype == DType::float64 ? DType::float64 : DType::float32;
  const ValueId moved = cast(e, e.reshape(e.x(2), Shape{batch, taps, axes, places}), DType::float64);
  std::vector<Taps> along;
  std::int64_t stride = elements;
  for (int d = 0; d < axes; ++d) {
    const std::int64_t size = x.shape[d + 2];
    stride /= size;
    Tensor base = bounded_tensor({DType::float64, Shape{taps, places}});  // where the element is that is not moved
    const auto out = base.write<double>();
    for (std::int64_t i = 0; i < taps * places; ++i) {
      const std::int64_t tap = i / places / product(window, d + 1, axes) % window[d],
                         place = i % places / product(counts, d + 1, axes) % counts[d];
      out[static_cast<std::size_t>(i)] = static_cast<double>(place * strides[at(d)] + tap * dilations[at(d)] - pads[at(d)]);
    }
    const ValueId offset = e.reshape(slice_axis(e, moved, 2, d, d + 1), Shape{batch, taps, places});
    const ValueId place = e.add(offset, e.graph().add_constant(e.node().name + "/base", std::move(base)));
    along.push_back(taps_at(e, e.reshape(place, Shape{batch, taps * places}), {size, stride, elements, 0, static_cast<double>(size - 1)},
                            TapMode::linear, Outside::zeros, weights));
  }
  JoinedTaps joined = join(e, along);
  if (e.has_x(4)) joined.weight = e.mul(joined.weight, cast(e, e.reshape(e.x(4), Shape{batch, taps * places, 1}), weights));
  Shape grouped = x.shape;
  grouped[0] = batch;
  grouped[1] = channels;
  // [N·groups, taps·places, channels]
  const ValueId read = sample_rows(e, to_rows(e, e.reshape(e.x(0), grouped)), joined.index, joined.weight);
  const ValueId by_channel = e.transpose(e.reshape(read, Shape{batch, taps, places, channels}), {0, 3, 1, 2});
  Shape columns{x.shape[0], x.shape[1] * taps}, filter{e.shape(e.x(1))[0], e.shape(e.x(1))[1] * taps};
  columns.dims.insert(columns.dims.end(), counts.begin(), counts.end());
  filter.dims.insert(filter.dims.end(), at(axes), 1);
  std::vector<ValueId> operands{e.reshape(by_channel, columns), e.reshape(e.x(1), filter)};
  if (e.has_x(3)) operands.push_back(e.x(3));
  return {e.emit("Conv", operands, {{"group", a.integer("group")}})};
}

void follow_deform_conv(FollowContext& c) {
  BatchPlace place;
  for (const int i : {0, 2, 4}) {
    if (!c.place(i).present()) continue;
    if (c.place(i).axis != 0) c.fail("the samples lie along axis ", c.place(i).axis, " of input ", i, ", which it works on as a whole");
    if (place.present() && place != c.place(i)) c.fail("its operands hold the samples at different places: samples would meet");
    place = c.place(i);
  }
  for (const int i : {1, 3})
    if (c.place(i).present()) c.fail("its input ", i, " holds samples, too");
  for (const int i : {0, 2, 4})
    if (c.has_input(i) && !c.place(i).present()) c.repeat(i, 0, place.outer);
  c.set(0, place);
}

}  // namespace

// y[n,m,o] = b[m] + Σ_{c,k} w[m,c,k] · mask[n,k,o] · x[n, c, o·stride + k·dilation − pad + offset[n,k,o]], x read between its elements
Operator deform_conv() {
  return {.name = "DeformConv",
          .since = {19, 22}, .inputs = {3, 5}, .types = {{"T", types::floats}},
          .infer = infer_deform_conv,
          .follow = follow_deform_conv,
          .expand = expand_deform_conv,
          .precision = PrecisionRole::parts,
          .operands = {{"X"}, {"W", OperandRole::filter}, {"offset"}, {"B", OperandRole::bias}, {"mask"}}};
}

}  // namespace tandem::operator_rows
