// Which device computes what: the slices of a batch, the placement that they are, the programs that follow, and all of these
// drawn as one graph.
#include "planner/programs.h"

#include <algorithm>
#include <map>

#include "graph/operator.h"
#include "planner/place/parallel.h"
#include "planner/place/place.h"
#include "planner/place/request.h"

namespace tandem {
namespace {

std::size_t largest_of(const std::vector<SliceOfBatch>& slices) {
  return static_cast<std::size_t>(
      std::max_element(slices.begin(), slices.end(), [](const SliceOfBatch& a, const SliceOfBatch& b) { return a.size < b.size; }) -
      slices.begin());
}


// Joins programs by going on with each as far as what it reads is there.
class Joiner {
 public:
  Joiner(const Programs& programs, const CompileOptions& options) : programs_(programs), devices_(options.devices.size()) {
    for (std::size_t d = 0; d < devices_; ++d) {
      const Graph& graph = graph_of(d);
      maps_.emplace_back(graph.values.size());
      std::string name = to_string(options.devices[d].id);
      if (options.devices[d].logical > 0) name += concat('#', options.devices[d].logical);
      names_.push_back(std::move(name));
      for (std::size_t i = 0; i < graph.values.size(); ++i)
        if (const ValueId v{static_cast<int>(i)}; graph[v].kind != ValueKind::activation) maps_[d][v] = add(d, graph[v]);
      for (const ValueId in : graph.inputs) to_.inputs.push_back(maps_[d][in]);
      list_exchanges(d);
    }
    to_.name = graph_of(0).name;
    next_.assign(devices_, 0);
  }

  Graph run() {
    for (bool going = true; going;) {
      going = false;
      for (std::size_t d = 0; d < devices_; ++d)
        while (next_[d] < graph_of(d).nodes.size() && take(d)) going = true;
    }
    for (std::size_t d = 0; d < devices_; ++d)
      for (const GraphOutput& out : graph_of(d).outputs) to_.outputs.emplace_back(maps_[d][out], out.role, out.of);
    verify(to_);
    return std::move(to_);
  }

 private:
  const Graph& graph_of(std::size_t device) const { return programs_.graphs[programs_.of[device]]; }

  ValueId add(std::size_t device, Value value) {
    value.name = concat(names_[device], '/', value.name);
    return to_.add_value(std::move(value));
  }

  // Those of all devices have no name of their own: they are entered in one order.
  void list_exchanges(std::size_t device) {
    std::size_t number = 0;
    const Graph& graph = graph_of(device);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
      if (is_exchange(graph.nodes[n])) {
        const Attributes& a = graph.nodes[n].attributes;
        const Ints devices = a.ints("devices", {});
        const auto place = std::find(devices.begin(), devices.end(), static_cast<std::int64_t>(device)) - devices.begin();
        const std::int64_t row = place * a.integer("rows", 1) / std::max<std::int64_t>(1, std::ssize(devices));
        const std::string name = concat(a.text("exchange", concat(number++)), " #", row);
        members_[name].push_back({device, n});
        exchange_[{device, n}] = name;
      }
  }

  bool take(std::size_t device) {
    const Node& node = graph_of(device).nodes[next_[device]];
    std::vector<ValueId> inputs;
    if (is_exchange(node)) {
      for (const auto& [member, n] : members_.at(exchange_.at({device, next_[device]})))
        for (const ValueId in : graph_of(member).nodes[n].inputs) inputs.push_back(maps_[member][in]);
    } else {
      for (const ValueId in : node.inputs) inputs.push_back(in.present() ? maps_[device][in] : in);
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (!node.inputs[i].present()) inputs[i] = {};
    }
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i].present() && (is_exchange(node) || node.inputs[i].present())) return false;
    ++next_[device];
    if (std::none_of(node.outputs.begin(), node.outputs.end(), [](ValueId v) { return v.present(); })) return true;
    Node joined{node.op, concat(names_[device], '/', node.name), node.attributes, std::move(inputs), {}, node.origin};
    for (const ValueId out : node.outputs) {
      if (!out.present()) {
        joined.outputs.emplace_back();
        continue;
      }
      Value value = graph_of(device)[out];
      value.producer = {static_cast<int>(to_.nodes.size())};
      joined.outputs.push_back(maps_[device][out] = add(device, std::move(value)));
    }
    to_.nodes.push_back(std::move(joined));
    return true;
  }

  const Programs& programs_;
  const std::size_t devices_;
  Graph to_;
  std::vector<std::string> names_;                       // by device
  std::vector<IdVector<ValueId, ValueId>> maps_;         // by device
  std::vector<std::size_t> next_;                        // by device: the node that is next
  std::map<std::string, std::vector<std::pair<std::size_t, std::size_t>>> members_;  // of an exchange: device and node
  std::map<std::pair<std::size_t, std::size_t>, std::string> exchange_;
};

}  // namespace

// By the mesh axes that the samples lie along.
std::vector<SliceOfBatch> slices_of(const CompileOptions& o, const std::optional<PlacementRequest>& placement) {
  std::vector<SliceOfBatch> slices(o.devices.size(), {0, o.batch});
  for (std::size_t d = 0; d < slices.size(); ++d)
    if (only_keeps(o, static_cast<int>(d))) slices[d] = {};
  if (!placement) return slices;
  const std::size_t groups = placement->stages > 0 ? at(placement->stages) : placement->groups.size();  // others have their devices
  for (const DeviceGroup& group : std::span(placement->groups).first(groups))
    for (std::size_t p = 0; p < group.devices.size(); ++p)
      for (std::size_t a = 0; a < group.axes.size(); ++a) {
        const MeshAxis& axis = group.axes[a];
        if (!axis.samples) continue;
        SliceOfBatch& slice = slices[at(group.devices[p])];
        const std::int64_t unit = slice.size / axis.total();
        const int along = group.position_along(static_cast<int>(p), a);
        slice = {slice.begin + unit * axis.begin(along), unit * axis.sizes[at(along)]};
      }
  return slices;
}

PlacementRequest placement_of(const GraphSource& source, const Graph& model, std::span<const std::int64_t> rows, const CompileOptions& o,
                              const Plan* parameters_of) {
  PlacementRequest request = o.placement ? checked(*o.placement, model, o) : request_for(model, o);
  if (parameters_of) {
    const auto nodes = request.nodes;
    keep_parts(request, *parameters_of);
    // Where a stage has several parts its parameters do not say which part a node is of.
    if (o.mode == PlanMode::training && request.stages > 0 && at(request.stages) < request.groups.size()) request.nodes = nodes;
  }
  const bool shares_samples = std::ranges::any_of(request.groups[0].axes, &MeshAxis::samples);
  if (!o.placement && shares_samples && request.values.empty()) {
    const std::vector<SliceOfBatch> slices = slices_of(o, request);
    source(slices[largest_of(slices)].size);  // says why its batch cannot be followed
    fail("no input of model '", model.name, "' holds the samples of a batch of ", o.batch, ": there is nothing to share out over ",
         computing_devices(o).size(), " devices");
  }
  std::vector<Part> parts;
  for (const MeshAxis& axis : request.groups[0].axes) parts.push_back(axis.samples ? part_by_samples(axis) : Part{});
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] > 0) request.values.emplace(model[model.outputs[i]].name, parts);
  return request;
}

Programs programs_of(Graph whole, const CompileOptions& o) {
  Programs programs;
  Graph nothing;
  nothing.name = whole.name;
  if (whole.groups.empty()) {
    programs.graphs.push_back(std::move(whole));
    programs.of.assign(o.devices.size(), 0);
  } else {
    place_rest(whole);
    const int devices = static_cast<int>(o.devices.size());
    DeviceClasses classes = cut_by_class(whole, devices);
    programs.graphs = std::move(classes.graphs);
    programs.of = std::move(classes.of);
    programs.outputs = std::move(classes.outputs);
    programs.begins = begins_of_parts(whole, devices);
  }
  const auto keeps = [&](std::size_t d) { return only_keeps(o, static_cast<int>(d)); };
  for (std::size_t d = 0; d < o.devices.size(); ++d)
    if (keeps(d)) programs.of[d] = programs.graphs.size();
  if (std::ranges::find(programs.of, programs.graphs.size()) == programs.of.end()) return programs;
  programs.graphs.push_back(std::move(nothing));
  if (!programs.outputs.empty()) programs.outputs.emplace_back();
  return programs;
}

Graph joined(const Programs& programs, const CompileOptions& options) { return Joiner(programs, options).run(); }

}  // namespace tandem
