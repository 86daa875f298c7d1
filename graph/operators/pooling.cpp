// Maximum and mean over sliding windows. While a model trains MaxPool keeps where each maximum was, in a form that its kernel
// chooses.
#include "graph/operators/gradient_rules.h"
#include "graph/operators/window.h"

namespace tandem::operator_rows {
namespace {

// The pooled shape; leaves the attributes as kernels take them.
Shape pooled(InferContext& c) {
  auto [window, y] = pool_input(c);
  if (c.attributes().integer("count_include_pad", 0) == 0) clip_window(window, c.shape(0), Shape(Ints(y.begin() + 2, y.end())));
  write_window(c, window);
  return y;
}

double pooling_flops(const Graph& graph, const Node& n) {
  double window = 1;
  for (const std::int64_t k : n.attributes.ints("kernel_shape")) window *= static_cast<double>(k);
  return window * static_cast<double>(graph[n.outputs[0]].type.shape.elements());
}

double pooling_backward_flops(const Graph& graph, const Node& n) {
  double window = 1;
  for (const std::int64_t k : n.attributes.ints("kernel_shape")) window *= static_cast<double>(k);
  return window * static_cast<double>(graph[n.inputs[0]].type.shape.elements());
}

Attributes with_input_shape(GradientContext& g) {
  Attributes attributes = g.attributes();
  attributes.set("input_shape", g.shape(g.x()).dims);
  return attributes;
}

// Where padding counts, what lies beside x in all windows is left out of the sum, and counted by a factor.
std::vector<ValueId> clipped_with_padding(ExpandContext& e) {
  const Attributes& a = e.attributes();
  if (a.integer("count_include_pad", 0) == 0 || a.integer("ceil_mode", 0) != 0)
    return {};  // of a last window that ceil_mode appends, fewer elements count
  const Shape x = e.shape(e.x());
  const WindowAttributes whole{a.ints("kernel_shape"), a.ints("strides"), a.ints("pads"), a.ints("dilations")};
  Shape counts;
  for (int i = 0; i < whole.rank(); ++i)
    counts.dims.push_back((x[i + 2] + whole.pads[at(i)] + whole.pads[at(i + whole.rank())] - whole.extent(i)) / whole.strides[at(i)] + 1);
  WindowAttributes clipped = whole;
  clip_window(clipped, x, counts);
  if (clipped.kernel == whole.kernel) return {};
  double share = 1;
  for (int i = 0; i < whole.rank(); ++i) share *= static_cast<double>(clipped.kernel[at(i)]) / static_cast<double>(whole.kernel[at(i)]);
  Attributes attributes = a;
  attributes.set("kernel_shape", clipped.kernel);
  attributes.set("pads", clipped.pads);
  return {e.mul(e.emit("AveragePool", {e.x()}, attributes), share)};
}

// A window is of one channel of one sample.
void place_images(PlaceContext& c) {
  if (c.place().axis > 1) c.fail("axis ", c.place().axis, " of ", c.x(), " is split, over which its windows slide");
  place_as_first(c);
}

// Where each device knows the maxima of its part, it takes that of the gradient.
void take_part_of_gradient(PartsContext& c) {
  const Part y = c.devices.part(c.graph()[c.graph()[c.node.inputs[1]].producer].outputs[0]);
  if (c.part(1).spread == Spread::own && c.part(0) == Part{} && y.is_split())
    c.node.inputs[0] = c.devices.transfer(c.node.inputs[0], y, c.mesh);
}

}  // namespace

// y = max over the window; Indices number x's elements over the whole tensor. Training keeps where each maximum was.
Operator max_pool() {
  return {.name = "MaxPool",
          .since = {1, 8, 10, 11, 12, 22}, .outputs = {1, 2}, .types = {{"T", types::pixels}},
          .infer =
              [](InferContext& c) {
                const Shape y = pooled(c);
                c.set_output(0, c.input(0).dtype, y);
                c.set_output(1, DType::int64, y);
              },
          .follow =
              [](FollowContext& c) {
                follow_rows(c);
                c.set(1, c.place());
              },
          .place =
              [](PlaceContext& c) {
                if (c.outputs() > 1 && c.place().axis != 0) c.fail("its indices number the elements of whole samples");
                place_images(c);
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            if (!e.training || !is_float(e.type(e.x()).dtype) || e.attributes().integer("indices_alone", 0) != 0) return {};
            std::vector<ValueId> y{e.emit("MaxPoolTraining", {e.x()}, e.attributes(), 2)[0]};
            const std::vector<ValueId>& outputs = e.node().outputs;
            if (outputs.size() < 2) return y;
            Attributes of_indices = e.attributes();
            of_indices.set("indices_alone", std::int64_t{1});  // no gradient flows through this node: it stays as it is
            y.push_back(outputs[1].present() ? e.emit("MaxPool", {e.x()}, std::move(of_indices), 2)[1] : ValueId{});
            return y;
          },
          .flops = pooling_flops,
          .precision = PrecisionRole::follows, .operands = {{"X"}}};
}

// y, and for the backward pass an opaque mask or list of indices
Operator max_pool_training() {
  return {.name = "MaxPoolTraining",
          .domain = "tandem",
          .since = {1},
          .outputs = {2, 2},
          .infer =
              [](InferContext& c) {
                c.set_output(0, c.input(0).dtype, pooled(c));
                c.set_opaque_output(1);
              },
          .place = place_images,
          .differentiate = [](GradientContext& g) { g.set_dx(g.emit("MaxPoolBackward", {g.dy(), g.y(1)}, with_input_shape(g))); },
          .flops = pooling_flops,
          .precision = PrecisionRole::follows};
}

Operator max_pool_backward() {
  return {.name = "MaxPoolBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = [](InferContext& c) { infer_gradient(c, "MaxPoolTraining", 2); },
          .place = place_images,
          .by_parts = take_part_of_gradient,
          .flops = pooling_backward_flops};
}

// y = mean over the window: of all its places (count_include_pad, where ceil_mode's overhang never counts) or of those
// inside x
Operator average_pool() {
  return {.name = "AveragePool",
          .since = {1, 7, 10, 11, 19, 22}, .types = {{"T", types::floats}},
          .infer = [](InferContext& c) { c.set_output(0, c.input(0).dtype, pooled(c)); },
          .follow = follow_rows,
          .place = place_images,
          .differentiate = [](GradientContext& g) { g.set_dx(g.emit("AveragePoolBackward", {g.dy()}, with_input_shape(g))); },
          .expand = clipped_with_padding,
          .flops = pooling_flops,
          .precision = PrecisionRole::follows, .operands = {{"X"}}};
}

Operator average_pool_backward() {
  return {.name = "AveragePoolBackward",
          .domain = "tandem",
          .since = {1},
          .infer = [](InferContext& c) { infer_gradient(c, "AveragePool", 1); },
          .place = place_images,
          .flops = pooling_backward_flops};
}

}  // namespace tandem::operator_rows
