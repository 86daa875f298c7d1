#include "planner/place/print_placement.h"

#include "base/units.h"
#include "planner/plan/print.h"

namespace tandem {
namespace {

// "cpu:0-3 data 2 x tensor 2"
std::string text_of(const DeviceGroup& group, std::span<const DeviceSpec> devices) {
  std::vector<DeviceId> ids;
  for (const int d : group.devices) ids.push_back(devices[at(d)].id);
  std::string text = names_of(ids);
  for (std::size_t a = 0; a < group.axes.size(); ++a) text += concat(a > 0 ? " x " : " ", group.axes[a].name, ' ', group.axes[a].length());
  return text;
}

// "h data split(0), tensor split(1)"
std::string text_of(const Value& value, const DeviceGroup& group) {
  std::string text = value.name;
  for (std::size_t a = 0; a < value.placement.parts.size(); ++a)
    text += concat(a > 0 ? ", " : " ", group.axes[a].name, ' ', to_string(value.placement.parts[a]));
  return text;
}

}  // namespace

const std::string& name_for_people(const Node& node) { return node.origin.empty() ? node.name : node.origin.front(); }

std::vector<std::string> lines_of_placement(const Graph& graph, const PutIn& put_in, std::span<const DeviceSpec> devices) {
  std::vector<std::string> lines;
  for (const Node& node : graph.nodes) {
    std::string where, results, moved;
    for (const ValueId out : node.outputs) {
      if (!out.present()) continue;
      const Value& value = graph[out];
      if (value.placement.group < 0) continue;
      const DeviceGroup& group = graph.groups[at(value.placement.group)];
      where = concat(" on ", text_of(group, devices));
      results += concat(results.empty() ? ": " : "; ", text_of(value, group));
      if (const auto it = put_in.find(out); it != put_in.end() && it->second)
        moved = concat("; ", text_of_bytes(it->second->bytes), " for '", it->second->node, "': ", it->second->reason);
    }
    lines.push_back(concat(node.op->name, " '", name_for_people(node), "'", where, results, moved));
  }
  return lines;
}

}  // namespace tandem
