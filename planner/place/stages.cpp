#include "planner/place/stages.h"

#include <algorithm>
#include <map>

#include "base/option.h"
#include "base/spec.h"
#include "planner/pipeline/pieces.h"
#include "planner/place/by_rules.h"
#include "planner/place/placing.h"
#include "planner/update/optimizer.h"

namespace tandem {
namespace {

int parts_of(const Parallelism& p) { return static_cast<int>(p.pipeline) * p.schedule.chunks; }

// Bytes that may be put on the device; 0: nobody says.
double memory_of(const MemoryOptions& memory, std::size_t device) {
  if (!memory.most.empty()) return static_cast<double>(memory.most[memory.most.size() == 1 ? 0 : device]);
  return memory.free.empty() ? 0 : static_cast<double>(std::max<std::int64_t>(0, memory.free[device]));
}

// A stage is as fast as its devices' shares of the work say. Its parts have its memory in equal shares.
std::vector<PartRoom> rooms_of(const PlacementRequest& request, const CompileOptions& o, const Parallelism& p) {
  std::vector<PartRoom> rooms;
  for (int g = 0; g < parts_of(p); ++g) {
    const auto schedule = schedule_of(p.schedule.kind, g % static_cast<int>(p.pipeline), static_cast<int>(p.pipeline), p.schedule.chunks,
                                      static_cast<int>(p.micro_batches));
    PartRoom room{.speed = 0, .memory = 0, .held = slots_of(schedule, g / static_cast<int>(p.pipeline))};
    for (const int d : request.groups[at(g)].devices) {
      room.speed += o.devices[at(d)].weight;
      const double memory = memory_of(o.memory, at(d)) / p.schedule.chunks;
      room.memory = room.memory > 0 ? std::min(room.memory, memory) : memory;
    }
    if (room.speed <= 0)
      fail(ExitCode::usage, option("slice_weights"), ": the devices of stage ", g, " (", request.groups[at(g)].name,
           ") have no share of the work: expected one above 0");
    rooms.push_back(room);
  }
  return rooms;
}

std::vector<int> cut_by_time(const PlacementRequest& request, const Graph& model, const CompileOptions& o, const Parallelism& p) {
  const auto each = [](std::int64_t count) { return 1 / static_cast<double>(count); };
  const double states = o.mode == PlanMode::training ? 2 + static_cast<double>(update_rule(o.optimizer).states.size()) : 1;
  const ModelPieces model_pieces = pieces_of(model, {.activations = each(p.data * p.tensor),
                                                     .parameters = states * each(p.tensor * (p.zero > 0 ? p.data : 1))});
  const std::vector<int> begins = best_cuts(model_pieces.pieces, rooms_of(request, o, p));
  std::vector<int> groups;
  for (const int piece : model_pieces.of_node)
    groups.push_back(static_cast<int>(std::ranges::upper_bound(begins, piece) - begins.begin()) - 1);
  return groups;
}

// What patterns say of nodes, and what follows for the others.
class Named {
 public:
  Named(PlacementRequest& request, const Graph& model, const CompileOptions& o) : request_(request), model_(model), rules_(rules_of(o), o) {
    for (std::size_t part = 0; part < o.parallel.stages.size(); ++part)
      if (o.parallel.stages[part] == "rest") rest_ = static_cast<int>(part);
  }

  std::vector<int> run() {
    find_named();
    place_parameters(request_, model_, rules_);
    rules_.check(model_);
    find_followers();
    return std::move(groups_);
  }

 private:
  static constexpr int open = -1;

  static std::vector<NameRule> rules_of(const CompileOptions& o) {
    std::vector<NameRule> rules;
    for (std::size_t part = 0; part < o.parallel.stages.size(); ++part)
      for (const std::string& pattern : split(o.parallel.stages[part], ','))
        if (pattern != "rest") rules.push_back({pattern, concat(option("stage"), " '", pattern, "'"), static_cast<int>(part), false});
    return rules;
  }

  void find_named() {
    for (const Node& node : model_.nodes) {
      groups_.push_back(open);
      for (const std::string& name : node.origin)
        if (const auto group = rules_.of_node(name); group && groups_.back() == open) groups_.back() = *group;
    }
    for (const int group : groups_) named_.push_back(group != open);
  }

  // A node that nobody names works where a parameter of it has been put, else in the rest, and in no part before its operands'; but where
  // an earlier part reads it, there.
  void find_followers() {
    std::vector<int> made(model_.values.size(), open);  // by value: its group
    for (std::size_t n = 0; n < groups_.size(); ++n) {
      const Node& node = model_.nodes[n];
      int home = open, from = open;
      for (const ValueId in : node.inputs) {
        if (!in.present()) continue;
        const Value& v = model_[in];
        if (const auto it = request_.parameters.find(v.name); v.kind == ValueKind::parameter && it != request_.parameters.end())
          home = std::max(home, it->second);
        from = std::max(from, v.kind == ValueKind::input ? 0 : made[at(in.index)]);
      }
      if (!named_[n]) groups_[n] = std::max(home != open ? home : rest_, from);
      for (const ValueId out : node.outputs)
        if (out.present()) made[at(out.index)] = groups_[n];
    }
    const auto readers = model_.consumers();
    for (std::size_t n = groups_.size(); n-- > 0;)
      for (const ValueId out : model_.nodes[n].outputs)
        if (out.present() && !named_[n])
          for (const NodeId reader : readers[out])
            groups_[n] = groups_[n] == open ? groups_[at(reader.index)] : std::min(groups_[n], groups_[at(reader.index)]);
    for (int& group : groups_) group = std::max(group, 0);
  }

  PlacementRequest& request_;
  const Graph& model_;
  NamedGroups rules_;
  int rest_ = open;
  std::vector<int> groups_;  // by node
  std::vector<bool> named_;  // by node
};

}  // namespace

std::string value_backwards(const Graph& model, const std::map<std::string, int, std::less<>>& groups) {
  struct Made {
    int group = -1;  // the last among what it is made of
    const Node* by = nullptr;
  };
  std::vector<Made> made(model.values.size());
  for (const Node& node : model.nodes) {
    const auto it = node.origin.empty() ? groups.end() : groups.find(node.origin.front());
    Made here{it == groups.end() ? -1 : it->second, &node};
    for (const ValueId in : node.inputs) {
      if (!in.present() || made[at(in.index)].group <= here.group) continue;
      const Made& from = made[at(in.index)];
      if (it != groups.end())
        return concat("node '", name_for_people(node), "' is in part ", here.group, ", and reads what '", name_for_people(*from.by),
                      "' of part ", from.group, " makes: expected values to go to later parts only");
      here = from;
    }
    for (const ValueId out : node.outputs)
      if (out.present()) made[at(out.index)] = here;
  }
  return "";
}

std::vector<DeviceGroup> groups_of_stages(const Parallelism& p, const CompileOptions& o) {
  const std::vector<int> all = computing_devices(o);
  const std::size_t size = all.size() / static_cast<std::size_t>(p.pipeline);
  std::vector<DeviceGroup> groups;
  for (int g = 0; g < parts_of(p); ++g) {
    const int chunk = g / static_cast<int>(p.pipeline);
    const auto first = all.begin() + g % static_cast<int>(p.pipeline) * static_cast<std::ptrdiff_t>(size);
    std::vector<int> devices(first, first + static_cast<std::ptrdiff_t>(size));
    const std::string name = name_of_devices(devices, o);
    groups.push_back({.name = chunk > 0 ? concat(name, ", chunk ", chunk) : name, .axes = {}, .devices = std::move(devices)});
  }
  return groups;
}

void place_by_stages(PlacementRequest& request, const Graph& model, const CompileOptions& o, const Parallelism& p) {
  const std::size_t said = o.parallel.stages.size(), parts = at(parts_of(p));
  if (said > 0 && said != parts)
    fail(ExitCode::usage, option("stage"), " has ", said, said == 1 ? " part" : " parts", ", ", option("parallel"),
         " pipeline=", p.pipeline, p.schedule.chunks > 1 ? concat(" with ", option("schedule"), ' ', to_string(p.schedule)) : "", " has ", parts);
  request.stages = static_cast<int>(p.pipeline);
  const std::vector<int> groups = said > 0 ? Named(request, model, o).run() : cut_by_time(request, model, o, p);
  for (std::size_t n = 0; n < groups.size(); ++n)
    for (const std::string& name : model.nodes[n].origin) {
      int& group = request.nodes.emplace(name, groups[n]).first->second;
      group = std::max(group, groups[n]);
    }
  if (const std::string wrong = value_backwards(model, request.nodes); !wrong.empty()) fail(ExitCode::usage, option("stage"), ": ", wrong);
}

}  // namespace tandem
