// Parts of a tensor: Slice takes one, with steps; Split all of them, and is rewritten into Slices.
#include <algorithm>

#include "graph/operators/fold.h"
#include "graph/operators/gradient_rules.h"
#include "graph/place.h"

namespace tandem::operator_rows {
namespace {

// Bounds as numpy clamps them. A negative step's "before the first element" is written −size−1, which reads the same
// when it is clamped again; kernels go by starts, steps and the output's shape.
void infer_slice(InferContext& c) {
  const Shape& x = c.shape(0);
  if (!c.attributes().has("starts") || !c.attributes().has("ends")) c.fail("starts and ends must be known when the plan is made");
  Ints starts = static_ints(c.attributes(), "starts"), ends = static_ints(c.attributes(), "ends");
  Ints axes = static_ints(c.attributes(), "axes", all_axes(static_cast<int>(starts.size())));
  const Ints steps = static_ints(c.attributes(), "steps", Ints(starts.size(), 1));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    c.fail("starts, ends, axes and steps have ", starts.size(), ", ", ends.size(), ", ", axes.size(), " and ", steps.size(), " entries");
  axes_of(c, axes, x.rank());  // each once
  Shape y = x;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const int axis = axis_of(c, axes[i], x.rank());
    axes[i] = axis;
    const std::int64_t size = x[axis], step = steps[i];
    if (step == 0) c.fail("steps holds 0");
    const std::int64_t least = step > 0 ? 0 : -1, most = step > 0 ? size : size - 1;
    const auto clamp = [&](std::int64_t v) { return std::clamp(v < 0 ? v + size : v, least, std::max(least, most)); };
    const std::int64_t begin = clamp(starts[i]), end = clamp(ends[i]);
    const std::int64_t span = step > 0 ? end - begin : begin - end;
    const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : -static_cast<std::uint64_t>(step);
    y[axis] = span <= 0 ? 0 : static_cast<std::int64_t>((static_cast<std::uint64_t>(span) - 1) / stride) + 1;
    starts[i] = begin < 0 ? -size - 1 : begin;
    ends[i] = end < 0 ? -size - 1 : end;
  }
  Attributes& a = c.node().attributes;
  a.set("starts", starts);
  a.set("ends", ends);
  a.set("axes", axes);
  a.set("steps", steps);
  c.set_output(0, c.input(0).dtype, std::move(y));
}

Folded fold_slice(const FoldContext& c) {
  const Attributes& a = c.node.attributes;
  Ints strides = row_major_strides(c.inputs[0].shape());
  std::int64_t offset = 0;
  if (c.outputs[0].shape.elements() > 0) {
    for (std::size_t i = 0; i < a.ints("axes").size(); ++i) {
      std::int64_t& stride = strides[static_cast<std::size_t>(a.ints("axes")[i])];
      offset += a.ints("starts")[i] * stride;
      const bool several = c.outputs[0].shape[static_cast<int>(a.ints("axes")[i])] > 1;
      stride = several ? stride * a.ints("steps")[i] : 0;
    }
  }
  return std::vector{strided_copy(c.inputs[0], c.outputs[0].shape, offset, strides)};
}

// Sizes of the parts: `split`, or equal ones of which only the last may be smaller.
Ints part_sizes(const InferContext& c, std::int64_t size) {
  if (c.attributes().has("split")) {
    Ints sizes = static_ints(c.attributes(), "split");
    std::int64_t left = size;
    for (const std::int64_t s : sizes) {
      if (s < 0 || s > left) c.fail("split ", Shape(sizes), " does not add up to ", size);
      left -= s;
    }
    if (left != 0) c.fail("split ", Shape(sizes), " does not add up to ", size);
    if (static_cast<int>(sizes.size()) != c.outputs()) c.fail("split has ", sizes.size(), " entries for ", c.outputs(), " outputs");
    return sizes;
  }
  const std::int64_t parts = c.attributes().integer("num_outputs", c.outputs());
  if (parts < 1 || parts != c.outputs()) c.fail("num_outputs is ", parts, ", but there are ", c.outputs(), " outputs");
  const std::int64_t each = (size + parts - 1) / parts;
  Ints sizes;
  for (std::int64_t left = size; static_cast<int>(sizes.size()) < c.outputs(); left -= sizes.back()) sizes.push_back(std::min(each, left));
  return sizes;
}

std::vector<ValueId> expand_split(ExpandContext& e) {
  const int axis = static_cast<int>(e.attributes().integer("axis"));
  std::vector<ValueId> parts;
  std::int64_t begin = 0;
  for (const std::int64_t size : e.attributes().ints("split")) {
    parts.push_back(slice_axis(e, e.x(), axis, begin, begin + size));
    begin += size;
  }
  return parts;
}

// Where samples lie in a part of the axis that holds them: it is left in order, and cut only between runs of all samples.
BatchPlace follow_part(const FollowContext& c, std::int64_t begin, std::int64_t size) {
  const BatchPlace place = c.place();
  const std::int64_t whole = c.x()[place.axis], run = whole / place.outer;
  if (size == whole) return place;
  if (run == 0 || size == 0 || begin % run != 0 || size % run != 0)
    c.fail("it cuts axis ", place.axis, " of ", c.x(), ", which holds the samples");
  return {.axis = place.axis, .outer = size / run};
}

void follow_slice(FollowContext& c) {
  BatchPlace place = c.place();
  const Ints &axes = c.attributes().ints("axes"), &steps = c.attributes().ints("steps");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != place.axis) continue;
    if (steps[i] != 1 && c.x()[place.axis] > 1) c.fail("it cuts axis ", place.axis, " of ", c.x(), ", which holds the samples");
    place = follow_part(c, c.attributes().ints("starts")[i], c.y()[place.axis]);
  }
  c.set(0, place);
}

void follow_split(FollowContext& c) {
  if (c.place().axis != c.attributes().integer("axis")) return c.set_all(c.place());
  std::int64_t begin = 0;
  for (int i = 0; i < c.outputs(); ++i) {
    c.set(i, follow_part(c, begin, c.y(i)[c.place().axis]));
    begin += c.y(i)[c.place().axis];
  }
}

// In parts it is cut between runs, of whatever lengths.
void place_slice(PlaceContext& c) {
  const int axis = c.place().axis;
  const Ints &axes = c.attributes().ints("axes"), &steps = c.attributes().ints("steps");
  const auto cut = std::ranges::find(axes, axis) - axes.begin();
  if (cut == std::ssize(axes) || c.y()[axis] == c.x()[axis]) return follow_slice(c);
  const std::int64_t begin = c.attributes().ints("starts")[at(cut)], end = begin + c.y()[axis];
  Ints kept;
  std::int64_t place = 0, together = 0;
  for (const std::int64_t length : c.runs(0)) {
    if (place >= begin && place + length <= end) {
      kept.push_back(length);
      together += length;
    }
    place += length;
  }
  if (steps[at(cut)] != 1 || kept.empty() || together != c.y()[axis])
    c.fail("it cuts axis ", axis, " of ", c.x(), ", which holds the samples");
  c.set_runs(0, axis, std::move(kept));
}

// dy is some of the runs of x: the others are zeros.
void place_slice_backward(PlaceContext& c) {
  BatchPlace place = c.place();
  const Ints &axes = c.attributes().ints("axes"), &starts = c.attributes().ints("starts"), &steps = c.attributes().ints("steps");
  const std::int64_t whole = c.y()[place.axis], run = c.x()[place.axis] / place.outer;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != place.axis || c.x()[place.axis] == whole) continue;
    if (steps[i] != 1 || run == 0 || starts[i] % run != 0 || whole % run != 0)
      c.fail("axis ", place.axis, " of ", c.y(), " is cut between what is split");
    place.outer = whole / run;
  }
  c.set(0, place);
}

}  // namespace

// y = x[starts : ends : steps] along `axes`; dx = 0 but for those places
Operator slice() {
  return {.name = "Slice",
          .since = {1, 10, 11, 13},
          .inputs = {1, 5},
          .types = {{"T", types::all}, {"Tind", types::indices}},
          .infer = infer_slice,
          .follow = follow_slice,
          .place = place_slice,
          .linear = Linear::sum,
          .differentiate =
              [](GradientContext& g) {
                Attributes attributes = g.attributes();
                attributes.set("input_shape", g.shape(g.x()).dims);
                g.set_dx(g.emit("SliceBackward", {g.dy()}, attributes));
              },
          .fold = fold_slice,
          .static_operands = {{1, "starts"}, {2, "ends"}, {3, "axes"}, {4, "steps"}},
          .precision = PrecisionRole::follows,
          .operands = {{"data", OperandRole::view},
                       {"starts", OperandRole::index},
                       {"ends", OperandRole::index},
                       {"axes", OperandRole::index},
                       {"steps", OperandRole::index}}};
}

Operator slice_backward() {
  return {.name = "SliceBackward",
          .domain = "tandem",
          .since = {1},
          .infer = [](InferContext& c) { infer_gradient(c, "Slice", 1); },
          .place = place_slice_backward,
          .linear = Linear::first};
}

Operator split() {
  return {.name = "Split",
          .since = {1, 2, 11, 13, 18},
          .inputs = {1, 2},
          .outputs = {1, Arity::any},
          .types = {{"T", types::all}, {"I", types::integers_64}},
          .infer =
              [](InferContext& c) {
                const Shape& x = c.shape(0);
                if (c.has_input(1)) c.fail("split must be known when the plan is made");
                const int axis = axis_of(c, c.attributes().integer("axis", 0), x.rank());
                const Ints sizes = part_sizes(c, x[axis]);
                c.node().attributes.set("axis", std::int64_t{axis});
                c.node().attributes.set("split", sizes);
                for (int i = 0; i < c.outputs(); ++i) c.set_output(i, c.input(0).dtype, with_dim(c.shape(0), axis, sizes[at(i)]));
              },
          .follow = follow_split,
          .expand = expand_split,
          .fold = [](const FoldContext& c) -> Folded {
            const Ints strides = row_major_strides(c.inputs[0].shape());
            const int axis = static_cast<int>(c.node.attributes.integer("axis"));
            std::vector<Tensor> parts;
            std::int64_t begin = 0;
            for (const std::int64_t size : c.node.attributes.ints("split")) {
              parts.push_back(strided_copy(c.inputs[0], with_dim(c.inputs[0].shape(), axis, size), begin * strides[at(axis)], strides));
              begin += size;
            }
            return parts;
          },
          .static_operands = {{1, "split"}},
          .precision = PrecisionRole::parts,
          .operands = {{"input", OperandRole::view}, {"split", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
