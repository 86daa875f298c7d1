// What rules by name say of nodes and parameters: which devices they are put on.
#pragma once
#include "planner/options.h"

namespace tandem {

// Whether a pattern names what is called so, or a module that it belongs to: the name up to some '.' or '/' ("encoder.layer.1" of
// "/encoder/layer.1/MatMul", whose '/' may be written as '.'), or one of these further names.
bool names(const std::string& pattern, const std::string& name, const std::vector<std::string>& modules = {});

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
