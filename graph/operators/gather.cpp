// Picking by indices: Gather takes whole rows of an axis, GatherElements single elements. Their gradients add what was picked to where
// it came from, in the order of the indices, so that equal runs give equal bits.
#include "graph/marks.h"
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

// By indices, or of a table by what is not picked from; of one that is split where it is picked from each device has some rows, and zeros
// for the others.
void place_gather(PlaceContext& c) {
  const int axis = static_cast<int>(c.attributes().integer("axis"));
  if (!c.split(0, axis)) return follow_gather(c);
  if (c.split(1) || c.place(0).outer != 1) c.fail("its operands are split at different places");
  c.sum(0);
}

// Rows that are picked by parts of the indices are addends of the whole table's gradient.
void place_gather_backward(PlaceContext& c) {
  const int axis = static_cast<int>(c.attributes().integer("axis")), picked = c.x(1).rank();
  BatchPlace dy = c.place(0);
  const bool by_index = dy.present() && dy.axis >= axis && dy.axis < axis + picked;
  if (by_index || (c.split(1) && !dy.present())) {
    const BatchPlace indices = by_index ? BatchPlace{.axis = dy.axis - axis, .outer = dy.outer} : c.place(1);
    if (c.split(1) && c.place(1) != indices) c.fail("its operands are split at different places");
    if (!c.split(1)) c.need(1, indices);
    if (!dy.present()) c.need(0, {.axis = indices.axis + axis, .outer = indices.outer});
    return c.sum(0);
  }
  if (c.split(1)) c.fail("its operands are split at different places");
  if (dy.axis >= axis + picked) dy.axis -= picked - 1;
  c.set(0, dy);
}

// x as far as the indices reach: along other axes than the picked one they may be shorter.
Shape reached(const Shape& x, const Shape& indices, int axis) { return with_dim(indices, axis, x[axis]); }

Folded fold_gather_elements(const FoldContext& c) {
  const int axis = static_cast<int>(c.node.attributes.integer("axis"));
  const Shape &shape = c.inputs[0].shape(), &y = c.outputs[0].shape;
  const Tensor x = strided_copy(c.inputs[0], reached(shape, y, axis), 0, row_major_strides(shape));
  const std::int64_t size = shape[axis], count = y[axis], inner = product(y, axis + 1, y.rank());
  const std::size_t bytes = size_of(x.dtype());
  const Ints indices = c.inputs[1].to_int64s();
  Tensor out(c.outputs[0]);
  std::byte* const to = out.write().data();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::int64_t index = indices[i] < 0 ? indices[i] + size : indices[i], place = static_cast<std::int64_t>(i);
    if (index < 0 || index >= size) fail("GatherElements '", c.node.name, "': an index is outside [", -size, ",", size - 1, "]");
    const std::int64_t from = (place / inner / count * size + index) * inner + place % inner;
    std::copy_n(x.bytes().data() + static_cast<std::size_t>(from) * bytes, bytes, to + i * bytes);
  }
  return std::vector{out};
}

// Along other axes than the picked one an element comes from its own place, so x and the indices hold the samples at the same
// one. Along the picked axis the indices may hold them: then all pick from the same.
void follow_gather_elements(FollowContext& c) {
  const int axis = static_cast<int>(c.attributes().integer("axis"));
  if (c.place(0).present() && c.place(0).axis == axis) c.fail("it picks from axis ", axis, " of ", c.x(), ", which holds the samples");
  const BatchPlace place = c.place(0).present() ? c.place(0) : c.place(1);
  if (place.axis == axis) return c.set(0, place);
  if (c.place(0).present() && c.place(1).present() && c.place(0) != c.place(1))
    c.fail("its operands hold the samples at different places: samples would meet");
  for (int i = 0; i < 2; ++i) {
    if (c.x(i)[place.axis] != c.y()[place.axis])
      c.fail("input ", i, ' ', c.x(i), " and the output ", c.y(), " differ along the axis that holds the samples");
    if (!c.place(i).present()) c.repeat(i, place.axis, place.outer);
  }
  c.set(0, place);
}

// Parts of the indices along the picked axis reach the whole x: their gradients are addends.
void place_gather_elements_backward(PlaceContext& c) {
  const BatchPlace place = c.place(c.split(0) ? 0 : 1);
  for (int i = 0; i < 2; ++i) {
    if (!c.split(i)) c.need(i, place);
    if (c.split(i) && c.place(i) != place) c.fail("its operands are split at different places");
  }
  if (place.axis == static_cast<int>(c.attributes().integer("axis"))) return c.sum(0);
  if (c.x()[place.axis] != c.y()[place.axis]) c.fail("axis ", place.axis, " of its indices is shorter than that of its result");
  c.set(0, place);
}

// dy, but zero where the padding row was picked.
ValueId without_padding(GradientContext& g) {
  if (!g.attributes().has(padding_row)) return g.dy();
  const Shape indices = g.shape(g.x(1)), y = g.shape(g.dy());
  const auto axis = static_cast<int>(g.attributes().integer("axis"));
  Shape beside = indices;  // along the axes of y
  beside.dims.insert(beside.dims.end(), static_cast<std::size_t>(y.rank() - axis - indices.rank()), 1);
  const ValueId padding =
      g.emit("Equal", {g.x(1), g.scalar(static_cast<double>(g.attributes().integer(padding_row)), g.type(g.x(1)).dtype)});
  return g.emit("Where", {g.reshape(padding, beside), g.scalar(0, g.type(g.dy()).dtype), g.dy()});
}

// Indices of a table's whole as each device's part of it has them: 0 where the row is another's, and which are its own.
struct OwnRows {
  ValueId indices, are_own;
};
OwnRows own_rows(PartsContext& c, ValueId indices, std::int64_t rows, const Part& part) {
  const std::string key = concat("rows of ", indices.index, ' ', rows, ' ', to_string(part));
  if (const ValueId known = c.devices.known(key); known.present()) return {known, c.devices.known(concat("own ", key))};
  const DType dtype = c.type(indices).dtype;
  const MeshAxis mesh = c.mesh.as(part);
  Part one_each = Part::split(0);
  one_each.sizes.assign(mesh.sizes.size(), 1);
  const auto on_each = [&](std::string_view name, const auto& value) {  // a number for each device, of which it has its own
    Tensor all(TensorType{DType::int64, Shape{mesh.length()}});
    for (int p = 0; p < mesh.length(); ++p) all.write<std::int64_t>()[at(p)] = value(p) * (rows / mesh.total());
    const ValueId list = c.graph().add_constant(concat(name, " of ", c.graph()[indices].name), all.cast(dtype));
    c.devices.put(list, one_each, list);
    return c.emit_as({Spread::own}, list, "Slice", {list},
                     {{"starts", Ints{0}}, {"ends", Ints{1}}, {"axes", Ints{0}}, {"steps", Ints{1}}});
  };
  const ValueId begin = on_each("first row", [&](int p) { return mesh.begin(p); }),
                end = on_each("last row", [&](int p) { return mesh.begin(p) + mesh.sizes[at(p)]; });
  const auto own = [&](std::string_view op, std::vector<ValueId> in) { return c.emit_as({Spread::own}, indices, op, std::move(in)); };
  const ValueId zero = c.scalar(0, dtype);
  const auto whole = [&](std::string_view op, std::vector<ValueId> in) {
    return c.devices.put(c.emit(op, std::move(in)), {}, indices);
  };
  // negative ones count from the end
  const ValueId row =
      whole("Where", {whole("Less", {indices, zero}), whole("Add", {indices, c.scalar(static_cast<double>(rows), dtype)}), indices});
  const ValueId are_own = own("And", {own("Not", {own("Less", {row, begin})}), own("Less", {row, end})});
  const OwnRows found{own("Where", {are_own, own("Sub", {row, begin}), zero}), are_own};
  c.devices.known(key) = found.indices;
  c.devices.known(concat("own ", key)) = found.are_own;
  return found;
}

// What belongs to a device's own rows, along the axes of y, and zeros.
ValueId of_own_rows(PartsContext& c, const OwnRows& rows, ValueId y, int axis, Part part) {
  Shape beside = c.shape(rows.are_own);
  beside.dims.insert(beside.dims.end(), at(c.shape(y).rank() - axis - beside.rank()), 1);
  const ValueId mask = c.devices.put(c.reshape(rows.are_own, beside), {Spread::own}, rows.are_own);
  return c.emit_as(std::move(part), y, "Where", {mask, y, c.scalar(0, c.type(y).dtype)});
}

// Source: Shoeybi et al., "Megatron-LM", 2019 (embeddings in parts of the vocabulary).
void pick_own_rows(PartsContext& c) {
  const int axis = static_cast<int>(c.node.attributes.integer("axis"));
  const Part part = c.part(0);
  if (!part.is_split() || part.axis != axis || part.outer != 1 || c.part(1).is_split()) return;
  if (c.part(1) != Part{}) {  // each device picks by indices of its own
    c.node.inputs[0] = c.devices.transfer(c.node.inputs[0], {}, c.mesh);
    return;
  }
  const OwnRows rows = own_rows(c, c.node.inputs[1], c.shape(c.node.inputs[0])[axis], part);
  const ValueId y = c.emit_as({Spread::own}, c.node.outputs[0], "Gather", {c.node.inputs[0], rows.indices}, c.node.attributes);
  c.results = {of_own_rows(c, rows, y, axis, {Spread::partial})};
}

}  // namespace
}  // namespace tandem::operator_rows

bool tandem::gives_any_part(const Node& node, Part wanted) {
  return node.op->name == "GatherBackward" && wanted.is_split() && wanted.outer == 1 && wanted.axis == node.attributes.integer("axis");
}

tandem::ValueId tandem::part_of_result(PartsContext& c, Part wanted) {
  using namespace operator_rows;
  const ValueId dx = c.node.outputs[0];
  const OwnRows rows = own_rows(c, c.node.inputs[1], c.shape(dx)[wanted.axis], wanted);
  const ValueId dy = of_own_rows(c, rows, c.node.inputs[0], wanted.axis, {Spread::own});
  return c.emit_as(wanted, dx, "GatherBackward", {dy, rows.indices}, c.node.attributes);
}

namespace tandem::operator_rows {

// y = x[..., indices, ...] along axis; dx sums the rows of dy into the places they came from
Operator gather() {
  return {.name = "Gather",
          .since = {1, 11, 13}, .inputs = {2, 2}, .types = {{"T", types::all}, {"Tind", types::indices}},
          .infer =
              [](InferContext& c) {
                const Shape &x = c.shape(0), &indices = c.shape(1);
                const int axis = axis_of(c, c.attributes().integer("axis", 0), x.rank());
                if (c.input(1).dtype != DType::int64 && c.input(1).dtype != DType::int32)
                  c.fail("indices are ", c.input(1), ", expected int32 or int64");
                Shape y(Ints(x.begin(), x.begin() + axis));
                y.dims.insert(y.dims.end(), indices.begin(), indices.end());
                y.dims.insert(y.dims.end(), x.begin() + axis + 1, x.end());
                c.node().attributes.set("axis", std::int64_t{axis});
                c.set_output(0, c.input(0).dtype, std::move(y));
              },
          .follow = follow_gather,
          .place = place_gather,
          .by_parts = pick_own_rows,
          .differentiate =
              [](GradientContext& g) {
                Attributes attributes{{"axis", g.attributes().integer("axis")}, {"input_shape", g.shape(g.x(0)).dims}};
                if (g.wants(0)) g.set_dx(0, g.emit("GatherBackward", {without_padding(g), g.x(1)}, std::move(attributes)));
              },
          .fold = fold_gather,
          .precision = PrecisionRole::follows,
          .operands = {{"data", OperandRole::embedding}, {"indices", OperandRole::positions}}};
}

// y[i, j, k] = x[indices[i, j, k], j, k] where axis is 0, and so on; dx sums each element of dy into the place it came from
Operator gather_elements() {
  return {.name = "GatherElements",
          .since = {11, 13}, .inputs = {2, 2}, .types = {{"T", types::all}, {"Tind", types::indices}},
          .infer =
              [](InferContext& c) {
                const Shape &x = c.shape(0), &indices = c.shape(1);
                const int axis = axis_of(c, c.attributes().integer("axis", 0), x.rank());
                if (c.input(1).dtype != DType::int64 && c.input(1).dtype != DType::int32)
                  c.fail("indices are ", c.input(1), ", expected int32 or int64");
                expect_rank(c, 1, x.rank());
                for (int i = 0; i < x.rank(); ++i)
                  if (i != axis && indices[i] > x[i]) c.fail("indices ", indices, " reach beyond data ", x, " along axis ", i);
                c.node().attributes.set("axis", std::int64_t{axis});
                c.set_output(0, c.input(0).dtype, indices);
              },
          .follow = follow_gather_elements,
          .differentiate =
              [](GradientContext& g) {
                Attributes attributes{{"axis", g.attributes().integer("axis")}, {"input_shape", g.shape(g.x(0)).dims}};
                if (g.wants(0)) g.set_dx(0, g.emit("GatherElementsBackward", {g.dy(), g.x(1)}, std::move(attributes)));
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const Shape x = e.shape(e.x(0)), wanted = reached(x, e.shape(e.x(1)), static_cast<int>(e.attributes().integer("axis")));
            if (wanted == x) return {};
            ValueId part = e.x(0);
            for (int i = 0; i < x.rank(); ++i) part = slice_axis(e, part, i, 0, wanted[i]);
            return {e.emit("GatherElements", {part, e.x(1)}, e.attributes())};
          },
          .fold = fold_gather_elements,
          .precision = PrecisionRole::follows,
          .operands = {{"data", OperandRole::embedding}, {"indices", OperandRole::positions}}};
}

Operator gather_backward() {
  return {.name = "GatherBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = [](InferContext& c) { infer_gradient(c, "Gather", 1); },
          .place = place_gather_backward,
          .linear = Linear::first};
}

Operator gather_elements_backward() {
  return {.name = "GatherElementsBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = [](InferContext& c) { infer_gradient(c, "GatherElements", 1); },
          .place = place_gather_elements_backward,
          .linear = Linear::first};
}

}  // namespace tandem::operator_rows
