// Which device computes what: the slices of a batch, the placement that they are, the programs that follow, and all of these
// drawn as one graph.
#include "planner/programs.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/option.h"
#include "base/pattern.h"
#include "base/suggest.h"
#include "graph/operator.h"
#include "planner/place/cut.h"
#include "planner/place/parallel.h"
#include "planner/place/place.h"

namespace tandem {
namespace {

// By the first mesh axis along which an input is split.
std::vector<SliceOfBatch> slices_of(const PlacementRequest& request, std::size_t devices, std::int64_t batch) {
  std::vector<SliceOfBatch> slices(devices, {0, batch});
  for (const auto& [name, parts] : request.values)
    for (std::size_t a = 0; a < parts.size(); ++a) {
      if (parts[a] != Part::split(0) || request.groups.empty() || a >= request.groups[0].axes.size()) continue;
      const MeshAxis& axis = request.groups[0].axes[a];
      for (std::size_t p = 0; p < request.groups[0].devices.size(); ++p) {
        const int along = request.groups[0].position_along(static_cast<int>(p), a);
        slices[at(request.groups[0].devices[p])] = {batch / axis.total() * axis.begin(along), batch / axis.total() * axis.sizes[at(along)]};
      }
    }
  return slices;
}

// Samples of each replica, by the weights of its devices together.
std::vector<std::int64_t> replica_sizes(const Parallelism& parallel, const CompileOptions& o) {
  std::vector<double> weights(static_cast<std::size_t>(parallel.data));
  for (std::size_t d = 0; d < o.devices.size(); ++d) weights[d / static_cast<std::size_t>(parallel.tensor)] += o.devices[d].weight;
  return slice_sizes(o.batch, weights);
}

// A value's part along one axis of the mesh, beside what is said of it along others.
void set_part(PlacementRequest& request, const std::string& name, std::size_t along, Part part) {
  std::vector<Part>& parts = request.values[name];
  parts.resize(std::max(parts.size(), along + 1));
  parts[along] = part;
}

// Parameters lie as another plan has them.
void keep_parts(PlacementRequest& request, const Plan& plan) {
  const DeviceGroup& all = request.groups[0];
  for (const PlanParameter& p : plan.parameters)
    for (std::size_t a = 0; a < all.axes.size() && p.role == ValueRole::plain; ++a) {
      const std::vector<int> row = all.row_of(0, a);
      const ParameterPart *first = p.on(row.front()), *last = p.on(row.back());
      if (first && last && last->axis >= 0 && first->begin != last->begin) set_part(request, p.name, a, Part::split(last->axis));
    }
}

void split_as_said(PlacementRequest& request, const Graph& model, const Parallelism& parallel) {
  for (const Parallelism::Split& rule : parallel.splits) {
    const std::vector<MeshAxis>& axes = request.groups[0].axes;
    const auto axis = std::ranges::find(axes, rule.mesh_axis, &MeshAxis::name);
    const std::string said = concat(option("split"), " ", rule.pattern, "=", rule.mesh_axis, ":", rule.axis);
    if (axis == axes.end()) fail(ExitCode::usage, said, ": the mesh has no axis '", rule.mesh_axis, "' (", option("parallel"), " gives it one)");
    std::vector<std::string> names;
    bool any = false;
    for (const Value& v : model.values) {
      if (v.kind != ValueKind::parameter && v.kind != ValueKind::input) continue;
      names.push_back(v.name);
      if (!matches_any(v.name, {rule.pattern})) continue;
      any = true;
      const Shape& shape = v.kind == ValueKind::parameter ? v.template_shape : v.type.shape;
      if (rule.axis >= shape.rank()) fail(ExitCode::usage, said, ": '", v.name, "' of ", shape, " has no axis ", rule.axis);
      set_part(request, v.name, static_cast<std::size_t>(axis - axes.begin()), Part::split(rule.axis));
    }
    if (!any) fail(ExitCode::usage, said, ": no parameter or input has such a name", suggestion(rule.pattern, names));
  }
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
        const std::string name = graph.nodes[n].attributes.text("exchange", concat(number++));
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

std::vector<SliceOfBatch> slices_of(const CompileOptions& o) {
  if (o.placement) return slices_of(*o.placement, o.devices.size(), o.batch);
  const Parallelism parallel = resolved(o.parallel, o.devices.size());
  std::vector<SliceOfBatch> slices;
  for (const std::int64_t size : replica_sizes(parallel, o)) {
    const std::int64_t begin = slices.empty() ? 0 : slices.back().begin + slices.back().size;
    slices.insert(slices.end(), static_cast<std::size_t>(parallel.tensor), {begin, size});
  }
  return slices;
}

PlacementRequest placement_of(const GraphSource& source, const Graph& model, std::span<const std::int64_t> rows, const CompileOptions& o, const Plan* parameters_of) {
  if (o.placement) return *o.placement;
  const Parallelism parallel = resolved(o.parallel, o.devices.size());
  const std::vector<std::int64_t> sizes = replica_sizes(parallel, o);
  PlacementRequest request = by_samples(model, sizes);
  if (request.values.empty() && sizes.size() > 1) {
    source(*std::ranges::max_element(sizes));  // says why its batch cannot be followed
    fail("no input of model '", model.name, "' holds the samples of a batch of ", o.batch, ": there is nothing to share out over ", sizes.size(), " devices");
  }
  DeviceGroup& all = request.groups[0];
  const std::vector<Part> parts{part_by_samples(all.axes[0])};
  request.labels = parts;  // of what attach_loss adds, which holds the batch along axis 0
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] > 0) request.values[model[model.outputs[i]].name] = parts;
  if (parallel.tensor > 1) {
    all.axes.push_back({"tensor", std::vector<std::int64_t>(static_cast<std::size_t>(parallel.tensor), 1)});
    all.devices.resize(o.devices.size());
    std::iota(all.devices.begin(), all.devices.end(), 0);
  }
  if (parameters_of) {
    keep_parts(request, *parameters_of);
  } else {
    split_as_said(request, model, parallel);
    if (parallel.tensor > 1) request.layers_along = 1;
    if (parallel.zero > 0 && sizes.size() > 1) request.parameters_along = 0;
    request.gather_again = parallel.zero == 3;
  }
  return request;
}

Programs programs_of(Graph whole, const CompileOptions& o) {
  Programs programs;
  if (whole.groups.empty()) {
    programs.graphs.push_back(std::move(whole));
    programs.of = {0};
    return programs;
  }
  place_rest(whole);
  for (std::size_t d = 0; d < o.devices.size(); ++d) {
    const int device = static_cast<int>(d);
    programs.outputs.push_back(outputs_on(whole, device));
    int same = 0;
    while (same < device && !same_program(whole, same, device)) ++same;
    if (same < device) {
      programs.of.push_back(programs.of[at(same)]);
      continue;
    }
    programs.of.push_back(programs.graphs.size());
    programs.graphs.push_back(cut(whole, device));
    verify(programs.graphs.back());
  }
  return programs;
}

Graph joined(const Programs& programs, const CompileOptions& options) { return Joiner(programs, options).run(); }

}  // namespace tandem
