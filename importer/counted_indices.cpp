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

Tensor counted_to(const Tensor& tuples, int axis, std::int64_t length) {
  const Shape& shape = tuples.shape();
  const std::int64_t step = shape[shape.rank() - 1], inner = product(shape, axis + 1, shape.rank());
  Tensor out(TensorType{DType::int64, with_dim(shape, axis, length)});
  const auto from = tuples.values<std::int64_t>();
  const auto to = out.write<std::int64_t>();
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    const std::int64_t outer = i / inner / length;  // the first part again, but for its place
    to[static_cast<std::size_t>(i)] = i % step == 0 ? i / inner % length : from[static_cast<std::size_t>(outer * shape[axis] * inner + i % inner)];
  }
  return out;
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
