#include "planner/place/configured.h"

#include <algorithm>
#include <set>

#include "base/option.h"
#include "planner/place/by_rules.h"
#include "planner/place/request.h"
#include "planner/place/stages.h"

namespace tandem {
namespace {

// A split over neighbours of a group: position p has part (p / stride) % parts.
struct Stride {
  std::int64_t stride = 1, parts = 1;
};

class Configured {
 public:
  Configured(const Graph& model, const CompileOptions& o) : model_(model), o_(o), c_(*o.configuration) {}

  PlacementRequest run() {
    const std::vector<int> computing = computing_devices(o_);
    if (c_.devices != std::ssize(computing)) refuse("it is for ", c_.devices, " devices, there are ", computing.size());
    if (computing.back() >= c_.devices) refuse("it counts devices that compute alone, and ranks have others between them");
    find_groups();
    find_mesh();
    std::set<std::string> computed;
    for (const Node& node : model_.nodes) computed.insert(node.origin.begin(), node.origin.end());
    for (const auto& [name, node] : c_.nodes)
      if (request_.groups.size() > 1 && !devices_of(node).empty() && computed.contains(name))
        request_.nodes[name] = group_of(node);
    if (!value_backwards(model_, request_.nodes).empty()) request_.stages = 0;  // stages that work in turns are no pipeline
    for (const auto& [name, sharding] : c_.tensors)
      if (const auto id = model_.find(name); id && is_given(model_[*id])) place(model_[*id], sharding);
    split_samples();
    return checked(std::move(request_), model_, o_);
  }

 private:
  template <class... Said>
  [[noreturn]] void refuse(const Said&... said) const {
    fail(ExitCode::usage, option("configuration"), " '", c_.name, "': ", said...);
  }
  static bool is_given(const Value& v) {
    return v.role == ValueRole::plain && (v.kind == ValueKind::parameter || v.kind == ValueKind::input);
  }

  // Of a stage those of all its nodes.
  const std::vector<int>& devices_of(const DeviceConfiguration::Node& node) const {
    return node.stage ? stages_.at(*node.stage) : node.devices;
  }

  void find_stages() {
    for (const auto& [name, node] : c_.nodes) {
      if (!node.stage) continue;
      std::vector<int>& devices = stages_[*node.stage];
      devices.insert(devices.end(), node.devices.begin(), node.devices.end());
    }
    const auto unsaid = std::ranges::count_if(stages_, [](const auto& stage) { return stage.second.empty(); });
    const std::int64_t count = std::ssize(stages_), chunks = o_.parallel.schedule.chunks;
    if (chunks > 1 && (count == 0 || count % chunks != 0))
      refuse("it has ", count, " pipeline stages, ", option("schedule"), ' ', to_string(o_.parallel.schedule), " is for a multiple of ",
             chunks);
    const std::int64_t sharers = count / chunks;  // stages among which the devices are shared out
    if (unsaid > 0 && (unsaid < count || c_.devices % sharers != 0))
      refuse(unsaid, " of ", count, " pipeline stages say nothing of their devices, of which there are ", c_.devices,
             ": expected all to say it, or none and as many devices for each");
    std::int64_t number = 0;
    for (auto& [stage, devices] : stages_) {
      for (std::int64_t d = 0; unsaid > 0 && d < c_.devices / sharers; ++d)
        devices.push_back(static_cast<int>(number % sharers * c_.devices / sharers + d));
      std::ranges::sort(devices);
      devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
      ++number;
    }
  }

  void find_groups() {
    find_stages();
    std::set<std::vector<int>> sets;
    std::set<int> taken;
    for (const auto& [name, node] : c_.nodes)
      if (!devices_of(node).empty()) sets.insert(devices_of(node));
    for (const std::vector<int>& set : sets)
      for (const int device : set)
        if (!taken.insert(device).second) refuse("nodes share device ", device, " with different others: expected groups of devices");
    std::vector<int> rest;
    for (int d = 0; d < c_.devices; ++d)
      if (!taken.contains(d)) rest.push_back(d);
    if (!rest.empty()) sets.insert(std::move(rest));
    for (const std::vector<int>& set : sets) {
      if (set.size() != sets.begin()->size())
        refuse("its groups have ", sets.begin()->size(), " and ", set.size(), " devices: expected as many in each");
      request_.groups.push_back({.name = name_of_devices(set, o_), .axes = {}, .devices = set});
    }
    if (stages_.size() > 1) find_pipeline();
  }

  // Groups in the order of stages, where each is a stage's; those of further chunks have the same devices.
  void find_pipeline() {
    const std::size_t sharers = stages_.size() / static_cast<std::size_t>(o_.parallel.schedule.chunks);
    std::vector<DeviceGroup> groups;
    for (const auto& [stage, devices] : stages_) {
      groups.push_back({.name = name_of_devices(devices, o_), .axes = {}, .devices = devices});
      if (groups.size() > sharers && devices != groups[groups.size() - 1 - sharers].devices) return;
    }
    if (request_.groups.size() != sharers) return;
    request_.groups = std::move(groups);
    request_.stages = static_cast<int>(sharers);
  }
  int group_of(const DeviceConfiguration::Node& node) const {
    if (request_.stages > 0) return static_cast<int>(std::distance(stages_.begin(), stages_.find(*node.stage)));
    return static_cast<int>(group_with(request_.groups, devices_of(node)[0]));
  }

  const DeviceGroup& group_of(const std::string& name, const TensorSharding& sharding) const {
    const DeviceGroup& group = request_.groups[group_with(request_.groups, sharding.devices[0][0])];
    for (const std::vector<int>& devices : sharding.devices)
      for (const int device : devices)
        if (group.position_of(device) < 0) refuse("'", name, "' lies on devices of several groups");
    return group;
  }

  // How each of its split axes runs over the group's devices.
  std::vector<Stride> strides_of(const std::string& name, const TensorSharding& sharding) const {
    const DeviceGroup& group = group_of(name, sharding);
    std::vector<std::int64_t> part_at(group.devices.size(), -1);
    for (std::size_t part = 0; part < sharding.devices.size(); ++part)
      for (const int device : sharding.devices[part]) part_at[at(group.position_of(device))] = static_cast<std::int64_t>(part);
    if (std::ranges::find(part_at, -1) != part_at.end()) refuse("'", name, "' lies on some of ", group.name, ": expected all");
    std::vector<Stride> strides;
    std::int64_t inner = 1;
    for (auto dim = sharding.dims.rbegin(); dim != sharding.dims.rend(); ++dim) {
      const auto along = [&](std::size_t position) { return part_at[position] / inner % dim->shards; };
      Stride s{.stride = std::ssize(part_at), .parts = dim->shards};
      for (std::size_t p = part_at.size(); p-- > 1;)
        if (along(p) != along(0)) s.stride = static_cast<std::int64_t>(p);
      for (std::size_t p = 0; p < part_at.size(); ++p)
        if (along(p) != static_cast<std::int64_t>(p) / s.stride % s.parts)
          refuse("the parts of '", name, "' do not lie in the order of the devices: expected neighbours, as in a mesh");
      strides.insert(strides.begin(), s);
      inner *= dim->shards;
    }
    return strides;
  }

  // One mesh for all groups: its axes lie between the strides at which something is split.
  void find_mesh() {
    const std::int64_t size = std::ssize(request_.groups[0].devices);
    std::set<std::int64_t> cuts{1, size};
    for (const auto& [name, sharding] : c_.tensors) {
      const auto id = model_.find(name);
      if (!id || !is_given(model_[*id])) continue;
      for (const Stride& s : strides_of(name, sharding)) cuts.insert({s.stride, s.stride * s.parts});
    }
    cuts_.assign(cuts.begin(), cuts.end());
    for (std::size_t i = 0; i + 1 < cuts_.size(); ++i)
      if (cuts_[i + 1] % cuts_[i] != 0 || cuts_.back() > size) refuse("its tensors are split over the devices in ways that share no mesh");
    std::vector<MeshAxis> axes;
    for (std::size_t i = cuts_.size(); i-- > 1;)
      axes.push_back({concat("axis", axes.size()), std::vector<std::int64_t>(static_cast<std::size_t>(cuts_[i] / cuts_[i - 1]), 1)});
    used_.assign(axes.size(), false);
    samples_.assign(axes.size(), false);
    for (DeviceGroup& group : request_.groups) group.axes = axes;
  }

  void place(const Value& v, const TensorSharding& sharding) {
    const std::size_t group = group_with(request_.groups, sharding.devices[0][0]);
    if (v.kind == ValueKind::parameter && request_.groups.size() > 1) request_.parameters[v.name] = static_cast<int>(group);
    const std::vector<Stride> strides = strides_of(v.name, sharding);
    for (std::size_t i = 0; i < strides.size(); ++i) {
      const auto& [stride, parts] = strides[i];
      const auto cut = std::ranges::find(cuts_, stride);
      if (*(cut + 1) != stride * parts) refuse("axis ", sharding.dims[i].axis, " of '", v.name, "' is split over several axes of the mesh");
      const auto axis = static_cast<std::size_t>(cuts_.end() - cut) - 2;
      std::vector<Part>& along = request_.values[v.name];
      along.resize(used_.size());
      along[axis] = Part::split(sharding.dims[i].axis);
      used_[axis] = true;
      samples_[axis] = samples_[axis] || (v.kind == ValueKind::input && sharding.dims[i].axis == 0);
    }
  }

  // All inputs of samples lie alike.
  void split_samples() {
    std::size_t others = 0;
    for (std::size_t a = 0; a < used_.size(); ++a) {
      samples_[a] = samples_[a] || !used_[a];
      const std::string name = samples_[a] ? "data" : others++ == 0 ? "tensor" : concat("tensor", others);
      for (DeviceGroup& group : request_.groups) group.axes[a].name = name;
      if (!samples_[a]) continue;
      for (const ValueId in : inputs_of_samples(model_, o_.batch)) {
        if (model_[in].role != ValueRole::plain) continue;
        std::vector<Part>& along = request_.values[model_[in].name];
        along.resize(used_.size());
        along[a] = Part::split(0);
      }
    }
  }

  const Graph& model_;
  const CompileOptions& o_;
  const DeviceConfiguration& c_;
  PlacementRequest request_;
  std::map<int, std::vector<int>> stages_;  // devices
  std::vector<std::int64_t> cuts_;          // ascending: strides of the mesh, the size of a group
  std::vector<bool> used_, samples_;        // by mesh axis
};

}  // namespace

PlacementRequest configured(const Graph& model, const CompileOptions& options) { return Configured(model, options).run(); }

namespace {

[[noreturn]] void cannot_say(const std::string& what) {
  fail(ExitCode::usage, option("annotate"), ": ", what, " lies in parts that a device configuration cannot say");
}

// Parts by where they begin, with the devices that have each: equal ones, on as many devices each, and on `devices` together.
using Begins = std::map<std::vector<std::int64_t>, std::vector<int>>;
TensorSharding sharded(const std::string& what, std::vector<TensorSharding::Dim> dims, const Begins& begins, std::int64_t devices) {
  TensorSharding sharding{.devices = {}, .dims = std::move(dims)};
  std::int64_t parts = 1;
  for (const TensorSharding::Dim& dim : sharding.dims) parts *= dim.shards;
  for (const auto& [begin, on] : begins) {
    if (std::ssize(on) * parts != devices) cannot_say(what);
    sharding.devices.push_back(on);
  }
  if (std::ssize(begins) != parts) cannot_say(what);
  return sharding;
}

// `devices`: of its group; absent: as many as have some of it.
TensorSharding lying(const Plan& plan, const PlanParameter& p, std::optional<std::int64_t> devices) {
  const std::string what = concat("'", p.name, "'");
  Begins begins;
  std::optional<std::vector<TensorSharding::Dim>> all;
  const std::vector<ParameterPart> parts = plan.parts_of(p);
  for (const ParameterPart& part : parts) {
    std::vector<std::int64_t> begin;
    std::vector<TensorSharding::Dim> dims;
    for (const AxisRange& r : part.ranges) {
      const std::int64_t size = p.type.shape[r.axis];
      if (r.outer != 1 || r.size < 1 || size % r.size != 0 || r.begin % r.size != 0) cannot_say(what);
      if (std::ranges::find(dims, r.axis, &TensorSharding::Dim::axis) != dims.end()) cannot_say(what);
      begin.push_back(r.begin);
      dims.push_back({r.axis, size / r.size});
    }
    if (all && *all != dims) cannot_say(what);
    all = std::move(dims);
    begins[std::move(begin)].push_back(part.device);
  }
  return sharded(what, all.value_or(std::vector<TensorSharding::Dim>{}), begins, devices.value_or(std::ssize(parts)));
}

// Where nodes work on different devices. Those that each group computes for itself are nobody's.
void keep_groups(DeviceConfiguration& c) {
  std::set<std::vector<int>> sets;
  for (const auto& [name, node] : c.nodes) sets.insert(node.devices);
  const auto holds_another = [&](const std::vector<int>& set) {
    return std::ranges::any_of(sets, [&](const std::vector<int>& other) { return other != set && std::ranges::includes(set, other); });
  };
  std::erase_if(c.nodes,
                [&](const auto& node) { return std::ssize(node.second.devices) == c.devices || holds_another(node.second.devices); });
}

}  // namespace

DeviceConfiguration configuration_of(const Plan& plan, std::string name) {
  DeviceConfiguration c{
      .name = std::move(name), .devices = static_cast<int>(plan.devices.size()), .device_names = {}, .nodes = {}, .tensors = {}};
  for (const PlanDevice& d : plan.devices) c.device_names.push_back(to_string(d.device));
  for (int d = 0; d < c.devices; ++d)
    for (const Step& step : plan.program_of(at(d)).steps)
      if (step.as<LaunchStep>())
        for (const std::string& node : step.origin)
          if (std::vector<int>& on = c.nodes[node].devices; on.empty() || on.back() != d) on.push_back(d);
  keep_groups(c);
  const bool groups = !c.nodes.empty();
  for (const PlanParameter& p : plan.parameters) {
    if (p.role != ValueRole::plain) continue;
    TensorSharding sharding = lying(plan, p, groups ? std::nullopt : std::optional<std::int64_t>(c.devices));
    if (!sharding.dims.empty() || groups) c.tensors.emplace(p.name, std::move(sharding));
  }
  if (groups) return c;  // samples are split along axes that nothing else is
  Begins slices;
  std::set<double> weights;
  for (int d = 0; d < c.devices; ++d) {
    slices[{plan.devices[at(d)].slice_begin}].push_back(d);
    weights.insert(plan.devices[at(d)].weight);
  }
  if (slices.size() == 1) return c;
  if (weights.size() > 1) cannot_say("a batch");
  for (const HostInput& in : plan.inputs)
    if (in.role == ValueRole::plain && in.batched)
      c.tensors.emplace(in.name, sharded(concat("'", in.name, "'"), {{0, std::ssize(slices)}}, slices, c.devices));
  return c;
}

}  // namespace tandem
