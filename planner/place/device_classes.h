// From the graph of all devices to a program for each class of them.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace tandem {

// Devices of one class have the same program: they have as much of everything, take the same part of what is whole, give the same outputs,
// and exchange with devices of the same classes.
struct DeviceClasses {
  std::vector<Graph> graphs;         // by class
  std::vector<std::size_t> of;       // by device
  std::vector<std::vector<int>> outputs;  // by class: which of the whole graph's it gives
};
// Exchanges of all devices have no name of their own. Others have one ("exchange"), their members ("devices"), in rows ("rows") of which
// each exchanges by itself.
DeviceClasses cut_by_class(const Graph& whole, int devices);

// By parameter that is split: where each of a device's ranges of the template's tensor begins, by range and by device.
using BeginsOfParts = std::map<std::pair<ValueRole, std::string>, std::vector<std::vector<std::int64_t>>>;
BeginsOfParts begins_of_parts(const Graph& whole, int devices);

}  // namespace tandem
