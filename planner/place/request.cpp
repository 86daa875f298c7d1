#include "planner/place/request.h"

#include <algorithm>
#include <set>

#include "base/suggest.h"
#include "planner/place/place.h"

namespace tandem {
namespace {

template <class... Said>
[[noreturn]] void refuse(const Said&... said) {
  fail(ExitCode::usage, "placement: ", said...);
}

bool are_sizes(const std::vector<std::int64_t>& sizes) {
  return std::ranges::all_of(sizes, [](std::int64_t size) { return size >= 0; }) &&
         std::ranges::any_of(sizes, [](std::int64_t size) { return size > 0; });
}

void check_group(const DeviceGroup& group, std::size_t devices, std::set<int>& taken) {
  std::size_t mesh = 1;
  for (const MeshAxis& axis : group.axes) {
    if (!are_sizes(axis.sizes))
      refuse("group '", group.name, "': the sizes of mesh axis '", axis.name, "' have to be 0 or more, and not all 0");
    mesh *= axis.sizes.size();
  }
  if (mesh != group.devices.size())
    refuse("group '", group.name, "' has ", group.devices.size(), " devices, its mesh has places for ", mesh);
  for (const int d : group.devices) {
    if (d < 0 || static_cast<std::size_t>(d) >= devices) refuse("group '", group.name, "' has device ", d, ", the plan has ", devices);
    if (!taken.insert(d).second) refuse("device ", d, " stands in more than one place");
  }
}

void check_groups(const PlacementRequest& request, std::size_t devices) {
  std::set<int> taken;
  if (request.groups.empty()) refuse("there is no group of devices");
  for (std::size_t g = 0; g < request.groups.size(); ++g) {
    if (request.stages > 0 && g >= at(request.stages) && request.groups[g].devices == request.groups[g - at(request.stages)].devices)
      continue;  // another part of that stage
    check_group(request.groups[g], devices, taken);
  }
  for (std::size_t d = 0; d < devices; ++d)
    if (!taken.contains(static_cast<int>(d))) refuse("device ", d, " stands in no group");
}

void check_nodes(const PlacementRequest& request, const Graph& model) {
  std::set<std::string> names;
  for (const Node& node : model.nodes) names.insert(node.origin.begin(), node.origin.end());
  const std::vector<std::string> known(names.begin(), names.end());
  for (const auto& [name, group] : request.nodes) {
    if (!names.contains(name)) refuse("model '", model.name, "' has no node '", name, "'", suggestion(name, known));
    if (group < 0 || group >= std::ssize(request.groups))
      refuse("node '", name, "' is in group ", group, ", there are ", request.groups.size());
  }
}

// What a request may name; of a plan that only computes, some other value of the model may have been its output.
std::vector<std::string> values_of(const Graph& model, PlanMode mode) {
  std::vector<std::string> names;
  const auto takes = [&](ValueKind kind) {
    return kind == ValueKind::input || kind == ValueKind::parameter || (mode == PlanMode::inference && kind == ValueKind::activation);
  };
  for (const Value& v : model.values)
    if (v.role == ValueRole::plain && takes(v.kind)) names.push_back(v.name);
  for (const GraphOutput& out : model.outputs) names.push_back(model[out].name);
  return names;
}

void check_sizes(const std::string& name, const std::vector<Part>& parts, const DeviceGroup& group) {
  for (std::size_t a = 0; a < std::min(parts.size(), group.axes.size()); ++a) {
    const std::vector<std::int64_t>& sizes = parts[a].sizes;
    const MeshAxis& axis = group.axes[a];
    if (!sizes.empty() && (sizes.size() != axis.sizes.size() || !are_sizes(sizes)))
      refuse("'", name, "' is to be ", to_string(parts[a]), " along mesh axis '", axis.name, "' of ", axis.length(),
             " devices: expected a size of 0 or more for each, not all 0");
  }
}

std::size_t most_axes(const PlacementRequest& request) {
  std::size_t axes = 0;
  for (const DeviceGroup& group : request.groups) axes = std::max(axes, group.axes.size());
  return axes;
}

void check_values(const PlacementRequest& request, const Graph& model, PlanMode mode) {
  const std::vector<std::string> known = values_of(model, mode);
  const std::size_t axes = most_axes(request);
  for (const auto& [name, parts] : request.values) {
    if (std::ranges::find(known, name) == known.end())
      refuse("model '", model.name, "' has no input, parameter or output '", name, "'", suggestion(name, known));
    if (parts.size() > axes) refuse("'", name, "' is placed along ", parts.size(), " mesh axes, there are ", axes);
    for (const DeviceGroup& group : request.groups) check_sizes(name, parts, group);
    const auto id = model.find(name);
    if (!id) continue;
    const Value& v = model[*id];
    const Shape& shape = v.kind == ValueKind::parameter ? v.template_shape : v.type.shape;
    for (const Part& part : parts)
      if (part.is_split() && (part.axis < 0 || part.axis >= shape.rank() || part.outer < 1 || !make_up(part.widths, part.outer)))
        refuse("'", name, "' of ", shape, " is to be ", to_string(part), ": it has no such axis");
  }
}

// Along which mesh axes an input is split by its samples.
std::vector<bool> split_by_samples(const PlacementRequest& request, const std::string& input, std::size_t axes) {
  std::vector<bool> split(axes);
  const auto asked = request.values.find(input);
  if (asked == request.values.end()) return split;
  for (std::size_t a = 0; a < asked->second.size(); ++a) {
    const Part& part = asked->second[a];
    if (part.axis == 0 && part.outer != 1)
      refuse("input '", input, "' is to be ", to_string(part), ": its samples are its rows, expected split(0)");
    split[a] = part == Part::split(0) || part.spread == Spread::own;
  }
  return split;
}

void mark(DeviceGroup& group, const std::vector<bool>& split, std::int64_t batch) {
  for (std::size_t a = 0; a < group.axes.size(); ++a) {
    MeshAxis& axis = group.axes[a];
    axis.samples = split[a];
    if (axis.samples && batch % axis.total() != 0)  // as near as the batch allows
      axis.sizes = least(slice_sizes(batch, std::vector<double>(axis.sizes.begin(), axis.sizes.end())));
  }
}

}  // namespace

std::vector<ValueId> inputs_of_samples(const Graph& model, std::int64_t batch) {
  const bool followed = std::any_of(model.inputs.begin(), model.inputs.end(), [&](ValueId in) { return model[in].batch.present(); });
  std::vector<ValueId> inputs;
  for (const ValueId in : model.inputs) {
    const Value& v = model[in];
    if (v.role == ValueRole::step_state || v.type.shape.rank() == 0 || v.type.shape[0] != batch) continue;
    if (!followed || v.batch.leading(batch, batch)) inputs.push_back(in);
  }
  return inputs;
}

PlacementRequest checked(PlacementRequest request, const Graph& model, const CompileOptions& o) {
  check_groups(request, o.devices.size());
  check_nodes(request, model);
  check_values(request, model, o.mode);
  for (DeviceGroup& group : request.groups)
    for (MeshAxis& axis : group.axes) axis.sizes = least(std::move(axis.sizes));
  const std::size_t axes = most_axes(request);
  std::vector<ValueId> inputs = inputs_of_samples(model, o.batch);
  std::erase_if(inputs, [&](ValueId in) { return model[in].role != ValueRole::plain; });  // labels of an evaluation
  if (inputs.empty()) return request;
  const std::string& first = model[inputs[0]].name;
  const std::vector<bool> split = split_by_samples(request, first, axes);
  for (const ValueId in : inputs)
    for (std::size_t a = 0; a < axes; ++a)
      if (split_by_samples(request, model[in].name, axes)[a] != split[a])
        refuse("inputs '", first, "' and '", model[in].name, "' hold samples, and one of them alone is split by these along mesh axis ", a,
               ": expected both or none");
  for (DeviceGroup& group : request.groups) mark(group, split, o.batch);
  for (const ValueId in : inputs)
    for (std::size_t a = 0; a < request.groups[0].axes.size(); ++a)
      if (split[a]) request.values[model[in].name][a] = part_by_samples(request.groups[0].axes[a]);
  return request;
}

}  // namespace tandem
