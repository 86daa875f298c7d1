#include "importer/counted_indices.h"

#include <algorithm>

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

// Rows within each sample, and the constant that counts the samples in steps of a sample's rows.
struct Within {
  ValueId rows, places;
};

// Known indices into what joins the samples' rows, each among the rows of the sample in whose place it stands.
std::optional<Within> known_within(UpgradeContext& c, ValueId data, ValueId indices, std::int64_t size) {
  const Value& known = c.graph()[indices];
  const std::string_view made_by = c.graph()[c.graph()[data].producer].op->name;
  if (known.kind != ValueKind::constant || known.type.shape.rank() < 2 || (made_by != "Reshape" && made_by != "Flatten")) return std::nullopt;
  Tensor rows = *known.data;
  const std::int64_t each = rows.elements() / rows.shape()[0];
  const auto values = rows.write<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t begin = static_cast<std::int64_t>(i) / each * size;
    if (values[i] < begin || values[i] - begin >= size) return std::nullopt;
    values[i] -= begin;
  }
  return Within{c.graph().add_constant(concat(c.draft.name, "/rows"), std::move(rows)), indices};
}

// arange(N)·size + i
std::optional<Within> added_within(UpgradeContext& c, ValueId indices, std::int64_t size) {
  const NodeId sum = c.graph()[indices].producer;
  if (!sum.present() || c.graph()[sum].op->name != "Add") return std::nullopt;
  const Shape shape = c.shape(indices), line = with_dim(Shape(Ints(at(shape.rank()), 1)), 0, shape[0]);
  for (const int first : {0, 1}) {
    const ValueId places = c.graph()[sum].inputs[at(first)], rows = c.graph()[sum].inputs[at(1 - first)];
    const Value& counting = c.graph()[places];
    if (shape[0] < 2 || counting.kind != ValueKind::constant || counting.type.shape != line || c.shape(rows) != shape) continue;
    const auto values = counting.data->values<std::int64_t>();
    std::size_t sample = 0;
    while (sample < values.size() && values[sample] == static_cast<std::int64_t>(sample) * size) ++sample;
    if (sample < values.size()) continue;
    c.graph().warnings.push_back(concat("Gather '", c.draft.name, "' picks from ", size, " rows of each sample: '", c.graph()[rows].name, "' is taken to be 0 to ", size - 1));
    return Within{rows, places};
  }
  return std::nullopt;
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

void gather_within_samples(UpgradeContext& c) {
  const ValueId data = c.draft.inputs[0], indices = c.draft.inputs[1];
  const Shape x = c.shape(0), picked = c.shape(1);
  if (c.graph()[data].kind != ValueKind::activation || c.draft.attributes.integer("axis", 0) != 0 || x.rank() == 0 || picked.rank() == 0) return;
  if (c.type(indices).dtype != DType::int64 || picked[0] == 0 || x[0] == 0 || x[0] % picked[0] != 0) return;
  const std::int64_t size = x[0] / picked[0];
  std::optional<Within> within = known_within(c, data, indices, size);
  if (!within) within = added_within(c, indices, size);
  if (!within) return;
  c.draft.counted.push_back({within->places, 0, size});
  Shape parts = x, tuples = picked;
  parts[0] = size;
  parts.dims.insert(parts.dims.begin(), picked[0]);
  tuples.dims.push_back(1);
  c.draft.inputs = {c.reshape(data, parts), c.reshape(within->rows, tuples)};
  c.draft.op = "GatherND";
  c.draft.attributes = {{"batch_dims", std::int64_t{1}}};
}

void count_as_batch(UpgradeContext& c) {
  const Shape x = c.shape(0), indices = c.shape(1);
  const int last = indices.rank() - 1;
  if (last < 0 || c.type(c.draft.inputs[1]).dtype != DType::int64) return;  // the shape rule says what is wrong
  std::vector<ValueId> parts = parts_of(c.graph(), c.draft.inputs[1]);
  const std::int64_t given = c.draft.attributes.integer("batch_dims", 0);
  std::int64_t counted = given;
  for (std::int64_t left = indices[last]; left > 1 && counted < std::min(last, x.rank()); --left, ++counted) {
    const int axis = static_cast<int>(counted);
    const Value& first = c.graph()[parts[0]];
    if (counted < 0 || !first.data || first.kind != ValueKind::constant || first.type.shape[last] == 0 || x[axis] != indices[axis] || !counts(*first.data, axis)) break;
    c.draft.counted.push_back({parts[0], axis});
    if (first.type.shape[last] == 1)
      parts.erase(parts.begin());
    else
      parts[0] = c.graph().add_constant(concat(c.draft.name, "/coordinates"), rest_of(*first.data));
  }
  if (counted == given) return;
  c.draft.inputs[1] = parts.size() == 1 ? parts[0] : c.emit("Concat", parts, {{"axis", std::int64_t{last}}});
  c.draft.attributes.set("batch_dims", counted);
}

}  // namespace tandem
