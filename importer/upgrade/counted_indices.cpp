#include "importer/upgrade/counted_indices.h"

#include <algorithm>
#include <optional>

#include "graph/operators/rules.h"

namespace tandem {
namespace {

// Whether the first coordinate of every tuple is its place along `axis`.
bool counts(const Tensor& tuples, int axis) {
  const Shape& shape = tuples.shape();
  const std::int64_t length = shape[axis], inner = product(shape, axis + 1, shape.rank()), step = shape[shape.rank() - 1];
  const auto values = tuples.values<std::int64_t>();
  for (std::int64_t i = 0; i < tuples.elements(); i += step)
    if (values[static_cast<std::size_t>(i)] != i / inner % length) return false;
  return true;
}

// The tuples without their first coordinate.
Tensor rest_of(const Tensor& tuples) {
  Shape shape = tuples.shape();
  const auto step = static_cast<std::size_t>(shape.dims.back()--);
  Tensor rest(TensorType{DType::int64, shape});
  const auto from = tuples.values<std::int64_t>();
  const auto to = rest.write<std::int64_t>();
  for (std::size_t i = 0, j = 0; i < from.size(); ++i)
    if (i % step != 0) to[j++] = from[i];
  return rest;
}

// What the tuples' coordinates are joined from.
std::vector<ValueId> parts_of(const Graph& graph, ValueId indices) {
  const NodeId made = graph[indices].producer;
  const int last = graph[indices].type.shape.rank() - 1;
  if (made.present() && graph[made].op->name == "Concat" && graph[made].attributes.integer("axis") == last) return graph[made].inputs;
  return {indices};
}

// y = x[..., all places of axis `axis` in order, ...] is x in another shape: how PyTorch's exporter writes as_strided and masks.
void become_view(UpgradeContext& c, int axis, const Shape& places) {
  const Shape x = c.shape(0);
  Shape y(Ints(x.begin(), x.begin() + axis));
  y.dims.insert(y.dims.end(), places.begin(), places.end());
  y.dims.insert(y.dims.end(), x.begin() + axis + 1, x.end());
  c.draft.op = "Reshape";
  c.draft.attributes = {{"shape", y.dims}, {"allowzero", std::int64_t{1}}};
  c.draft.inputs.resize(1);
}

// Whether the numbers are 0, 1, … `length` − 1, again and again.
bool counts_through(const Tensor& numbers, std::int64_t length) {
  if (numbers.elements() % std::max<std::int64_t>(1, length) != 0) return false;
  const Ints values = numbers.to_int64s();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != static_cast<std::int64_t>(i) % length) return false;
  return !values.empty();
}

// Whether the tuples are all places of the first axes of x in order, as a mask that hides none picks them.
bool all_places(const Tensor& tuples, const Shape& x) {
  const auto axes = static_cast<int>(tuples.shape()[tuples.shape().rank() - 1]);
  if (axes < 1 || axes > x.rank() || tuples.elements() / axes != product(x, 0, axes)) return false;
  const auto values = tuples.values<std::int64_t>();
  for (std::int64_t i = 0; i < tuples.elements(); i += axes)
    for (std::int64_t axis = axes - 1, place = i / axes; axis >= 0; place /= x[static_cast<int>(axis--)])
      if (values[static_cast<std::size_t>(i + axis)] != place % x[static_cast<int>(axis)]) return false;
  return tuples.elements() > 0;
}

// Picking all places gives x in another shape, writing to all of them gives what is written.
bool all_become_view(UpgradeContext& c, const Tensor& tuples) {
  const Shape x = c.shape(0), indices = tuples.shape();
  const bool picks = c.draft.op == "GatherND",
             replaces = c.draft.inputs.size() == 3 && c.draft.attributes.text("reduction", "none") == "none";
  if ((!picks && !replaces) || !all_places(tuples, x)) return false;
  Shape y = x;
  if (picks) y = Shape(Ints(indices.begin(), indices.end() - 1));
  if (picks) y.dims.insert(y.dims.end(), x.begin() + indices[indices.rank() - 1], x.end());
  if (!picks && c.shape(2).elements() != x.elements()) return false;  // the shape rule says what is wrong
  if (indices.rank() > 1 && indices[0] == x[0]) c.draft.counted.push_back({c.draft.inputs[1], 0});
  c.draft.op = "Reshape";
  c.draft.attributes = {{"shape", y.dims}, {"allowzero", std::int64_t{1}}};
  c.draft.inputs = {c.draft.inputs[picks ? 0 : 2]};
  return true;
}

// Axis `axis` of x as [parts, rows].
ValueId in_parts(UpgradeContext& c, int axis, std::int64_t rows) {
  Shape shape = c.shape(0);
  const std::int64_t parts = shape[axis] / rows;
  shape.dims[static_cast<std::size_t>(axis)] = rows;
  shape.dims.insert(shape.dims.begin() + axis, parts);
  const Value& x = c.graph()[c.draft.inputs[0]];
  if (x.kind == ValueKind::constant) return c.graph().add_constant(concat(c.draft.name, "/parts"), x.data->reshaped(shape));
  return c.reshape(c.draft.inputs[0], shape);
}

// Rows that numbers [parts, ...] reach into where number i of the axis begins behind i · rows; 0: they are not of that kind.
std::int64_t rows_of_parts(const Ints& numbers, std::int64_t parts, std::int64_t length) {
  if (parts < 1 || numbers.empty() || length % parts != 0) return 0;
  const std::int64_t rows = length / parts;
  const std::size_t inner = numbers.size() / static_cast<std::size_t>(parts);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::int64_t within = numbers[i % inner];
    if (within < 0 || within >= rows || numbers[i] != within + static_cast<std::int64_t>(i / inner) * rows) return 0;
  }
  return rows;
}

// The sum of which the indices are another view, where one addend is known.
struct Offset {
  ValueId indices, known;
  Shape shape;
};
std::optional<Offset> offset_of(const Graph& graph, ValueId v) {
  while (graph[v].producer.present()) {
    const Node& node = graph[graph[v].producer];
    const std::string_view op = node.op->name;
    if (op == "Add" && node.inputs.size() == 2) {
      for (const int k : {0, 1})
        if (graph[node.inputs[static_cast<std::size_t>(k)]].kind == ValueKind::constant)
          return Offset{node.inputs[static_cast<std::size_t>(1 - k)], node.inputs[static_cast<std::size_t>(k)], graph[v].type.shape};
      return std::nullopt;
    }
    if (op != "Reshape" && op != "Unsqueeze" && op != "Squeeze" && op != "Flatten" && op != "Identity") return std::nullopt;
    v = node.inputs[0];
  }
  return std::nullopt;
}

// The column [R,1,...] that was expanded to the indices, where these name whole rows of x; absent where it was not.
ValueId column_of(const Graph& graph, ValueId indices, const Shape& x) {
  const Value& v = graph[indices];
  if (!v.producer.present() || graph[v.producer].op->name != "Expand" || v.type.shape.rank() != x.rank()) return {};
  const ValueId column = graph[v.producer].inputs[0];
  const Shape& from = graph[column].type.shape;
  for (int axis = 1; axis < x.rank(); ++axis)
    if (v.type.shape[axis] != x[axis]) return {};
  return from.rank() == x.rank() && from[0] == v.type.shape[0] && from.elements() == from[0] ? column : ValueId{};
}

// Indices of one coordinate, of shape `places`, into rows of all samples: where the sample's offset is a known addend, each sample picks
// from, or adds to, its own rows.
void take_out_offset(UpgradeContext& c, ValueId indices, const Shape& places) {
  const Shape x = c.shape(0);
  const std::optional<Offset> sum = offset_of(c.graph(), indices);
  if (!sum || sum->shape.rank() < 1 || c.type(sum->indices).dtype != DType::int64 || sum->shape.elements() != places.elements()) return;
  const Value& known = c.graph()[sum->known];
  const Shape offsets = known.type.shape;
  const std::int64_t parts = sum->shape[0];
  if (offsets.rank() != sum->shape.rank() || offsets[0] != parts) return;
  Ints within_first = known.data->to_int64s();
  const std::int64_t rows = rows_of_parts(within_first, parts, x[0]);
  if (rows == 0) return;
  c.draft.counted.push_back({sum->known, 0, rows});
  ValueId picked = sum->indices;
  if (offsets.elements() != parts) {  // the channel's offset stands beside the sample's
    within_first.resize(static_cast<std::size_t>(offsets.elements() / parts));
    picked = c.emit("Add", {picked, c.graph().add_constant(concat(c.draft.name, "/within"),
                                                           Tensor::of<std::int64_t>(with_dim(offsets, 0, 1), within_first))});
  }
  const std::string assumed = concat("'", c.graph()[sum->indices].name, "' is taken to name rows 0 to ", rows - 1,
                                     " of its own sample: the sample's number times ", rows, " is added to it");
  if (std::find(c.graph().warnings.begin(), c.graph().warnings.end(), assumed) == c.graph().warnings.end())
    c.graph().warnings.push_back(assumed);
  Shape own{parts, sum->shape.elements() / parts}, y = places;
  const ValueId within = c.reshape(c.broadcast_to(picked, sum->shape), Shape{own[0], own[1], 1});
  for (int i = 1; i < x.rank(); ++i) own.dims.push_back(x[i]);
  y.dims.insert(y.dims.end(), x.begin() + 1, x.end());
  const std::string reduction = c.draft.attributes.text("reduction", "none");
  ValueId result;
  if (c.draft.op == "ScatterElements" && x.rank() == 1) {
    result = c.emit("ScatterElements", {in_parts(c, 0, rows), c.reshape(within, Shape{own[0], own[1]}), c.reshape(c.draft.inputs[2], own)},
                    {{"axis", std::int64_t{1}}, {"reduction", reduction}});
    y = x;
  } else if (c.draft.op == "ScatterND" || c.draft.op == "ScatterElements") {
    result = c.emit("ScatterND", {in_parts(c, 0, rows), within, c.reshape(c.draft.inputs[2], own)},
                    {{"batch_dims", std::int64_t{1}}, {"reduction", reduction}});
    y = x;
  } else {
    result = c.emit("GatherND", {in_parts(c, 0, rows), within}, {{"batch_dims", std::int64_t{1}}});
  }
  c.draft.op = "Reshape";
  c.draft.attributes = {{"shape", y.dims}, {"allowzero", std::int64_t{1}}};
  c.draft.inputs = {result};
}

}  // namespace

Tensor counted_to(const Tensor& tensor, const Counted& counted, std::int64_t length) {
  const Shape& shape = tensor.shape();
  const int axis = counted.axis;
  const std::int64_t step = counted.stride > 0 ? 1 : shape[shape.rank() - 1], stride = std::max<std::int64_t>(1, counted.stride);
  const std::int64_t inner = product(shape, axis + 1, shape.rank());
  Tensor out(TensorType{DType::int64, with_dim(shape, axis, length)});
  const auto from = tensor.values<std::int64_t>();
  const auto to = out.write<std::int64_t>();
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    const std::int64_t outer = i / inner / length;  // the first part again, but for its place
    const std::int64_t place = i % step == 0 ? i / inner % length * stride : 0;
    to[static_cast<std::size_t>(i)] = place + from[static_cast<std::size_t>(outer * shape[axis] * inner + i % inner)];
  }
  return out;
}

void count_as_parts(UpgradeContext& c) {
  if (c.draft.inputs.size() != 2 || !c.draft.inputs[1].present()) return;
  const Shape x = c.shape(0), indices = c.shape(1);
  if (x.rank() == 0 || indices.rank() == 0 || !c.graph()[c.draft.inputs[0]].depends_on_batch) return;
  const int axis = normalize_axis(c.draft.attributes.integer("axis", 0), x.rank(), "axis");
  const ValueId given = c.draft.inputs[1];
  if (c.graph()[given].kind == ValueKind::constant) {
    const Tensor numbers = *c.graph()[given].data;
    const std::int64_t rows = numbers.dtype() == DType::int64 ? rows_of_parts(numbers.to_int64s(), indices[0], x[axis]) : 0;
    if (rows > 0) c.draft.counted.push_back({given, 0, rows});
    if (numbers.elements() == x[axis] && counts_through(numbers, x[axis])) return become_view(c, axis, indices);
    if (rows == 0) return;
    Ints within = numbers.to_int64s();
    const Shape each(Ints(indices.begin() + 1, indices.end()));
    within.resize(static_cast<std::size_t>(each.elements()));
    c.draft.inputs = {in_parts(c, axis, rows),
                      c.graph().add_constant(concat(c.draft.name, "/within"), Tensor::of<std::int64_t>(each, within))};
    c.draft.attributes.set("axis", std::int64_t{axis + 1});
    return;
  }
  if (axis == 0) take_out_offset(c, given, indices);
}

void count_as_elements(UpgradeContext& c) {
  if (c.draft.inputs.size() != 3 || c.shape(2) != c.shape(1) || c.shape(0).rank() == 0 || c.draft.attributes.integer("axis", 0) != 0)
    return;
  if (c.shape(0).rank() == 1) return take_out_offset(c, c.draft.inputs[1], c.shape(1));
  if (const ValueId column = column_of(c.graph(), c.draft.inputs[1], c.shape(0)); column.present())
    take_out_offset(c, column, Shape{c.shape(1)[0]});
}

void count_as_batch(UpgradeContext& c) {
  const Shape x = c.shape(0), indices = c.shape(1);
  const int last = indices.rank() - 1;
  if (last < 0 || c.type(c.draft.inputs[1]).dtype != DType::int64) return;  // the shape rule says what is wrong
  const std::int64_t given = c.draft.attributes.integer("batch_dims", 0);
  if (const Value& tuples = c.graph()[c.draft.inputs[1]];
      given == 0 && tuples.kind == ValueKind::constant && all_become_view(c, *tuples.data))
    return;
  std::vector<ValueId> parts = parts_of(c.graph(), c.draft.inputs[1]);
  if (given == 0 && indices[last] == 1 && x.rank() > 0 && (c.draft.op == "GatherND" || c.draft.inputs.size() == 3))
    if (take_out_offset(c, c.draft.inputs[1], Shape(Ints(indices.begin(), indices.end() - 1))); c.draft.op == "Reshape") return;
  std::int64_t counted = given;
  for (std::int64_t left = indices[last]; left > 1 && counted < std::min(last, x.rank()); --left, ++counted) {
    const int axis = static_cast<int>(counted);
    const Value& first = c.graph()[parts[0]];
    if (counted < 0 || !first.data || first.kind != ValueKind::constant || first.type.shape[last] == 0 || x[axis] != indices[axis] ||
        !counts(*first.data, axis))
      break;
    c.draft.counted.push_back({parts[0], axis});
    if (first.type.shape[last] == 1)
      parts.erase(parts.begin());
    else
      parts[0] = c.graph().add_constant(concat(c.draft.name, "/coordinates"), rest_of(*first.data));
  }
  if (counted != given) {
    c.draft.inputs[1] = parts.size() == 1 ? parts[0] : c.emit("Concat", parts, {{"axis", std::int64_t{last}}});
    c.draft.attributes.set("batch_dims", counted);
  }
  const Value& left = c.graph()[c.draft.inputs[1]];
  const Shape places(Ints(indices.begin() + std::min<std::int64_t>(std::max<std::int64_t>(counted, 0), last), indices.end() - 1));
  if (c.draft.op != "GatherND" || counted < 1 || left.kind != ValueKind::constant || left.type.shape[last] != 1) return;
  if (places.elements() == x[static_cast<int>(counted)] && counts_through(*left.data, places.elements()))
    become_view(c, static_cast<int>(counted), places);
}

}  // namespace tandem
