#include "planner/place/choose_parts.h"

#include <algorithm>
#include <optional>
#include <set>

#include "graph/place.h"
#include "planner/place/transfers.h"
#include "planner/update/optimizer.h"

namespace tandem {
namespace {

bool is_weight(const Value& v) { return v.kind == ValueKind::parameter && v.role == ValueRole::plain; }

bool divides(const Shape& shape, Part part, const MeshAxis& mesh) {
  const std::int64_t unit = part.outer * mesh.total();
  return shape[part.axis] > 0 && shape[part.axis] % unit == 0;
}

// Why there are no equal parts, with the most that there are.
std::string unequal(const Shape& shape, Part part, const MeshAxis& mesh) {
  const std::int64_t run = shape[part.axis] / part.outer;
  std::int64_t most = mesh.total();
  while (most > 1 && run % most != 0) --most;
  return concat("axis ", part.axis, " of ", shape, " has no ", mesh.total(), " equal parts", most > 1 ? concat(", but ", most) : "");
}

// The axis of the template that parts of a parameter along this axis are parts of; -1: none.
int axis_of_template(const Value& v, int axis) { return template_axis(v.type.shape, v.source, v.template_shape, axis).axis; }

// Whether a parameter can be held in such parts.
bool can_be_held(const Value& v, Part part, const MeshAxis& mesh) {
  return axis_of_template(v, part.axis) >= 0 && divides(v.type.shape, part, mesh);
}

// Whether the node sums over classes of which each device has a part.
bool sums_over_classes(const Node& node, const std::vector<Part>& operands) {
  if (operands.empty() || !operands[0].is_split()) return false;
  if (node.op->name == "SoftmaxCrossEntropyTraining") return operands[0].axis == 1;
  const bool softmax = node.op->gives == OutputKind::softmax || node.op->gives == OutputKind::log_softmax;
  return softmax && node.attributes.integer("axis") == operands[0].axis;
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
  bool splits_classes() const { return splits_classes_; }  // of a loss or a softmax
  bool sliced() const { return sliced_; }  // the node at fault is a Slice
  bool cut_through() const { return cut_through_; }  // the node at fault takes some of what is split, and would take some of each part
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
    if (any && node.op->moves == Moves::sum) return take_sum(node);
    NodePlacement placed{.inputs = operands, .outputs = std::vector<Part>(node.outputs.size())};
    if (any) placed = place_node(graph_, node, operands, mesh_);
    splits_classes_ = splits_classes_ || sums_over_classes(node, placed.inputs);
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

  // A sum that a pass has put in: of addends, along this axis of the mesh or another.
  Outcome take_sum(const Node& node) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      parts_[at(node.outputs[i].index)] = part(node.inputs[i]).is_split() ? part(node.inputs[i]) : Part{};
    return Outcome::placed;
  }

  // Sums are what a block ends with, and a part of what is whole is there; parameters can be chosen to lie so.
  Outcome move(const Node& node, std::size_t i, const std::vector<Part>& have, const NodePlacement& placed) {
    const Value& v = graph_[node.inputs[i]];
    const Part want = placed.inputs[i];
    if (have[i].spread == Spread::partial || want.spread == Spread::partial) return Outcome::placed;
    if (have[i].is_split()) return refuse(node, placed.reason.empty() ? "its operands are split in different ways" : placed.reason, have);
    if (is_weight(v)) {
      if (!can_be_held(v, want, mesh_))
        return refuse(node, concat("'", v.name, "': ", unequal(v.type.shape, want, mesh_)), have);
      if (read_whole_.contains(node.inputs[i].index)) return refuse(node, concat("'", v.name, "' is read as a whole elsewhere"), have);
      chosen_[node.inputs[i]] = want;
      return Outcome::again;
    }
    std::map<ValueId, Part> parts;
    if (can_be_made(node.inputs[i], want, parts)) return Outcome::placed;
    if (v.kind == ValueKind::activation && is_float(v.type.dtype) && made_by_weights(node.inputs[i]))
      return refuse(node, concat("'", v.name, "' is whole"), have);
    return Outcome::placed;
  }

  // Whether a part of a whole value can be made at once. `known`: values whose parts can.
  bool can_be_made(ValueId v, Part wanted, std::map<ValueId, Part>& known) const {
    const Value& value = graph_[v];
    if (part(v) == wanted || value.kind == ValueKind::constant) return true;
    if (part(v) != Part{} || !value.producer.present()) return false;
    if (const auto done = known.find(v); done != known.end()) return done->second == wanted;
    const Node& node = graph_[value.producer];
    if (gives_any_part(node, wanted)) return true;
    if (node.inputs.empty()) return node.op->name == "Fill";
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::optional<Part> needed = operand_for(graph_, node, i, wanted, mesh_);
      if (!needed || (needed->is_split() && !can_be_made(node.inputs[i], *needed, known))) return false;
    }
    known.emplace(v, std::move(wanted));
    return true;
  }

  Outcome refuse(const Node& node, std::string why, const std::vector<Part>& have) {
    reason_ = concat(node.op->name, " '", node.name, "': ", why);
    sliced_ = node.op->name == "Slice";
    cut_through_ = sliced_ || node.op->name == "Reshape";
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
        return refuse(node, unequal(graph_[out].type.shape, part(out), mesh_), {});
    return Outcome::placed;
  }

  bool outputs_fit() {
    std::map<std::string, int, std::less<>> weights;
    for (std::size_t i = 0; i < graph_.values.size(); ++i)
      if (is_weight(graph_.values[i])) weights.emplace(graph_.values[i].name, static_cast<int>(i));
    for (const GraphOutput& out : graph_.outputs) {
      const Part have = part(out), want = out.role == ValueRole::gradient ? parts_[at(weights.at(out.of))] : Part{};
      const NodeId made = graph_[out].producer;
      if (have == want || have.spread == Spread::partial || (made.present() && gives_any_part(graph_[made], want))) continue;
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
  bool cut_through_ = false, sliced_ = false, splits_classes_ = false;
  std::vector<ValueId> wanting_;
};

class Chooser {
 public:
  Chooser(const Graph& graph, const MeshAxis& mesh) : graph_(graph), mesh_(mesh) {}

  ChosenParts run(std::vector<std::string>& whole) {
    for (const Node& node : graph_.nodes) {
      const auto seed = seed_of(node);
      if (!seed) note_refusal(node);
      if (!seed || chosen_.contains(seed->first) || !tried_.insert(seed->first).second) continue;
      if (const std::string reason = begin_block(*seed); !reason.empty())
        whole.push_back(concat("'", graph_[seed->first].name, "': ", reason));
    }
    for (const auto& [id, reason] : refused_)
      if (!chosen_.contains(id) && !tried_.contains(id)) whole.insert(whole.begin(), concat("'", graph_[id].name, "': ", reason));
    return chosen_;
  }

 private:
  using Seed = std::pair<ValueId, Part>;

  bool is_matrix(ValueId v) const { return v.present() && is_weight(graph_[v]) && graph_[v].type.shape.rank() > 1; }

  // A weight of which the node needs all, as a recurrence does at each step.
  void note_refusal(const Node& node) {
    for (std::size_t i = 0; i < node.inputs.size() && node.op->in_place.empty(); ++i) {
      if (!is_matrix(node.inputs[i])) continue;
      const Shape& shape = graph_[node.inputs[i]].type.shape;
      const auto longer = std::ranges::find_if(shape.dims, [](std::int64_t dim) { return dim > 1; });
      if (longer == shape.dims.end() || *longer == shape.elements()) continue;
      std::vector<Part> operands(node.inputs.size());
      operands[i] = Part::split(static_cast<int>(longer - shape.dims.begin()));
      const std::string reason = place_node(graph_, node, operands, mesh_).reason;
      if (!reason.empty()) refused_.try_emplace(node.inputs[i], concat(node.op->name, " '", node.name, "': ", reason));
    }
  }

  // A weight that splits the node's result where it is split itself.
  std::optional<Seed> seed_of(const Node& node) const {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      if (!is_matrix(in) || graph_[in].type.shape[0] == 1 || !node.op->in_place.empty()) continue;
      const Part by_results = Part::split(0);
      if (axis_of_template(graph_[in], 0) < 0) continue;
      std::vector<Part> operands(node.inputs.size());
      operands[i] = by_results;
      const NodePlacement placed = place_node(graph_, node, operands, mesh_);
      const std::int64_t elements = graph_[in].type.shape.elements(), results = graph_[node.outputs[0]].type.shape.elements();
      const bool larger = placed.outputs[0].spread == Spread::partial && elements > results;  // a table, than what is picked and summed
      if (placed.reason.empty() && (placed.outputs[0].is_split() || larger)) return Seed{in, by_results};
    }
    return std::nullopt;
  }

  // Takes the block that begins with a weight, where there is one: empty, or why there is none. A weight of several layers, one behind the
  // other (queries, keys and values; a gate and what goes through it), is split as so many runs, of one width.
  std::string begin_block(Seed seed) {
    const Value& v = graph_[seed.first];
    std::string reason;
    bool sliced = true;  // in whatever runs
    for (const std::int64_t runs : {1, 3, 2}) {
      seed.second.outer = runs;
      if (!can_be_held(v, seed.second, mesh_)) {
        if (runs == 1) return unequal(v.type.shape, seed.second, mesh_);
        continue;
      }
      const Outcome outcome = begin_with(seed);
      if (outcome.taken) return {};
      if (runs == 1 || !outcome.cut_through) reason = outcome.reason;
      sliced = sliced && outcome.sliced;
      if (!outcome.cut_through) break;
    }
    if (sliced) reason += ". It has layers of several widths, or more than three: with a weight each they could be split";
    return reason;
  }

  struct Outcome {
    bool taken = false, cut_through = false, sliced = false;
    std::string reason;
  };
  Outcome begin_with(const Seed& seed) {
    ChosenParts tried = chosen_;
    tried.insert(seed);
    for (;;) {
      Trial trial(graph_, mesh_, tried);
      if (trial.run()) {
        // What is summed for the loss and for the gradient of what it reads costs more than a few scores.
        const Shape& weight = graph_[seed.first].type.shape;
        const std::int64_t classes = weight[0], features = weight.elements() / std::max<std::int64_t>(1, classes);
        if (trial.splits_classes() && !splits_classes_ && classes < features)
          return {.reason = concat("its ", classes, " classes, of ", features, " features, are cheaper whole")};
        splits_classes_ = trial.splits_classes();
        chosen_ = trial.chosen();
        return {.taken = true};
      }
      const std::size_t before = tried.size();
      for (const ValueId operand : trial.wanting()) add_sources(operand, tried);
      if (tried.size() == before) return {.cut_through = trial.cut_through(), .sliced = trial.sliced(), .reason = trial.reason()};
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
  bool splits_classes_ = false;
  std::set<ValueId> tried_;
  std::map<ValueId, std::string> refused_;  // by weight
};

// By the first axis of which each device has something: parts of axis 0 are gathered as they lie. `own`: what the replicas share out.
std::optional<Part> first_part(const Value& v, const Shape& own, const MeshAxis& mesh) {
  for (int axis = 0; axis < own.rank(); ++axis) {
    if (axis_of_template(v, axis) < 0 || own[axis] < mesh.total()) continue;
    Part part = Part::split(axis);
    if (own[axis] % mesh.total() != 0) part.sizes = slice_sizes(own[axis], std::vector<double>(mesh.sizes.begin(), mesh.sizes.end()));
    return part;
  }
  return std::nullopt;
}

// All of it on the device at that position. Parts of the first axis that has several elements lie apart in memory.
Part all_on(std::size_t position, const Shape& shape, const MeshAxis& mesh) {
  const auto several = std::ranges::find_if(shape.dims, [](std::int64_t dim) { return dim > 1; });
  Part all = Part::split(several == shape.dims.end() ? 0 : static_cast<int>(several - shape.dims.begin()));
  all.sizes.assign(mesh.sizes.size(), 0);
  all.sizes[position] = 1;
  return all;
}
bool can_be_owned(const Value& v) { return v.type.shape.rank() > 0 && v.type.shape.elements() > 0; }

// The largest first, each to the device that has least. Where a device has no samples all keep all.
ChosenParts owners(const Graph& graph, std::vector<ValueId> parameters, const MeshAxis& mesh) {
  const auto elements = [&](ValueId id) { return graph[id].type.shape.elements(); };
  std::erase_if(parameters, [&](ValueId id) { return !can_be_owned(graph[id]); });
  std::ranges::stable_sort(parameters, std::greater(), elements);
  std::vector<std::int64_t> has(mesh.sizes.size());
  ChosenParts chosen;
  if (std::ranges::count(mesh.sizes, 0) > 0) return chosen;
  for (const ValueId id : parameters) {
    const auto least = std::ranges::min_element(has);
    *least += elements(id);
    chosen.emplace(id, all_on(static_cast<std::size_t>(least - has.begin()), graph[id].type.shape, mesh));
  }
  return chosen;
}

}  // namespace

ChosenParts parts_of_layers(const Graph& graph, const MeshAxis& mesh, std::vector<std::string>& whole) {
  return Chooser(graph, mesh).run(whole);
}

ChosenParts parts_of_parameters(const Graph& graph, const MeshAxis& mesh, const ChosenParts& layers, std::int64_t layers_parts,
                                const OptimizerOptions& optimizer, bool frozen) {
  std::set<ValueId> changed;
  for (const Node& node : graph.nodes)
    for (const ValueId v : updated_by(node)) changed.insert(v);
  const bool trains = std::ranges::any_of(graph.values, &Value::trainable);
  ChosenParts chosen;
  std::vector<ValueId> owned;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& v = graph.values[i];
    const ValueId id{static_cast<int>(i)};
    if (!is_weight(v) || (trains && !v.trainable && (!frozen || changed.contains(id)))) continue;
    Shape own = v.type.shape;
    if (const auto part = layers.find(id); part != layers.end()) own[part->second.axis] /= layers_parts;
    if (v.trainable && !layers.contains(id) && !reads_whole(v, optimizer).empty())
      owned.push_back(id);
    else if (const auto part = first_part(v, own, mesh))
      chosen.emplace(id, *part);
  }
  for (auto& [id, part] : owners(graph, std::move(owned), mesh)) chosen.emplace(id, std::move(part));
  return chosen;
}

ChosenParts parameters_at_home(const Graph& graph, const MeshAxis& mesh, std::size_t home) {
  ChosenParts chosen;
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    if (const Value& v = graph.values[i]; is_weight(v) && v.trainable && can_be_owned(v))
      chosen.emplace(ValueId{static_cast<int>(i)}, all_on(home, v.type.shape, mesh));
  return chosen;
}

}  // namespace tandem
