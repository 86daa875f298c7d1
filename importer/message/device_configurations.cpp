#include "importer/message/device_configurations.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/suggest.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

constexpr std::int64_t first_version = 11;  // of the IR, that has configurations
constexpr int most_devices = 1024;
constexpr std::int64_t largest_axis = std::int64_t{1} << 31;

using Dims = std::vector<std::int64_t>;  // -1: not known

// What a fault is told by.
struct Where {
  std::string node, tensor;
  template <class... Said>
  [[noreturn]] void refuse(std::string_view field, const Said&... said) const {
    fail("device configurations: ", node.empty() ? "" : concat("node '", node, "', "), tensor.empty() ? "" : concat("tensor '", tensor, "', "),
         "field ", field, ": ", said...);
  }
};

int known_device(const Where& where, std::string_view field, std::int64_t device, const DeviceConfiguration& c) {
  if (device < 0 || device >= c.devices)
    where.refuse(field, "device ", device, ", configuration '", c.name, "' has ", c.devices, ": expected 0 to ", c.devices - 1);
  return static_cast<int>(device);
}

class Reader {
 public:
  Reader(const onnx::ModelProto& model, const std::vector<std::string>& nodes) : model_(model), nodes_(nodes) {
    const onnx::GraphProto& graph = model.graph();
    for (const auto& tensor : graph.initializer()) {
      shapes_[tensor.name()] = Dims(tensor.dims().begin(), tensor.dims().end());
      given_.insert(tensor.name());
    }
    for (const auto* values : {&graph.input(), &graph.output(), &graph.value_info()})
      for (const auto& value : *values) note_shape(value);
    for (const auto& value : graph.input()) given_.insert(value.name());
    for (const auto& node : graph.node())
      if (node.op_type() == "Constant") given_.insert(node.output().begin(), node.output().end());
  }

  std::vector<DeviceConfiguration> run() {
    for (const auto& proto : model_.configuration()) configurations_.push_back(configuration(proto));
    for (int i = 0; i < model_.graph().node_size(); ++i)
      for (const auto& proto : model_.graph().node(i).device_configurations()) read(i, proto);
    return std::move(configurations_);
  }

 private:
  void note_shape(const onnx::ValueInfoProto& value) {
    if (!value.type().has_tensor_type() || !value.type().tensor_type().has_shape() || shapes_.contains(value.name())) return;
    Dims dims;
    for (const auto& dim : value.type().tensor_type().shape().dim()) dims.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
    shapes_[value.name()] = std::move(dims);
  }

  void check_version(const Where& where) const {
    if (model_.ir_version() < first_version)
      where.refuse("ir_version", model_.ir_version(), ", expected ", first_version, " or more: earlier ones have no device configurations");
  }

  DeviceConfiguration configuration(const onnx::DeviceConfigurationProto& proto) const {
    const Where where;
    check_version(where);
    if (proto.name().empty()) where.refuse("configuration.name", "is missing");
    for (const DeviceConfiguration& other : configurations_)
      if (other.name == proto.name()) where.refuse("configuration.name", "'", proto.name(), "' is there twice");
    if (proto.num_devices() < 1 || proto.num_devices() > most_devices)
      where.refuse("configuration.num_devices", "'", proto.name(), "' has ", proto.num_devices(), " devices, expected 1 to ", most_devices);
    if (proto.device_size() != 0 && proto.device_size() != proto.num_devices())
      where.refuse("configuration.device", "'", proto.name(), "' has ", proto.num_devices(), " devices and names ", proto.device_size(),
                   ": expected a name for each, or none");
    return {.name = proto.name(),
            .devices = proto.num_devices(),
            .device_names = {proto.device().begin(), proto.device().end()},
            .nodes = {},
            .tensors = {}};
  }

  void read(int index, const onnx::NodeDeviceConfigurationProto& proto) {
    const onnx::NodeProto& node = model_.graph().node(index);
    Where where{.node = nodes_[static_cast<std::size_t>(index)], .tensor = {}};
    check_version(where);
    const auto known = std::ranges::find(configurations_, proto.configuration_id(), &DeviceConfiguration::name);
    std::vector<std::string> names;
    for (const DeviceConfiguration& c : configurations_) names.push_back(c.name);
    if (known == configurations_.end())
      where.refuse("configuration_id", "the model has no configuration '", proto.configuration_id(), "'",
                   suggestion(proto.configuration_id(), names));
    DeviceConfiguration::Node said;
    if (proto.has_pipeline_stage()) said.stage = proto.pipeline_stage();
    if (said.stage && *said.stage < 0) where.refuse("pipeline_stage", *said.stage, ", expected 0 or more");
    std::set<int> of_results, of_operands;
    std::set<std::string> met;
    for (const auto& spec : proto.sharding_spec()) {
      where.tensor = spec.tensor_name();
      const bool result = std::ranges::find(node.output(), spec.tensor_name()) != node.output().end();
      const bool operand = std::ranges::find(node.input(), spec.tensor_name()) != node.input().end();
      if (spec.tensor_name().empty() || (!result && !operand)) refuse_tensor(where, node);
      if (!met.insert(spec.tensor_name()).second) where.refuse("sharding_spec.tensor_name", "is there twice");
      TensorSharding sharding = read(where, spec, *known);
      for (const std::vector<int>& devices : sharding.devices) (result ? of_results : of_operands).insert(devices.begin(), devices.end());
      if (result || given_.contains(spec.tensor_name())) keep(where, std::move(sharding), *known);
    }
    const std::set<int>& devices = of_results.empty() ? of_operands : of_results;
    said.devices.assign(devices.begin(), devices.end());
    where.tensor.clear();
    if (!known->nodes.emplace(where.node, std::move(said)).second)
      where.refuse("device_configurations", "there are two for configuration '", known->name, "'");
  }

  [[noreturn]] static void refuse_tensor(const Where& where, const onnx::NodeProto& node) {
    std::vector<std::string> names(node.input().begin(), node.input().end());
    names.insert(names.end(), node.output().begin(), node.output().end());
    where.refuse("sharding_spec.tensor_name", "the node has no such input or output", suggestion(where.tensor, names));
  }

  void keep(const Where& where, TensorSharding sharding, DeviceConfiguration& c) {
    const auto [it, added] = c.tensors.emplace(where.tensor, sharding);
    if (added) said_by_[{c.name, where.tensor}] = where.node;
    if (!added && it->second != sharding)
      where.refuse("sharding_spec", "node '", said_by_[{c.name, where.tensor}], "' says otherwise of it: it lies in one way");
  }

  TensorSharding read(const Where& where, const onnx::ShardingSpecProto& spec, const DeviceConfiguration& c) const {
    TensorSharding sharding;
    std::map<std::int64_t, std::vector<int>> groups;
    for (const auto& entry : spec.index_to_device_group_map()) {
      constexpr std::string_view field = "sharding_spec.index_to_device_group_map";
      std::vector<int> group;
      for (const std::int64_t device : entry.value()) group.push_back(known_device(where, field, device, c));
      std::ranges::sort(group);
      if (group.empty()) where.refuse(field, "group ", entry.key(), " has no device");
      if (!groups.emplace(entry.key(), std::move(group)).second) where.refuse(field, "group ", entry.key(), " is there twice");
    }
    std::map<int, int> counts;  // of its parts, by device
    for (const std::int64_t number : spec.device()) {
      const auto group = groups.find(number);
      sharding.devices.push_back(group != groups.end() ? group->second
                                                       : std::vector{known_device(where, "sharding_spec.device", number, c)});
      for (const int device : sharding.devices.back()) ++counts[device];
    }
    if (sharding.devices.empty()) where.refuse("sharding_spec.device", "is missing");
    for (const auto& [device, count] : counts) {
      if (count != counts.begin()->second)
        where.refuse("sharding_spec.device", "device ", device, " has ", count, " of its parts, device ", counts.begin()->first, " has ",
                     counts.begin()->second, ": expected as many for each");
      if (count > 1 && count == std::ssize(sharding.devices))
        where.refuse("sharding_spec.device", "device ", device, " has all of its ", count, " parts");
    }
    read_dims(where, spec, sharding);
    return sharding;
  }

  void read_dims(const Where& where, const onnx::ShardingSpecProto& spec, TensorSharding& sharding) const {
    const auto shape = shapes_.find(where.tensor);
    std::int64_t parts = 1;
    std::set<int> axes;
    for (const auto& dim : spec.sharded_dim()) {
      if (!dim.has_axis()) where.refuse("sharded_dim.axis", "is missing");
      const int axis = axis_of(where, dim.axis(), shape == shapes_.end() ? nullptr : &shape->second);
      if (!axes.insert(axis).second) where.refuse("sharded_dim.axis", "axis ", axis, " is there twice");
      const std::int64_t size = shape == shapes_.end() ? -1 : shape->second[static_cast<std::size_t>(axis)];
      const std::int64_t shards = shards_of(where, dim, axis, size);
      parts *= shards;
      if (parts > most_devices) where.refuse("simple_sharding.num_shards", "more than ", most_devices, " parts");
      if (shards > 1) sharding.dims.push_back({axis, shards});
    }
    const auto devices = std::ssize(sharding.devices);
    if (spec.sharded_dim().empty() || (parts == 1 && devices > 1)) {  // the whole on each
      std::vector<int> all;
      for (const std::vector<int>& group : sharding.devices) all.insert(all.end(), group.begin(), group.end());
      std::ranges::sort(all);
      sharding.devices = {std::move(all)};
    } else if (parts != devices) {
      where.refuse("simple_sharding.num_shards", parts, parts == 1 ? " part" : " parts", " for ", devices,
                   " devices or groups of them: expected one for each");
    }
  }

  static int axis_of(const Where& where, std::int64_t axis, const Dims* shape) {
    if (!shape) {
      if (axis < 0 || axis > 63)
        where.refuse("sharded_dim.axis", axis, ", of a tensor whose shape the file does not say: expected 0 or more");
      return static_cast<int>(axis);
    }
    const auto rank = std::ssize(*shape);
    if (axis < -rank || axis >= rank) where.refuse("sharded_dim.axis", axis, ", the tensor has ", rank, rank == 1 ? " axis" : " axes");
    return static_cast<int>(axis < 0 ? axis + rank : axis);
  }

  // `size`: of the axis, -1 where it is not known.
  static std::int64_t shards_of(const Where& where, const onnx::ShardedDimProto& dim, int axis, std::int64_t size) {
    if (dim.simple_sharding().empty()) where.refuse("sharded_dim.simple_sharding", "axis ", axis, " has none");
    const std::int64_t shards = dim.simple_sharding(0).num_shards();
    std::int64_t inner = 1;  // of an axis that is several
    for (int i = 0; i < dim.simple_sharding_size(); ++i) {
      const auto& simple = dim.simple_sharding(i);
      if (simple.num_shards() < 1 || simple.num_shards() > most_devices)
        where.refuse("simple_sharding.num_shards", simple.num_shards(), ", expected 1 to ", most_devices);
      if (simple.has_dim_value() && (simple.dim_value() < 1 || simple.dim_value() > largest_axis))
        where.refuse("simple_sharding.dim_value", simple.dim_value(), ", expected 1 to ", largest_axis);
      if (i == 0) continue;
      if (simple.num_shards() > 1 || !simple.has_dim_value())
        where.refuse("simple_sharding", "axis ", axis, " is several axes of which an inner one is split: only the outermost can be");
      inner *= simple.dim_value();
      if (inner > largest_axis) where.refuse("simple_sharding.dim_value", "axis ", axis, " is too large");
    }
    if (const auto& outer = dim.simple_sharding(0); outer.has_dim_value()) {
      const std::int64_t said = outer.dim_value() * inner;
      if (size >= 0 && said != size) where.refuse("simple_sharding.dim_value", said, ", axis ", axis, " has ", size);
      size = said;
    }
    if (size >= 0 && (size % inner != 0 || size / inner % shards != 0))
      where.refuse("simple_sharding.num_shards", "axis ", axis, " of ", size, " has no ", shards, " equal parts");
    return shards;
  }

  const onnx::ModelProto& model_;
  const std::vector<std::string>& nodes_;
  std::map<std::string, Dims, std::less<>> shapes_;
  std::set<std::string, std::less<>> given_;  // weights and inputs
  std::vector<DeviceConfiguration> configurations_;
  std::map<std::pair<std::string, std::string>, std::string> said_by_;  // by configuration and tensor: the first node
};

void write(onnx::ShardingSpecProto& spec, const std::string& tensor, const TensorSharding& sharding) {
  spec.set_tensor_name(tensor);
  std::map<std::vector<int>, std::int64_t> groups;
  for (const std::vector<int>& devices : sharding.devices) {
    if (devices.size() == 1) {
      spec.add_device(devices[0]);
      continue;
    }
    const auto [group, added] = groups.emplace(devices, -1 - std::ssize(groups));
    spec.add_device(group->second);
    if (!added) continue;
    auto& entry = *spec.add_index_to_device_group_map();
    entry.set_key(group->second);
    for (const int device : devices) entry.add_value(device);
  }
  for (const TensorSharding::Dim& dim : sharding.dims) {
    auto& out = *spec.add_sharded_dim();
    out.set_axis(dim.axis);
    out.add_simple_sharding()->set_num_shards(dim.shards);
  }
}

template <class Field, class Is>
void erase(Field& field, const Is& is) {
  for (int i = field.size(); i-- > 0;)
    if (is(field[i])) field.DeleteSubrange(i, 1);
}

}  // namespace

std::vector<DeviceConfiguration> device_configurations(const onnx::ModelProto& model, const std::vector<std::string>& nodes) {
  return Reader(model, nodes).run();
}

void annotate(onnx::ModelProto& model, const DeviceConfiguration& c, const std::vector<std::string>& nodes) {
  model.set_ir_version(std::max<std::int64_t>(model.ir_version(), first_version));
  erase(*model.mutable_configuration(), [&](const auto& other) { return other.name() == c.name; });
  auto& configuration = *model.add_configuration();
  configuration.set_name(c.name);
  configuration.set_num_devices(c.devices);
  for (const std::string& name : c.device_names) configuration.add_device(name);
  for (int i = 0; i < model.graph().node_size(); ++i) {
    onnx::NodeProto& node = *model.mutable_graph()->mutable_node(i);
    erase(*node.mutable_device_configurations(), [&](const auto& other) { return other.configuration_id() == c.name; });
    onnx::NodeDeviceConfigurationProto said;
    said.set_configuration_id(c.name);
    std::set<std::string> met;
    for (const auto* values : {&node.input(), &node.output()})
      for (const std::string& value : *values)
        if (const auto it = c.tensors.find(value); it != c.tensors.end() && met.insert(value).second)
          write(*said.add_sharding_spec(), value, it->second);
    const auto placed = c.nodes.find(nodes[static_cast<std::size_t>(i)]);
    if (placed != c.nodes.end() && placed->second.stage) said.set_pipeline_stage(*placed->second.stage);
    if (placed != c.nodes.end() && !placed->second.devices.empty())
      for (const std::string& value : node.output())
        if (!value.empty() && met.insert(value).second)
          write(*said.add_sharding_spec(), value, {.devices = {placed->second.devices}, .dims = {}});
    if (said.sharding_spec_size() > 0 || said.has_pipeline_stage()) *node.add_device_configurations() = std::move(said);
  }
}

}  // namespace tandem
