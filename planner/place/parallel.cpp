#include "planner/place/parallel.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/option.h"
#include "base/pattern.h"
#include "base/spec.h"
#include "base/suggest.h"
#include "planner/place/by_rules.h"
#include "planner/place/configured.h"
#include "planner/place/place.h"
#include "planner/place/stages.h"

namespace tandem {
namespace {

std::int64_t factor(std::string_view text, const std::string& name, std::int64_t most) {
  const std::int64_t value = parse_integer(text, concat(option("parallel"), ": ", name));
  if (value < 1 || value > most) fail(ExitCode::usage, option("parallel"), ": ", name, "=", text, ", expected 1 to ", most);
  return value;
}

// Samples of each replica, by the weights of its devices together.
std::vector<std::int64_t> replica_sizes(const Parallelism& parallel, std::span<const DeviceGroup> groups, const CompileOptions& o) {
  std::vector<double> weights(static_cast<std::size_t>(parallel.data));
  for (const DeviceGroup& group : groups)
    for (std::size_t d = 0; d < group.devices.size(); ++d)
      weights[d / static_cast<std::size_t>(parallel.tensor)] += o.devices[at(group.devices[d])].weight;
  return slice_sizes(o.batch, weights);
}

// A value's part along one axis of the mesh, beside what is said of it along others.
void set_part(PlacementRequest& request, const std::string& name, std::size_t along, Part part) {
  std::vector<Part>& parts = request.values[name];
  parts.resize(std::max(parts.size(), along + 1));
  parts[along] = part;
}

// Sets the parts of what a rule names; returns the axis of the mesh.
std::size_t split_as_said(PlacementRequest& request, const Graph& model, const Parallelism::Split& rule) {
  const std::vector<MeshAxis>& axes = request.groups[0].axes;
  const auto axis = std::ranges::find(axes, rule.mesh_axis, &MeshAxis::name);
  const std::string said = concat(option("split"), " ", rule.pattern, "=", rule.mesh_axis, ":", rule.axis);
  if (axis == axes.end())
    fail(ExitCode::usage, said, ": the mesh has no axis '", rule.mesh_axis, "', which ", option("parallel"), " would give it");
  const auto along = static_cast<std::size_t>(axis - axes.begin());
  std::vector<std::string> names;
  bool any = false;
  for (const Value& v : model.values) {
    if (v.role != ValueRole::plain || (v.kind != ValueKind::parameter && v.kind != ValueKind::input)) continue;
    names.push_back(v.name);
    if (!matches_any(v.name, {rule.pattern})) continue;
    any = true;
    const Shape& shape = v.kind == ValueKind::parameter ? v.template_shape : v.type.shape;
    if (rule.axis >= shape.rank()) fail(ExitCode::usage, said, ": '", v.name, "' of ", shape, " has no axis ", rule.axis);
    set_part(request, v.name, along, Part::split(rule.axis));
  }
  if (!any)
    fail(ExitCode::usage, said, ": no parameter or input of model '", model.name, "' has such a name", suggestion(rule.pattern, names));
  return along;
}

// Where trained parameters live on one device.
void check_home(const Parallelism& parallel, std::size_t devices) {
  std::vector<int> homes = parallel.weights_on_too;
  homes.push_back(parallel.weights_on);
  for (const int home : homes)
    if (home >= static_cast<int>(devices)) fail(ExitCode::usage, option("weights_on"), ": device ", home, ", there are ", devices);
  if (parallel.weights_on >= 0 && (parallel.tensor != 1 || parallel.pipeline != 1 || parallel.zero > 0))
    fail(ExitCode::usage, option("weights_on"), " goes with data parallelism alone, not with ", option("parallel"), ' ',
         to_string(parallel));
  if (parallel.weights_on >= 0 && !parallel.places.empty())
    fail(ExitCode::usage, option("weights_on"), " does not go with ", option("place"), ", which puts each parameter where its nodes are");
}

// Where one device computes the loss of all replicas.
void check_merge(const Parallelism& parallel, std::size_t devices) {
  if (parallel.merge_on >= static_cast<int>(devices))
    fail(ExitCode::usage, option("merge_on"), ": device ", parallel.merge_on, ", there are ", devices);
  if (parallel.merge_on >= 0 && (parallel.tensor != 1 || parallel.pipeline != 1 || !parallel.places.empty() || !parallel.splits.empty()))
    fail(ExitCode::usage, option("merge_on"), " brings the outputs of replicas together: it does not go with other factors of ",
         option("parallel"), " than data, nor with ", option("place"), " or ", option("split"));
}

// What only a pipeline has, and what it does not go with.
void check_stages(const Parallelism& p) {
  if (p.pipeline != 1 && !p.places.empty())
    fail(ExitCode::usage, option("place"), " does not go with ", option("parallel"), ' ', to_string(p), ": ", option("stage"),
         " says which nodes a stage has");
  if (p.pipeline == 1 && !p.stages.empty())
    fail(ExitCode::usage, option("stage"), " says what the stages of a pipeline have: expected ", option("parallel"),
         " pipeline=", p.stages.size());
  if (p.pipeline == 1 && p.schedule.chunks > 1)
    fail(ExitCode::usage, option("schedule"), ' ', to_string(p.schedule), " is of a pipeline: expected ", option("parallel"),
         " pipeline=2 or more");
}

}  // namespace

void keep_parts(PlacementRequest& request, const Plan& plan) {
  request.layers_along.reset();
  request.parameters_along.reset();
  if (request.stages > 0) request.nodes.clear();  // they follow the parameters
  for (const PlanParameter& p : plan.parameters) {
    if (p.role != ValueRole::plain) continue;
    const DeviceGroup& home = request.groups[group_with(request.groups, plan.devices_of(p.parts.front().program).front())];
    if (request.groups.size() > 1) request.parameters[p.name] = static_cast<int>(&home - request.groups.data());
    for (std::size_t a = 0; a < home.axes.size(); ++a) {
      std::vector<std::optional<ParameterPart>> row;
      for (const int device : home.row_of(0, a)) row.push_back(plan.part_of(p, device));  // a device without samples has none
      const auto is_part = [](const std::optional<ParameterPart>& part) { return part && !part->is_whole(); };
      const auto first = std::ranges::find_if(row, is_part);
      const auto holders = std::ranges::count_if(row, [](const std::optional<ParameterPart>& part) { return part.has_value(); });
      if (first == row.end() && row.size() > 1 && holders == 1) {  // it owns all
        Part all = Part::split(0);
        for (const auto& own : row) all.sizes.push_back(own ? 1 : 0);
        set_part(request, p.name, a, std::move(all));
      }
      for (std::size_t i = 0; first != row.end() && i < (*first)->ranges.size(); ++i) {
        const AxisRange& range = (*first)->ranges[i];
        const auto differs = [&](const std::optional<ParameterPart>& part) { return is_part(part) && part->ranges[i] != range; };
        if (std::ranges::none_of(row, differs)) continue;  // it is of another axis of the mesh
        Part part = Part::split(range.axis, range.outer);
        part.widths = range.widths;
        for (const auto& own : row) part.sizes.push_back(own ? own->ranges[i].size : 0);
        part.sizes = least(std::move(part.sizes));
        set_part(request, p.name, a, part);
      }
    }
  }
}

Parallelism parse_parallelism(std::string_view text) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  const std::vector<std::string> words{"data", "tensor", "pipeline", "zero"};
  if (text.empty()) return {};
  std::map<std::string, std::int64_t> given;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals), value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (std::find(words.begin(), words.end(), name) == words.end())
      fail(ExitCode::usage, option("parallel"), ": '", name, "' is no kind of parallelism", suggestion(name, words));
    const bool rest = value == "*" && name != "zero";
    if (!given.emplace(name, rest ? 0 : factor(value, name, name == "zero" ? 3 : most)).second)
      fail(ExitCode::usage, option("parallel"), ": ", name, " is given twice");
  }
  const auto of = [&](const char* name, std::int64_t absent) { return given.contains(name) ? given[name] : absent; };
  const bool zero_alone = given.size() == given.count("zero");
  const Parallelism p{.data = of("data", zero_alone ? 0 : 1),
                      .tensor = of("tensor", 1),
                      .pipeline = of("pipeline", 1),
                      .zero = static_cast<int>(of("zero", 0))};
  if ((p.data == 0) + (p.tensor == 0) + (p.pipeline == 0) > 1)
    fail(ExitCode::usage, option("parallel"), ": two factors are *, expected one at most");
  return p;
}

PipelineSchedule parse_pipeline_schedule(std::string_view text) {
  constexpr std::int64_t most = 1024;
  std::vector<std::string> words;
  for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe, ScheduleKind::interleaved, ScheduleKind::zb_h1}) {
    words.emplace_back(name_of(kind));
    if (kind != ScheduleKind::interleaved && text == words.back()) return {.kind = kind, .chunks = 1};
  }
  const std::size_t equals = text.find('=');
  const std::string name(text.substr(0, equals)), interleaved(name_of(ScheduleKind::interleaved));
  if (name == interleaved) {
    const std::string parts = equals == std::string::npos ? "" : std::string(text.substr(equals + 1));
    const std::int64_t chunks = parts.empty() ? 0 : parse_integer(parts, concat(option("schedule"), ": ", name));
    if (chunks < 2 || chunks > most)
      fail(ExitCode::usage, option("schedule"), ' ', text, ": expected ", interleaved, "=V, of 2 to ", most, " parts a stage");
    return {.kind = ScheduleKind::interleaved, .chunks = static_cast<int>(chunks)};
  }
  fail(ExitCode::usage, option("schedule"), " '", text, "'", std::ranges::find(words, name) == words.end() ? " is none" : " has no number",
       suggestion(name, words));
}

std::vector<std::string> parse_stages(std::string_view text) {
  std::vector<std::string> stages;
  std::int64_t rest = 0;
  if (text.empty()) return stages;
  for (const std::string& stage : split(text, ';')) {
    const std::vector<std::string> patterns = split(stage, ',');
    if (patterns.empty() || std::ranges::find(patterns, "") != patterns.end())
      fail(ExitCode::usage, option("stage"), ": stage ", stages.size(), " of '", text, "' names nothing: expected NAMES;NAMES;rest");
    rest += std::ranges::count(patterns, "rest");
    if (std::ranges::find(patterns, "rest") != patterns.end() && patterns.size() > 1)
      fail(ExitCode::usage, option("stage"), ": '", stage, "': the rest is what no pattern names: expected it alone");
    stages.push_back(stage);
  }
  if (rest > 1) fail(ExitCode::usage, option("stage"), ": ", rest, " stages of '", text, "' are the rest, expected one at most");
  return stages;
}

std::vector<Parallelism::Split> parse_splits(const std::vector<std::string>& rules) {
  std::vector<Parallelism::Split> splits;
  for (const std::string& rule : rules) {
    const std::size_t equals = rule.rfind('='), colon = rule.rfind(':');
    if (equals == std::string::npos || colon == std::string::npos || colon < equals || equals == 0)
      fail(ExitCode::usage, option("split"), ": '", rule, "', expected NAME=AXIS:DIMENSION, such as fc1.weight=tensor:0");
    const std::string axis = rule.substr(equals + 1, colon - equals - 1);
    const std::vector<std::string> axes{"data", "tensor"};
    if (std::find(axes.begin(), axes.end(), axis) == axes.end())
      fail(ExitCode::usage, option("split"), ": '", rule, "': '", axis, "' is no axis of the mesh", suggestion(axis, axes));
    const std::int64_t dimension = parse_integer(rule.substr(colon + 1), concat(option("split"), ": '", rule, "'"));
    if (dimension < 0 || dimension > 63)
      fail(ExitCode::usage, option("split"), ": '", rule, "': dimension ", dimension, ", expected 0 or more");
    splits.push_back({rule.substr(0, equals), axis, static_cast<int>(dimension)});
  }
  return splits;
}

bool says_where(Parallelism p) {
  p.micro_batches = 1;
  p.schedule = {};
  return p != Parallelism();
}

Parallelism resolved(Parallelism p, std::size_t devices) {
  const auto count = static_cast<std::int64_t>(devices);
  const std::string asked = to_string(p);
  std::int64_t product = 1;
  for (const std::int64_t factor : {p.data, p.tensor, p.pipeline})
    if (factor > 0) product = std::min(product * std::min(factor, count + 1), count + 1);
  for (std::int64_t* const factor : {&p.data, &p.tensor, &p.pipeline})
    if (*factor == 0 && product <= count) product *= *factor = count / product;
  if (product != count)
    fail(ExitCode::usage, option("parallel"), " ", asked, " on ", count, count == 1 ? " device" : " devices",
         ", expected factors whose product is ", count, ", of which one may be *");
  return p;
}

std::string to_string(const Parallelism& p) {
  const auto factor = [](std::int64_t value) { return value == 0 ? std::string("*") : std::to_string(value); };
  return concat("data=", factor(p.data), ",tensor=", factor(p.tensor), p.pipeline != 1 ? concat(",pipeline=", factor(p.pipeline)) : "",
                p.zero > 0 ? concat(",zero=", p.zero) : "");
}

PlacementRequest request_for(const Graph& model, const CompileOptions& o) {
  if (o.configuration) return configured(model, o);
  check_home(o.parallel, o.devices.size());
  check_merge(o.parallel, o.devices.size());
  check_stages(o.parallel);
  const bool staged = o.parallel.pipeline != 1;
  std::vector<DeviceGroup> groups = staged ? std::vector<DeviceGroup>() : groups_by_rules(o);
  const Parallelism parallel = resolved(o.parallel, staged ? computing_devices(o).size() : groups[0].devices.size());
  if (staged) groups = groups_of_stages(parallel, o);
  PlacementRequest request;
  if (parallel.data > 1) request = by_samples(model, replica_sizes(parallel, std::span(groups).first(staged ? groups.size() : 1), o));
  if (request.groups.empty()) request.groups = {{.name = "all", .axes = {}, .devices = {}}};
  DeviceGroup& all = request.groups[0];
  all.devices = groups[0].devices;
  const std::size_t tensor = all.axes.size();
  if (parallel.tensor > 1) all.axes.push_back({"tensor", std::vector<std::int64_t>(static_cast<std::size_t>(parallel.tensor), 1)});
  if (parallel.tensor > 1) request.layers_along = tensor;
  // its parameters are whole: the others update theirs alike
  const bool one_replica_works = parallel.data > 1 && all.axes[0].one_has_all();
  if (parallel.zero > 0 && parallel.data > 1 && !one_replica_works) request.parameters_along = 0;
  request.gather_again = parallel.zero == 3;
  if (parallel.weights_on >= 0 && parallel.data > 1) {
    request.parameters_along = 0;
    request.homes = {static_cast<std::size_t>(groups[0].position_of(parallel.weights_on))};
    for (const int d : parallel.weights_on_too) request.homes.push_back(static_cast<std::size_t>(groups[0].position_of(d)));
  }
  if (parallel.merge_on >= 0 && parallel.data > 1 && o.mode == PlanMode::training)
    request.merged = static_cast<std::size_t>(groups[0].position_of(parallel.merge_on));
  for (const Parallelism::Split& rule : parallel.splits)
    if (request.layers_along == split_as_said(request, model, rule)) request.layers_along.reset();
  if (!staged && o.parallel.places.empty()) return request;
  for (DeviceGroup& group : groups) group.axes = all.axes;
  request.groups = std::move(groups);
  if (staged)
    place_by_stages(request, model, o, parallel);
  else
    place_by_rules(request, model, o);
  return request;
}

}  // namespace tandem
