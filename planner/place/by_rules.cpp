#include "planner/place/by_rules.h"

#include <algorithm>
#include <set>

#include "base/option.h"
#include "base/pattern.h"
#include "base/suggest.h"
#include "planner/plan/print.h"

namespace tandem {
namespace {

// What something goes by: its name, that of each module around it, and both with '.' for '/'.
std::vector<std::string> names_for(const std::string& name, const std::vector<std::string>& modules) {
  std::vector<std::string> all{name};
  const std::string path = name.starts_with('/') ? name.substr(1) : name;
  std::string dotted = path;
  std::ranges::replace(dotted, '/', '.');
  all.insert(all.end(), {path, dotted});
  for (std::size_t i = path.find_first_of("./"); i != std::string::npos; i = path.find_first_of("./", i + 1)) {
    if (i == 0) continue;
    all.push_back(path.substr(0, i));
    all.push_back(dotted.substr(0, i));
  }
  all.insert(all.end(), modules.begin(), modules.end());
  return all;
}

std::string text_of(const Parallelism::Place& rule, const CompileOptions& o) {
  return concat(option("place"), " '", rule.pattern, '=', name_of_devices(rule.devices, o), "'");
}

}  // namespace

NamedGroups::NamedGroups(std::vector<NameRule> rules, const CompileOptions& options)
    : rules_(std::move(rules)), options_(options), any_(rules_.size()) {}

std::optional<int> NamedGroups::of_node(const std::string& name) {
  const auto it = options_.modules.find(name);
  return find(name, it == options_.modules.end() ? std::vector<std::string>() : it->second);
}

std::optional<int> NamedGroups::find(const std::string& name, const std::vector<std::string>& modules) {
  const std::vector<std::string> all = names_for(name, modules);
  known_.insert(all.begin(), all.end());
  std::optional<int> first;
  for (std::size_t r = 0; r < rules_.size(); ++r) {
    if (std::ranges::none_of(all, [&](const std::string& n) { return matches_any(n, {rules_[r].pattern}); })) continue;
    any_[r] = true;
    if (!first) first = rules_[r].group;
  }
  return first;
}

void NamedGroups::check(const Graph& model) const {
  for (std::size_t r = 0; r < rules_.size(); ++r) {
    if (any_[r] || rules_[r].may_miss) continue;
    const std::string near = nearest(rules_[r].pattern, std::vector<std::string>(known_.begin(), known_.end()));
    fail(ExitCode::usage, rules_[r].said, ": model '", model.name, "' has no node, module or parameter of such a name",
         near.empty() ? concat(" (", option("log_placement"), " lists its nodes)") : concat(", did you mean '", near, "'?"));
  }
}

void place_parameters(PlacementRequest& request, const Graph& model, NamedGroups& rules) {
  for (const Value& v : model.values)
    if (v.kind == ValueKind::parameter && v.role == ValueRole::plain)
      if (const auto group = rules.of_parameter(v.name)) request.parameters[v.name] = *group;
}

bool names(const std::string& pattern, const std::string& name, const std::vector<std::string>& modules) {
  return std::ranges::any_of(names_for(name, modules), [&](const std::string& n) { return matches_any(n, {pattern}); });
}

std::vector<DeviceGroup> groups_by_rules(const CompileOptions& o) {
  std::vector<std::vector<int>> sets;
  std::set<int> taken;
  for (const Parallelism::Place& rule : o.parallel.places) {
    if (std::ranges::find(sets, rule.devices) != sets.end()) continue;
    for (const int d : rule.devices)
      if (!taken.insert(d).second)
        fail(ExitCode::usage, text_of(rule, o), ": another rule has ", o.devices[at(d)].id,
             " with other devices: expected rules to share all of their devices, or none");
    sets.push_back(rule.devices);
  }
  std::vector<int> rest;  // with no rules all of them
  for (int d = 0; d < static_cast<int>(o.devices.size()); ++d)
    if (!taken.contains(d) && !only_keeps(o, d)) rest.push_back(d);
  if (!rest.empty()) sets.push_back(rest);
  std::ranges::sort(sets);  // by their first devices
  for (const std::vector<int>& set : sets)
    if (set.size() != sets[0].size())
      fail(ExitCode::usage, option("place"), ": ", name_of_devices(sets[0], o), " and ", name_of_devices(set, o),
           " are groups of different sizes", rest.empty() ? "" : concat(" (no rule names ", name_of_devices(rest, o), ")"),
           ": expected as many devices in each (", option("devices"), ")");
  std::vector<DeviceGroup> groups;
  for (std::vector<int>& set : sets) groups.push_back({.name = name_of_devices(set, o), .axes = {}, .devices = std::move(set)});
  return groups;
}

std::string name_of_devices(const std::vector<int>& devices, const CompileOptions& o) {
  std::vector<DeviceId> ids;
  for (const int d : devices) ids.push_back(o.devices[at(d)].id);
  return names_of(ids);
}

std::size_t group_with(const std::vector<DeviceGroup>& groups, int device) {
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (groups[g].position_of(device) >= 0) return g;
  return 0;
}

void place_by_rules(PlacementRequest& request, const Graph& model, const CompileOptions& o) {
  std::vector<NameRule> said;
  for (const Parallelism::Place& rule : o.parallel.places)
    said.push_back({rule.pattern, text_of(rule, o), static_cast<int>(group_with(request.groups, rule.devices.front())), rule.of_file});
  NamedGroups rules(std::move(said), o);
  for (const Node& node : model.nodes)
    for (const std::string& name : node.origin)
      if (const auto group = rules.of_node(name)) request.nodes[name] = *group;
  place_parameters(request, model, rules);
  rules.check(model);
}

}  // namespace tandem
