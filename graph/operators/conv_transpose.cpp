// Transposed convolution: what convolution's gradient with respect to its input computes. Its own gradients are a convolution and
// ConvolutionBackwardWeights with the operands' places exchanged.
#include <algorithm>

#include "graph/operators/window.h"

namespace tandem::operator_rows {
namespace {

// Along each axis: y = stride·(x − 1) + output_padding + extent − pads. An output_shape (or auto_pad SAME) decides
// the pads instead; where even no pads give too little, output_padding makes up for it.
void infer_conv_transpose(InferContext& c) {
  const Shape &x = c.shape(0), &w = c.shape(1);
  expect_dtype(c, 1, c.input(0).dtype);
  if (w.rank() < 3) c.fail("the weight is ", c.input(1), ", expected [C,M/group,...]");
  WindowAttributes window = read_window(c, Ints(w.begin() + 2, w.end()));
  const int rank = window.rank();
  const std::int64_t group = c.attributes().integer("group", 1);
  if (group < 1 || x[1] % group != 0) c.fail("group is ", group, ", which does not divide the ", x[1], " input channels");
  if (w[0] != x[1]) c.fail("x ", x, " has ", x[1], " channels, the weight ", w, " takes ", w[0]);
  const std::int64_t channels = w[1] * group;
  if (c.has_input(2)) {
    expect_dtype(c, 2, c.input(0).dtype);
    expect_shape(c, 2, Shape{channels});
  }
  Ints output_padding = c.attributes().ints("output_padding", Ints(at(rank), 0));
  if (output_padding.empty()) output_padding.assign(at(rank), 0);
  if (output_padding.size() != at(rank)) c.fail("output_padding has ", output_padding.size(), " entries, expected ", rank);
  for (const std::int64_t p : output_padding)
    if (p < 0 || p >= std::int64_t{1} << 31) c.fail("output_padding holds ", p);

  const std::string mode = c.attributes().text("auto_pad", "NOTSET");
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  Ints wanted = c.attributes().ints("output_shape", {});
  if (wanted.size() == at(rank + 2)) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != at(rank)) c.fail("output_shape has ", wanted.size(), " entries, expected ", rank);
  for (const std::int64_t size : wanted)
    if (size < 0 || size > longest_axis) c.fail("output_shape holds ", size);
  if (mode == "VALID") window.pads.assign(at(2 * rank), 0);
  if (same && wanted.empty())
    for (int i = 0; i < rank; ++i) wanted.push_back(x[i + 2] * window.strides[at(i)]);

  Shape y{x[0], channels};
  for (int i = 0; i < rank; ++i) {
    const std::int64_t whole = window.strides[at(i)] * (x[i + 2] - 1) + output_padding[at(i)] + window.extent(i);
    std::int64_t &begin = window.pads[at(i)], &end = window.pads[at(i + rank)];
    if (!wanted.empty()) {
      const std::int64_t total = whole - wanted[at(i)];
      if (total < 0) output_padding[at(i)] -= total;
      const std::int64_t pads = std::max<std::int64_t>(0, total);
      begin = mode == "SAME_UPPER" ? pads / 2 : pads - pads / 2;
      end = pads - begin;
    }
    const std::int64_t size = wanted.empty() ? whole - begin - end : wanted[at(i)];
    if (size < 0 || size > longest_axis) c.fail("spatial axis ", i, " would have size ", size);
    y.dims.push_back(size);
  }
  Attributes& a = c.node().attributes;
  a.erase("auto_pad");
  a.erase("output_shape");
  a.set("output_padding", output_padding);
  a.set("group", group);
  write_window(c, window);
  c.set_output(0, c.input(0).dtype, std::move(y));
}

// dy without what output_padding added beyond every window, so that a convolution with the same window gives x's size.
ValueId windowed(GradientContext& g) {
  ValueId dy = g.dy();
  const Ints& padding = g.attributes().ints("output_padding");
  const Ints& strides = g.attributes().ints("strides");
  for (std::size_t i = 0; i < padding.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    if (padding[i] >= strides[i]) dy = slice_axis(g, dy, axis, 0, std::max<std::int64_t>(0, g.shape(dy)[axis] - padding[i]));
  }
  return dy;
}

void follow_conv_transpose(FollowContext& c) {
  if (!follow_groups(c, {1, 0, 0}, {1})) follow_rows(c);
}

}  // namespace

// The transpose of Conv: y[n,m,o] = b[m] + Σ x[n,c,i] · w[c,m,k] over o = i·stride + k·dilation − pad.
// dx = conv(dy, w); dw is the weight gradient of a convolution that takes dy to x.
Operator conv_transpose() {
  return {.name = "ConvTranspose",
          .since = {1, 11, 22}, .inputs = {2, 3}, .types = {{"T", types::floats}},
          .infer = infer_conv_transpose,
          .follow = follow_conv_transpose,
          .differentiate =
              [](GradientContext& g) {
                Attributes window;
                for (const char* name : {"kernel_shape", "strides", "pads", "dilations"}) window.set(name, g.attributes().ints(name));
                window.set("group", g.attributes().integer("group"));
                if (g.wants(0) || g.wants(1)) {
                  const ValueId dy = windowed(g);
                  if (g.wants(0)) g.set_dx(0, g.emit("Conv", {dy, g.x(1)}, window));
                  window.set("weight_shape", g.shape(g.x(1)).dims);
                  if (g.wants(1)) g.set_dx(1, g.emit("ConvolutionBackwardWeights", {dy, g.x(0)}, window));
                }
                if (g.wants(2)) {
                  Ints axes = all_axes(g.shape(g.dy()).rank());
                  axes.erase(axes.begin() + 1);
                  g.set_dx(2, g.reduce_sum(g.dy(), axes, false));
                }
              },
          .flops =
              [](const Graph& graph, const Node& n) {
                const Shape& w = graph[n.inputs[1]].type.shape;
                return 2.0 * static_cast<double>(graph[n.inputs[0]].type.shape.elements()) * static_cast<double>(product(w, 1, w.rank()));
              },
          .precision = PrecisionRole::narrow,
          .operands = {{"X"}, {"W", OperandRole::transposed_filter}, {"B", OperandRole::bias}}};
}

}  // namespace tandem::operator_rows
