#include "planner/place/configured.h"

#include <algorithm>
#include <set>

#include "base/option.h"
#include "planner/place/by_rules.h"
#include "planner/place/request.h"
#include "planner/place/stages.h"

namespace tandem {
namespace {

// A split over neighbours of a group: position p has part (p / stride) % parts, a part as `part` says.
struct Stride {
  std::int64_t stride = 1, parts = 1;
  Part part{};
};
using Shards = std::vector<std::int64_t>;  // of an axis, ascending

// Shards of an axis as the parts, in their order, have them: each part has as many of each run. Absent where they lie in no such runs.
std::optional<Part> part_of(int axis, const std::vector<Shards>& parts) {
  std::vector<std::size_t> has(parts.size());  // shards of each part that are passed
  std::vector<std::int64_t> lengths;
  const auto next_is = [&](std::size_t part, std::int64_t shard) {
    return has[part] < parts[part].size() && parts[part][has[part]] == shard;
  };
  for (std::int64_t shard = 0; has[0] < parts[0].size();) {
    std::int64_t each = 0;
    for (; next_is(0, shard); ++shard, ++each) ++has[0];
    for (std::size_t part = 1; part < parts.size(); ++part)
      for (std::int64_t i = 0; i < each; ++i, ++shard) {
        if (!next_is(part, shard)) return std::nullopt;
        ++has[part];
      }
    if (each == 0) return std::nullopt;
    lengths.push_back(each * std::ssize(parts));
  }
  for (std::size_t part = 0; part < parts.size(); ++part)
    if (has[part] < parts[part].size()) return std::nullopt;
  return Part::runs(axis, std::move(lengths));
}

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
    std::vector<Shards> shards_at(group.devices.size());  // of all axes together, by position
    for (std::size_t shard = 0; shard < sharding.devices.size(); ++shard)
      for (const int device : sharding.devices[shard])
        shards_at[at(group.position_of(device))].push_back(static_cast<std::int64_t>(shard));
    if (std::ranges::any_of(shards_at, &Shards::empty)) refuse("'", name, "' lies on some of ", group.name, ": expected all");
    const auto out_of_order = [&] {
      refuse("the parts of '", name, "' do not lie in the order of the devices: expected neighbours, as in a mesh");
    };
    std::vector<Stride> strides;
    std::int64_t inner = 1;
    std::size_t held = 1;  // by a device, as its shards of each axis say
    for (auto dim = sharding.dims.rbegin(); dim != sharding.dims.rend(); ++dim) {
      std::vector<Shards> along, parts;  // by position; in the order of their first positions
      for (const Shards& shards : shards_at) {
        std::set<std::int64_t> of_axis;
        for (const std::int64_t shard : shards) of_axis.insert(shard / inner % dim->shards);
        along.emplace_back(of_axis.begin(), of_axis.end());
        if (std::ranges::find(parts, along.back()) == parts.end()) parts.push_back(along.back());
      }
      inner *= dim->shards;
      held *= along[0].size();
      if (parts.size() == 1) continue;
      const std::optional<Part> part = part_of(dim->axis, parts);
      if (!part) out_of_order();
      Stride s{.stride = std::ssize(along), .parts = std::ssize(parts), .part = *part};
      for (std::size_t p = along.size(); p-- > 1;)
        if (along[p] != along[0]) s.stride = static_cast<std::int64_t>(p);
      for (std::size_t p = 0; p < along.size(); ++p)
        if (along[p] != parts[at(static_cast<std::int64_t>(p) / s.stride % s.parts)]) out_of_order();
      strides.insert(strides.begin(), std::move(s));
    }
    if (held != shards_at[0].size()) out_of_order();
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
      const auto& [stride, parts, part] = strides[i];
      const auto cut = std::ranges::find(cuts_, stride);
      if (*(cut + 1) != stride * parts) refuse("axis ", part.axis, " of '", v.name, "' is split over several axes of the mesh");
      const auto axis = static_cast<std::size_t>(cuts_.end() - cut) - 2;
      std::vector<Part>& along = request_.values[v.name];
      along.resize(used_.size());
      along[axis] = part;
      used_[axis] = true;
      samples_[axis] = samples_[axis] || (v.kind == ValueKind::input && part.axis == 0);
    }
    if (v.kind == ValueKind::input && holds_samples(v)) used_.assign(used_.size(), true);  // it is said to be whole along the others
  }

  bool holds_samples(const Value& v) const {
    const std::vector<ValueId> inputs = inputs_of_samples(model_, o_.batch);
    return std::ranges::any_of(inputs, [&](ValueId in) { return &model_[in] == &v; });
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

// What a device has: of each split axis some shards, equal ones, on as many devices each, and on `devices` together.
using Holdings = std::vector<std::pair<int, std::vector<Shards>>>;
TensorSharding sharded(const std::string& what, std::vector<TensorSharding::Dim> dims, const Holdings& holdings, std::int64_t devices) {
  constexpr std::int64_t most = 1024;  // that are read again
  std::int64_t count = 1;
  for (const TensorSharding::Dim& dim : dims)
    if ((count *= std::min(dim.shards, most + 1)) > most) cannot_say(what);
  TensorSharding sharding{.devices = std::vector<std::vector<int>>(at(count)), .dims = std::move(dims)};
  std::int64_t held = 1;
  for (const auto& [device, of_axes] : holdings) {
    Shards shards{0};
    for (std::size_t d = 0; d < of_axes.size(); ++d) {
      Shards inner;
      for (const std::int64_t shard : shards)
        for (const std::int64_t i : of_axes[d]) inner.push_back(shard * sharding.dims[d].shards + i);
      shards = std::move(inner);
    }
    for (const std::int64_t shard : shards) sharding.devices[at(shard)].push_back(device);
    held = std::ssize(shards);
  }
  for (const std::vector<int>& on : sharding.devices)
    if (std::ssize(on) * count != devices * held) cannot_say(what);
  return sharding;
}

// The equal shards that a device's range is, the range's size in length. Of an axis in runs: of each of these.
Shards shards_of(const AxisRange& r, std::int64_t size, const std::string& what) {
  const std::int64_t unit = size / r.outer;
  if (r.size < 1 || unit % r.size != 0 || r.begin % r.size != 0) cannot_say(what);
  std::vector<std::int64_t> widths = r.widths;
  if (widths.empty()) widths.assign(at(r.outer), 1);
  Shards shards;
  std::int64_t before = 0;
  for (const std::int64_t width : widths) {
    for (std::int64_t i = 0; i < width; ++i) shards.push_back((before * unit + width * r.begin) / r.size + i);
    before += width;
  }
  return shards;
}

// `devices`: of its group; absent: as many as have some of it.
TensorSharding lying(const Plan& plan, const PlanParameter& p, std::optional<std::int64_t> devices) {
  const std::string what = concat("'", p.name, "'");
  Holdings holdings;
  std::optional<std::vector<TensorSharding::Dim>> all;
  const std::vector<ParameterPart> parts = plan.parts_of(p);
  for (const ParameterPart& part : parts) {
    std::vector<Shards> has;
    std::vector<TensorSharding::Dim> dims;
    for (const AxisRange& r : part.ranges) {
      has.push_back(shards_of(r, p.type.shape[r.axis], what));
      if (std::ranges::find(dims, r.axis, &TensorSharding::Dim::axis) != dims.end()) cannot_say(what);
      dims.push_back({r.axis, p.type.shape[r.axis] / r.size});
    }
    if (all && *all != dims) cannot_say(what);
    all = std::move(dims);
    holdings.emplace_back(part.device, std::move(has));
  }
  return sharded(what, all.value_or(std::vector<TensorSharding::Dim>{}), holdings, devices.value_or(std::ssize(parts)));
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
  std::set<std::int64_t> slices;
  std::set<double> weights;
  for (const PlanDevice& d : plan.devices) {
    slices.insert(d.slice_begin);
    weights.insert(d.weight);
  }
  // Where no weight of the file is split, the inputs alone tell that samples are not.
  if (slices.size() == 1 && (c.devices == 1 || !c.tensors.empty())) return c;
  if (weights.size() > 1) cannot_say("a batch");
  Holdings rows;
  for (int d = 0; d < c.devices; ++d)
    rows.push_back({d, {{std::distance(slices.begin(), slices.find(plan.devices[at(d)].slice_begin))}}});
  for (const HostInput& in : plan.inputs)
    if (in.role == ValueRole::plain && in.batched)
      c.tensors.emplace(in.name, sharded(concat("'", in.name, "'"), {{0, std::ssize(slices)}}, rows, c.devices));
  return c;
}

}  // namespace tandem
