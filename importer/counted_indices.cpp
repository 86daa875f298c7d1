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
    to[static_cast<std::size_t>(i)] = i % step == 0 ? i / inner % length * stride : from[static_cast<std::size_t>(outer * shape[axis] * inner + i % inner)];
  }
  return out;
}

void gather_within_samples(UpgradeContext& c) {
  const Shape x = c.shape(0), indices = c.shape(1);
  const NodeId sum = c.graph()[c.draft.inputs[1]].producer;
  if (c.graph()[c.draft.inputs[0]].kind != ValueKind::activation || c.draft.attributes.integer("axis", 0) != 0 || x.rank() == 0 || indices.rank() == 0) return;
  if (c.type(c.draft.inputs[1]).dtype != DType::int64 || !sum.present() || c.graph()[sum].op->name != "Add") return;
  const std::vector<ValueId> addends = c.graph()[sum].inputs;
  const std::int64_t samples = indices[0], size = samples < 2 || x[0] % samples != 0 ? 0 : x[0] / samples;
  for (const int first : {0, 1}) {
    const Value &places = c.graph()[addends[at(first)]], &within = c.graph()[addends[at(1 - first)]];
    if (size == 0 || places.kind != ValueKind::constant || within.type.shape != indices || places.type.shape != with_dim(Shape(Ints(at(indices.rank()), 1)), 0, samples)) continue;
    const auto values = places.data->values<std::int64_t>();
    std::int64_t sample = 0;
    while (sample < samples && values[static_cast<std::size_t>(sample)] == sample * size) ++sample;
    if (sample < samples) continue;
    c.graph().warnings.push_back(concat("Gather '", c.draft.name, "' picks from ", size, " rows of each sample: '", within.name, "' is taken to be 0 to ", size - 1));
    c.draft.counted.push_back({addends[at(first)], 0, size});
    Shape parts = x, tuples = indices;
    parts[0] = size;
    parts.dims.insert(parts.dims.begin(), samples);
    tuples.dims.push_back(1);
    c.draft.inputs = {c.reshape(c.draft.inputs[0], parts), c.reshape(addends[at(1 - first)], tuples)};
    c.draft.op = "GatherND";
    c.draft.attributes = {{"batch_dims", std::int64_t{1}}};
    return;
  }
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
    if (counted < 0 || !first.data || first.kind != ValueKind::constant || x[axis] != indices[axis] || !counts(*first.data, axis)) break;
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
