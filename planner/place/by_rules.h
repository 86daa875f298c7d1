// What rules by name say of nodes and parameters: which devices they are put on.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/options.h"

namespace tandem {

// Whether a pattern names what is called so, or a module that it belongs to: the name up to some '.' or '/' ("encoder.layer.1" of
// "/encoder/layer.1/MatMul", whose '/' may be written as '.'), or one of these further names.
bool names(const std::string& pattern, const std::string& name, const std::vector<std::string>& modules = {});

// What a pattern names goes to that group.
struct NameRule {
  std::string pattern;
  std::string said;  // the rule, as messages call it
  int group = 0;
  bool may_miss = false;  // it may name nothing
};

// Rules with what each has named so far.
class NamedGroups {
 public:
  NamedGroups(std::vector<NameRule> rules, const CompileOptions& options);
  // By the first rule that names it; absent: none does.
  std::optional<int> of_node(const std::string& name);
  std::optional<int> of_parameter(const std::string& name) { return find(name, {}); }
  // Fails (usage) where a rule has named nothing, with the nearest name.
  void check(const Graph& model) const;

 private:
  std::optional<int> find(const std::string& name, const std::vector<std::string>& modules);

  std::vector<NameRule> rules_;
  const CompileOptions& options_;
  std::vector<bool> any_;  // by rule
  std::set<std::string> known_;
};
// Puts the parameters that rules name into their groups.
void place_parameters(PlacementRequest& request, const Graph& model, NamedGroups& rules);

// The devices in groups: those of each rule, and those that no rule has, together. Fails (usage) where rules share some devices only,
// or groups are not of one size.
std::vector<DeviceGroup> groups_by_rules(const CompileOptions& options);

std::string name_of_devices(const std::vector<int>& devices, const CompileOptions& options);  // "cpu:0-1"

// Which group has the device; the first where none has.
std::size_t group_with(const std::vector<DeviceGroup>& groups, int device);

// Puts nodes and parameters into the groups: the first rule that names one says where it is put. Fails (usage) where a rule names nothing,
// with the nearest name.
void place_by_rules(PlacementRequest& request, const Graph& model, const CompileOptions& options);

}  // namespace tandem
