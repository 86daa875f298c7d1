// What every device has to know of gradients of which each has a part, or which are on others.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "planner/plan/plan.h"

namespace tandem {

// The step's scalars as updates go by them, by group of devices.
class StepScalarsOf {
 public:
  StepScalarsOf(const Graph& graph, ValueId given) : graph_(graph), by_group_(std::max<std::size_t>(1, graph.groups.size()), given) {}
  ValueId on(std::size_t group) const { return by_group_[group]; }
  ValueId of(ValueId parameter) const { return by_group_[at(std::max(0, graph_[parameter].placement.group))]; }
  void set(std::size_t group, ValueId scalars) { by_group_[group] = scalars; }

 private:
  const Graph& graph_;
  std::vector<ValueId> by_group_;
};

bool is_in_parts(const Value& value);

// What stands on every device for gradients in parts: a float32 that is
enum class PartsMeasure {
  norm,    // that of all of them together
  finite,  // 0 where all of them are finite, else NaN
};
// What stands for all gradients, by group of devices. Of one group: the gradients that are whole, and one measure of those that are in
// parts along the same axes of a mesh. Of several, in each of which there are some: one measure of all, the same on every device.
// Adds the sums that measures end in to `transfers`.
std::vector<std::vector<ValueId>> whole_or_measured(Graph& graph, std::span<const ValueId> gradients, PartsMeasure measure,
                                                    std::vector<PlanTransfer>& transfers);
// The value on the devices of another group, where it is not there.
ValueId sent_to(Graph& graph, ValueId value, int group);

}  // namespace tandem
