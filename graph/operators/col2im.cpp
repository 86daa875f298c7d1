// Col2Im and CenterCropPad: images put together from blocks, and images of another size around the same centre.
#include "graph/operators/window.h"

namespace tandem::operator_rows {
namespace {

Ints list_of(const InferContext& c, const char* name, std::size_t entries, std::int64_t absent, std::int64_t least) {
  Ints list = c.attributes().ints(name, Ints(entries, absent));
  if (list.empty()) list.assign(entries, absent);
  if (list.size() != entries) c.fail(name, " has ", list.size(), " entries, expected ", entries);
  for (const std::int64_t v : list)
    if (v < least || v >= std::int64_t{1} << 31) c.fail(name, " holds ", v, ", expected at least ", least);
  return list;
}

void infer_col2im(InferContext& c) {
  expect_rank(c, 0, 3);
  const Shape& x = c.shape(0);
  Attributes& a = c.node().attributes;
  for (const char* name : {"image_shape", "block_shape"})
    if (!a.has(name)) c.fail(name, " must be known when the plan is made");
  const Ints image = static_ints(a, "image_shape"), block = static_ints(a, "block_shape");
  if (image.empty() || image.size() != block.size()) c.fail("image_shape has ", image.size(), " entries, block_shape ", block.size());
  for (const std::int64_t n : image)
    if (n < 1 || n >= std::int64_t{1} << 31) c.fail("image_shape is ", Shape(image));
  for (const std::int64_t n : block)
    if (n < 1 || n >= std::int64_t{1} << 20) c.fail("block_shape is ", Shape(block));
  const std::size_t rank = image.size();
  const Ints strides = list_of(c, "strides", rank, 1, 1), dilations = list_of(c, "dilations", rank, 1, 1),
             pads = list_of(c, "pads", 2 * rank, 0, 0);
  const std::int64_t taps = Shape(block).elements();
  if (x[1] % taps != 0) c.fail("x ", x, " has ", x[1], " rows, which are not channels of blocks ", Shape(block));
  Ints counts;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t room = image[i] + pads[i] + pads[i + rank] - (block[i] - 1) * dilations[i] - 1;
    if (room < 0) c.fail("a block spans more along axis ", i, " than the image ", Shape(image), " with its pads");
    counts.push_back(room / strides[i] + 1);
  }
  if (x[2] != Shape(counts).elements()) c.fail("x ", x, " has ", x[2], " blocks, expected ", Shape(counts));
  a.set("image_shape", image);
  a.set("block_shape", block);
  a.set("strides", strides);
  a.set("dilations", dilations);
  a.set("pads", pads);
  Shape y{x[0], x[1] / taps};
  y.dims.insert(y.dims.end(), image.begin(), image.end());
  c.set_output(0, c.input(0).dtype, std::move(y));
}

// A transposed convolution by channel, whose filter puts each element of a block in its place.
std::vector<ValueId> expand_col2im(ExpandContext& e) {
  const TensorType x = e.type(e.x());
  const Attributes& a = e.attributes();
  const Ints image = a.ints("image_shape"), block = a.ints("block_shape"), strides = a.ints("strides"), dilations = a.ints("dilations"),
             pads = a.ints("pads");
  const int rank = static_cast<int>(std::ssize(image));
  const std::int64_t taps = Shape(block).elements(), channels = x.shape[1] / taps;
  Shape blocks{x.shape[0], x.shape[1]}, filter{x.shape[1], 1};
  Ints beyond(at(2 * (rank + 2)), 0), whole(at(2 * rank), 0);  // pads are cut off at the end: they may be wider than a filter
  for (int i = 0; i < rank; ++i) {
    const std::int64_t extent = (block[at(i)] - 1) * dilations[at(i)] + 1, padded = image[at(i)] + pads[at(i)] + pads[at(i + rank)];
    blocks.dims.push_back((padded - extent) / strides[at(i)] + 1);
    filter.dims.push_back(block[at(i)]);
    beyond[at(i + 2)] = -pads[at(i)];
    beyond[at(rank + 2 + i + 2)] = image[at(i)] + pads[at(i)] - ((blocks.dims.back() - 1) * strides[at(i)] + extent);
  }
  Tensor places = bounded_tensor({DType::float32, filter});
  const auto out = places.write<float>();
  for (std::int64_t row = 0; row < filter[0]; ++row) out[static_cast<std::size_t>(row * taps + row % taps)] = 1;
  const DType dtype = is_float(x.dtype) ? x.dtype : DType::float64;
  const ValueId known = e.graph().add_constant(e.node().name + "/places", places.cast(dtype));
  const ValueId y = e.emit("ConvTranspose", {e.reshape(cast(e, e.x(), dtype), blocks), known},
                           {{"group", channels}, {"strides", strides}, {"dilations", dilations}, {"pads", whole}});
  return {cast(e, e.emit("Pad", {y}, {{"pads", beyond}}), x.dtype)};
}

void infer_center_crop_pad(InferContext& c) {
  const Shape& x = c.shape(0);
  Attributes& a = c.node().attributes;
  if (!a.has("shape")) c.fail("shape must be known when the plan is made");
  const Ints wanted = static_ints(a, "shape"), given = a.ints("axes", all_axes(x.rank()));
  if (wanted.size() != given.size()) c.fail("shape has ", wanted.size(), " entries, expected ", given.size());
  Shape y = x;
  Ints axes;
  for (std::size_t i = 0; i < given.size(); ++i) {
    axes.push_back(axis_of(c, given[i], x.rank()));
    if (wanted[i] < 0 || wanted[i] >= std::int64_t{1} << 31) c.fail("shape is ", Shape(wanted));
    y[static_cast<int>(axes.back())] = wanted[i];
  }
  axes_of(c, axes, x.rank());  // each once
  a.set("axes", all_axes(x.rank()));
  a.set("shape", y.dims);
  c.set_output(0, c.input(0).dtype, std::move(y));
}

std::vector<ValueId> expand_center_crop_pad(ExpandContext& e) {
  const Shape x = e.shape(e.x()), y(e.attributes().ints("shape"));
  Ints pads(at(2 * x.rank()), 0);
  for (int i = 0; i < x.rank(); ++i) {
    const std::int64_t more = y[i] - x[i], begin = more / 2;  // towards 0: the smaller half first
    pads[at(i)] = begin;
    pads[at(i + x.rank())] = more - begin;
  }
  return {e.emit("Pad", {e.x()}, {{"pads", pads}})};
}

}  // namespace

// y[n,c] = Σ of all blocks x[n, (c, k), block] where they lie in the image
Operator col2im() {
  return {.name = "Col2Im",
          .since = {18}, .inputs = {3, 3}, .types = {{"T", types::all}, {"tensor(int64)", types::integers_64}},
          .infer = infer_col2im,
          .follow = follow_rows,
          .expand = expand_col2im,
          .static_operands = {{1, "image_shape"}, {2, "block_shape"}},
          .precision = PrecisionRole::parts, .operands = {{"input"}}};
}

// y = x cut, or with zeros around it, to `shape`: as much on either side, the odd one behind
Operator center_crop_pad() {
  return {.name = "CenterCropPad",
          .since = {18}, .inputs = {2, 2}, .types = {{"T", types::all}, {"Tind", types::indices}},
          .infer = infer_center_crop_pad,
          .follow =
              [](FollowContext& c) {
                only_operand(c, 0);
                const int axis = c.place().axis;
                if (c.x()[axis] != c.y()[axis]) c.fail("it cuts or pads axis ", axis, " of ", c.x(), ", which holds the samples");
                c.set(0, c.place());
              },
          .expand = expand_center_crop_pad,
          .static_operands = {{1, "shape"}},
          .precision = PrecisionRole::parts, .operands = {{"input_data"}, {"shape", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
