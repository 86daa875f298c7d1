// The devices' programs, cut out of the graph of all of them.
#pragma once
#include <set>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tandem {

// An axis of a group's mesh.
struct MeshPlace {
  int group = 0;
  std::size_t axis = 0;
  auto operator<=>(const MeshPlace&) const = default;
};

// The program of one device, and in what other devices that have as much of everything must stand like it to have the same.
struct DeviceGraph {
  Graph graph;
  std::set<MeshPlace> by_position;  // where it stands along these
  std::set<MeshPlace> by_first;     // whether it is the first along these that has something
};

// Of each value the device's part, of each transfer what the device does in it. A device that is idle takes part in sums and updates, with
// zeros, and gives of a model's outputs none. An exchange has its name, and along what its members stand: not yet who they are. Fails
// (usage) where a parameter cannot be split as asked.
DeviceGraph cut(const Graph& whole, int device);
bool is_idle(const Graph& whole, int device);  // it has nothing of what is split along an axis of its mesh
std::vector<int> outputs_on(const Graph& whole, int device);  // those of the graph that the device gives

// Attributes of an exchange whose members are not named yet: the axis of a group's mesh; the group that gives and the one that gets.
inline constexpr std::string_view along_axis = "along", between_groups = "between";

// Where the part of a value lies that the device in that position of the group has along an axis of its mesh, in what has that shape.
AxisRange range_of(const Value& v, const Shape& shape, std::size_t along, const DeviceGroup& group, int position);
// The device's part of a parameter's template. Replicas share out what each has by its layers: parts along the last mesh axis are cut
// first. Fails (usage) where an axis that is cut is none of the template's.
std::vector<AxisRange> ranges_of(const Value& parameter, const DeviceGroup& group, int position);

}  // namespace tandem
