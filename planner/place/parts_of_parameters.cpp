// What replicas share out of parameters, gradients and optimizer states.
#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "graph/operator.h"
#include "planner/place/choose_parts.h"
#include "planner/update/optimizer.h"

namespace tandem {
namespace {

// The axis of the template that parts of a parameter along this axis are parts of; -1: none.
int axis_of_template(const Value& v, int axis) {
  return template_axis(v.type.shape, v.source, v.template_shape, axis).axis;
}

// By the first axis of which each device has something: parts of axis 0 are gathered as they lie. `own`: what the replicas share out.
std::optional<Part> first_part(const Value& v, const Shape& own, const MeshAxis& mesh) {
  for (int axis = 0; axis < own.rank(); ++axis) {
    if (axis_of_template(v, axis) < 0 || own[axis] < mesh.total()) continue;
    Part part = Part::split(axis);
    if (own[axis] % mesh.total() != 0) part.sizes = slice_sizes(own[axis], std::vector<double>(mesh.sizes.begin(), mesh.sizes.end()));
    return part;
  }
  return std::nullopt;
}

// All of it on the device at that position. Parts of the first axis that has several elements lie apart in memory.
Part all_on(std::size_t position, const Shape& shape, const MeshAxis& mesh) {
  const auto several = std::ranges::find_if(shape.dims, [](std::int64_t dim) { return dim > 1; });
  Part all = Part::split(several == shape.dims.end() ? 0 : static_cast<int>(several - shape.dims.begin()));
  all.sizes.assign(mesh.sizes.size(), 0);
  all.sizes[position] = 1;
  return all;
}
bool can_be_owned(const Value& v) {
  return v.type.shape.rank() > 0 && v.type.shape.elements() > 0;
}

// The largest first, each to the device that has least, of those at the positions.
ChosenParts owners(const Graph& graph, std::vector<ValueId> parameters, const MeshAxis& mesh, std::span<const std::size_t> positions) {
  const auto elements = [&](ValueId id) { return graph[id].type.shape.elements(); };
  std::erase_if(parameters, [&](ValueId id) { return !can_be_owned(graph[id]); });
  std::ranges::stable_sort(parameters, std::greater(), elements);
  std::vector<std::int64_t> has(positions.size());
  ChosenParts chosen;
  for (const ValueId id : parameters) {
    const auto least = std::ranges::min_element(has);
    *least += elements(id);
    chosen.emplace(id, all_on(positions[static_cast<std::size_t>(least - has.begin())], graph[id].type.shape, mesh));
  }
  return chosen;
}

}  // namespace

ChosenParts parts_of_parameters(const Graph& graph, const MeshAxis& mesh, const ChosenParts& layers, std::int64_t layers_parts,
                                const OptimizerOptions& optimizer, bool frozen) {
  std::set<ValueId> changed;
  for (const Node& node : graph.nodes)
    for (const ValueId v : updated_by(node)) changed.insert(v);
  const bool trains = std::ranges::any_of(graph.values, &Value::trainable);
  ChosenParts chosen;
  std::vector<ValueId> owned;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& v = graph.values[i];
    const ValueId id{static_cast<int>(i)};
    if (!is_of_template(v) || (trains && !v.trainable && (!frozen || changed.contains(id)))) continue;
    Shape own = v.type.shape;
    if (const auto part = layers.find(id); part != layers.end()) own[part->second.axis] /= layers_parts;
    if (v.trainable && !layers.contains(id) && !reads_whole(v, optimizer).empty())
      owned.push_back(id);
    else if (const auto part = first_part(v, own, mesh))
      chosen.emplace(id, *part);
  }
  if (std::ranges::count(mesh.sizes, 0) > 0) return chosen;  // all keep all of these
  std::vector<std::size_t> all(mesh.sizes.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (auto& [id, part] : owners(graph, std::move(owned), mesh, all)) chosen.emplace(id, std::move(part));
  return chosen;
}

ChosenParts parameters_at_home(const Graph& graph, const MeshAxis& mesh, std::span<const std::size_t> homes) {
  std::vector<ValueId> trained;
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    if (const Value& v = graph.values[i]; is_of_template(v) && v.trainable) trained.push_back({static_cast<int>(i)});
  return owners(graph, std::move(trained), mesh, homes);
}

}  // namespace tandem
