#include "planner/place/choose_parts.h"

#include <algorithm>
#include <optional>
#include <set>

#include "graph/place.h"

namespace tandem {
namespace {

bool is_weight(const Value& v) { return v.kind == ValueKind::parameter && v.role == ValueRole::plain; }

bool divides(const Shape& shape, Part part, const MeshAxis& mesh) {
  const std::int64_t unit = part.outer * mesh.total();
  return shape[part.axis] > 0 && shape[part.axis] % unit == 0;
}

// The axis of the template that parts of a parameter along this axis are parts of; -1: none.
int axis_of_template(const Value& v, int axis) { return template_axis(v.type.shape, v.source, v.template_shape, axis).axis; }

// Whether a parameter can be held in such parts.
bool can_be_held(const Value& v, Part part, const MeshAxis& mesh) {
  return part.outer == 1 && axis_of_template(v, part.axis) >= 0 && divides(v.type.shape, part, mesh);
}

// What comes of a choice: how every value lies, and the first node that would have something gathered.
class Trial {
 public:
  Trial(const Graph& graph, const MeshAxis& mesh, ChosenParts chosen) : graph_(graph), mesh_(mesh), chosen_(std::move(chosen)) {}

  // Parameters that have to be split for a node are chosen as well; then all is placed anew. False where something would be gathered.
  bool run() {
    Outcome outcome = Outcome::again;
    while (outcome == Outcome::again) outcome = place_all();
    return outcome == Outcome::placed && outputs_fit();
  }

  const ChosenParts& chosen() const { return chosen_; }
  const std::string& reason() const { return reason_; }
  const std::vector<ValueId>& wanting() const { return wanting_; }  // whole operands of the node at fault, beside split ones

 private:
  enum class Outcome { placed, again, refused };

  Part part(ValueId v) const { return v.present() ? parts_[at(v.index)] : Part{}; }

  Outcome place_all() {
    reason_.clear();
    wanting_.clear();
    read_whole_.clear();
    parts_.assign(graph_.values.size(), {});
    for (const auto& [id, part] : chosen_) parts_[at(id.index)] = part;
    for (const Node& node : graph_.nodes)
      if (const Outcome outcome = take(node); outcome != Outcome::placed) return outcome;
    return Outcome::placed;
  }

  Outcome take(const Node& node) {
    std::vector<Part> operands;
    for (const ValueId in : node.inputs) operands.push_back(part(in));
    const bool any = std::ranges::any_of(operands, [](const Part& p) { return p != Part{}; });
    if (any && node.op->moves == Moves::sum) return Outcome::placed;  // whole from here on
    if (any && node.op->by_parts && std::ranges::any_of(operands, &Part::is_split))
      return refuse(node, "its statistics are of all that is split", operands);
    NodePlacement placed{.inputs = operands, .outputs = std::vector<Part>(node.outputs.size())};
    if (any) placed = place_node(graph_, node, operands, mesh_);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!node.inputs[i].present()) continue;
      if (operands[i] != placed.inputs[i])
        if (const Outcome outcome = move(node, i, operands, placed); outcome != Outcome::placed) return outcome;
      if (placed.inputs[i] == Part{}) read_whole_.insert(node.inputs[i].index);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i].present()) parts_[at(node.outputs[i].index)] = placed.outputs[i];
    return has_equal_parts(node);
  }

  // Sums are what a block ends with, and a part of what is whole is there; parameters can be chosen to lie so.
  Outcome move(const Node& node, std::size_t i, const std::vector<Part>& have, const NodePlacement& placed) {
    const Value& v = graph_[node.inputs[i]];
    const Part want = placed.inputs[i];
    if (have[i].spread == Spread::partial || want.spread == Spread::partial) return Outcome::placed;
    if (have[i].is_split()) return refuse(node, placed.reason.empty() ? "its operands are split in different ways" : placed.reason, have);
    if (is_weight(v)) {
      if (!can_be_held(v, want, mesh_))
        return refuse(node, concat("'", v.name, "' of ", v.type.shape, " has no ", mesh_.total(), " equal parts along axis ", want.axis),
                      have);
      if (read_whole_.contains(node.inputs[i].index)) return refuse(node, concat("'", v.name, "' is read as a whole elsewhere"), have);
      chosen_[node.inputs[i]] = want;
      return Outcome::again;
    }
    if (v.kind == ValueKind::activation && is_float(v.type.dtype) && made_by_weights(node.inputs[i]))
      return refuse(node, concat("'", v.name, "' is whole"), have);
    return Outcome::placed;
  }

  Outcome refuse(const Node& node, std::string why, const std::vector<Part>& have) {
    reason_ = concat(node.op->name, " '", node.name, "': ", why);
    for (std::size_t i = 0; i < have.size(); ++i)
      if (node.inputs[i].present() && have[i] == Part{} && graph_[node.inputs[i]].kind == ValueKind::activation)
        wanting_.push_back(node.inputs[i]);
    return Outcome::refused;
  }

  // Whether some weight was multiplied in: such a value is split where it is made, or not at all.
  bool made_by_weights(ValueId v) const {
    std::vector<ValueId> open{v};
    std::set<int> seen;
    while (!open.empty()) {
      const Value& value = graph_[open.back()];
      open.pop_back();
      if (is_weight(value) && value.type.shape.rank() > 1) return true;
      if (value.producer.present())
        for (const ValueId in : graph_[value.producer].inputs)
          if (in.present() && seen.insert(in.index).second) open.push_back(in);
    }
    return false;
  }

  Outcome has_equal_parts(const Node& node) {
    for (const ValueId out : node.outputs)
      if (out.present() && part(out).is_split() && !divides(graph_[out].type.shape, part(out), mesh_))
        return refuse(node, concat("axis ", part(out).axis, " of ", graph_[out].type.shape, " has no ", mesh_.total(), " equal parts"), {});
    return Outcome::placed;
  }

  bool outputs_fit() {
    std::map<std::string, int, std::less<>> weights;
    for (std::size_t i = 0; i < graph_.values.size(); ++i)
      if (is_weight(graph_.values[i])) weights.emplace(graph_.values[i].name, static_cast<int>(i));
    for (const GraphOutput& out : graph_.outputs) {
      const Part have = part(out), want = out.role == ValueRole::gradient ? parts_[at(weights.at(out.of))] : Part{};
      if (have == want || have.spread == Spread::partial) continue;
      reason_ = concat("'", graph_[out].name, "' is an output of the plan, and would be gathered");
      return false;
    }
    return true;
  }

  const Graph& graph_;
  const MeshAxis& mesh_;
  ChosenParts chosen_;
  std::vector<Part> parts_;
  std::set<int> read_whole_;
  std::string reason_;
  std::vector<ValueId> wanting_;
};

class Chooser {
 public:
  Chooser(const Graph& graph, const MeshAxis& mesh) : graph_(graph), mesh_(mesh) {}

  ChosenParts run(std::vector<std::string>& whole) {
    for (const Node& node : graph_.nodes) {
      const auto seed = seed_of(node);
      if (!seed || chosen_.contains(seed->first) || !tried_.insert(seed->first).second) continue;
      if (const std::string reason = begin_block(*seed); !reason.empty())
        whole.push_back(concat("'", graph_[seed->first].name, "': ", reason));
    }
    return chosen_;
  }

 private:
  using Seed = std::pair<ValueId, Part>;

  // A weight that splits the node's result where it is split itself.
  std::optional<Seed> seed_of(const Node& node) const {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      if (!in.present() || !is_weight(graph_[in]) || graph_[in].type.shape.rank() < 2 || !node.op->in_place.empty()) continue;
      const Part by_results = Part::split(0);
      if (axis_of_template(graph_[in], 0) < 0) continue;
      std::vector<Part> operands(node.inputs.size());
      operands[i] = by_results;
      const NodePlacement placed = place_node(graph_, node, operands, mesh_);
      if (placed.reason.empty() && placed.outputs[0].is_split()) return Seed{in, by_results};
    }
    return std::nullopt;
  }

  // Takes the block that begins with a weight, where there is one: empty, or why there is none.
  std::string begin_block(const Seed& seed) {
    const Value& v = graph_[seed.first];
    if (!can_be_held(v, seed.second, mesh_)) return concat("axis 0 of ", v.type.shape, " has no ", mesh_.total(), " equal parts");
    ChosenParts tried = chosen_;
    tried.insert(seed);
    for (;;) {
      Trial trial(graph_, mesh_, tried);
      if (trial.run()) {
        chosen_ = trial.chosen();
        return {};
      }
      const std::size_t before = tried.size();
      for (const ValueId operand : trial.wanting()) add_sources(operand, tried);
      if (tried.size() == before) return trial.reason();
    }
  }

  // The weights that an operand was last multiplied by: split as well they give it in parts.
  void add_sources(ValueId operand, ChosenParts& tried) const {
    std::vector<ValueId> open{operand};
    std::set<int> seen;
    while (!open.empty()) {
      const NodeId producer = graph_[open.back()].producer;
      open.pop_back();
      if (!producer.present()) continue;
      if (const auto seed = seed_of(graph_[producer])) {
        if (can_be_held(graph_[seed->first], seed->second, mesh_)) tried.insert(*seed);
        continue;
      }
      for (const ValueId in : graph_[producer].inputs)
        if (in.present() && seen.insert(in.index).second) open.push_back(in);
    }
  }

  const Graph& graph_;
  const MeshAxis& mesh_;
  ChosenParts chosen_;
  std::set<ValueId> tried_;
};

// By the first axis of which each device has something: parts of axis 0 are gathered as they lie.
std::optional<Part> first_part(const Value& v, const MeshAxis& mesh) {
  for (int axis = 0; axis < v.type.shape.rank(); ++axis)
    if (axis_of_template(v, axis) >= 0 && v.type.shape[axis] >= mesh.total()) return Part::split(axis);
  return std::nullopt;
}

}  // namespace

ChosenParts parts_of_layers(const Graph& graph, const MeshAxis& mesh, std::vector<std::string>& whole) {
  return Chooser(graph, mesh).run(whole);
}

ChosenParts parts_of_parameters(const Graph& graph, const MeshAxis& mesh, const ChosenParts& along_other_axes) {
  ChosenParts chosen;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& v = graph.values[i];
    if (!is_weight(v) || !v.trainable) continue;
    if (along_other_axes.contains({static_cast<int>(i)})) continue;  // a plan has parts of a parameter along one axis of the mesh
    if (const auto part = first_part(v, mesh)) chosen.emplace(ValueId{static_cast<int>(i)}, *part);
  }
  return chosen;
}

}  // namespace tandem
