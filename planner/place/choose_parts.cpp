#include "planner/place/choose_parts.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "graph/place.h"
#include "graph/template_range.h"
#include "planner/place/transfers.h"

namespace tandem {
namespace {

bool divides(const Shape& shape, Part part, const MeshAxis& mesh) {
  const std::int64_t unit = part.outer * mesh.total();
  return shape[part.axis] > 0 && shape[part.axis] % unit == 0;
}

// Why there are no equal parts, with the most that there are.
std::string unequal(const Shape& shape, const Part& part, const MeshAxis& mesh) {
  const std::int64_t run = shape[part.axis] / part.outer;
  std::string runs;
  for (const std::int64_t width : part.widths) runs += concat(runs.empty() ? ", in runs of " : ", ", width * run);
  std::int64_t most = mesh.total();
  while (most > 1 && run % most != 0) --most;
  return concat("axis ", part.axis, " of ", shape, runs, runs.empty() ? "" : ",", " has no ", mesh.total(), " equal parts",
                most > 1 ? concat(", but ", most) : "");
}

// Whether such parts of a parameter are parts of the template's tensor, and whether it can be held in them.
bool are_of_template(const Value& v, const Part& part, const MeshAxis& mesh) {
  const std::int64_t unit = v.type.shape[part.axis] / part.outer / mesh.total();
  return range_in_template(v, {part.axis, unit, unit, part.outer, part.widths}).has_value();
}
bool can_be_held(const Value& v, const Part& part, const MeshAxis& mesh) {
  return are_of_template(v, part, mesh) && divides(v.type.shape, part, mesh);
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
  bool cut_through() const { return cut_through_; }  // the node at fault takes some of what is split, and would take some of each part
  // Where that is a Slice: the lengths of the runs between which the value's Slices cut it, and that of all.
  const std::vector<std::int64_t>& runs() const { return runs_; }
  // Whole operands of the node at fault, beside split ones, and how it needs them, where it can tell.
  const std::vector<std::pair<ValueId, Part>>& wanting() const { return wanting_; }

 private:
  enum class Outcome { placed, again, refused };

  Part part(ValueId v) const { return v.present() ? parts_[at(v.index)] : Part{}; }

  Outcome place_all() {
    reason_.clear();
    wanting_.clear();
    runs_.clear();
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
    if (is_of_template(v)) {
      if (!can_be_held(v, want, mesh_))
        return refuse(node, concat("'", v.name, "': ", unequal(v.type.shape, want, mesh_)), have);
      if (read_whole_.contains(node.inputs[i].index)) return refuse(node, concat("'", v.name, "' is read as a whole elsewhere"), have);
      chosen_[node.inputs[i]] = want;
      return Outcome::again;
    }
    std::map<ValueId, Part> parts;
    if (can_be_made(node.inputs[i], want, parts)) return Outcome::placed;
    if (v.kind == ValueKind::activation && is_float(v.type.dtype) && made_by_weights(node.inputs[i]))
      return refuse(node, concat("'", v.name, "' is whole"), have, placed.inputs);
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

  Outcome refuse(const Node& node, std::string why, const std::vector<Part>& have, const std::vector<Part>& need = {}) {
    reason_ = concat(node.op->name, " '", node.name, "': ", why);
    cut_through_ = node.op->name == "Slice" || node.op->name == "Reshape";
    if (node.op->name == "Slice" && have[0].outer == 1) runs_ = runs_of_slices(node.inputs[0], have[0].axis);
    for (std::size_t i = 0; i < have.size(); ++i)
      if (node.inputs[i].present() && have[i] == Part{} && graph_[node.inputs[i]].kind == ValueKind::activation)
        wanting_.emplace_back(node.inputs[i], need.empty() ? Part{} : need[i]);
    return Outcome::refused;
  }

  // Between the places where the value's Slices begin and end along an axis.
  std::vector<std::int64_t> runs_of_slices(ValueId v, int axis) const {
    const std::int64_t size = graph_[v].type.shape[axis];
    std::set<std::int64_t> cuts{0, size};
    for (const Node& node : graph_.nodes) {
      if (node.op->name != "Slice" || node.inputs[0] != v) continue;
      const Ints &axes = node.attributes.ints("axes"), &starts = node.attributes.ints("starts");
      const auto along = std::ranges::find(axes, axis) - axes.begin();
      if (along == std::ssize(axes)) continue;
      cuts.insert(starts[at(along)]);
      cuts.insert(starts[at(along)] + graph_[node.outputs[0]].type.shape[axis]);
    }
    std::vector<std::int64_t> runs;
    for (auto cut = std::next(cuts.begin()); cut != cuts.end(); ++cut) runs.push_back(*cut - *std::prev(cut));
    return runs;
  }

  // Whether some weight was multiplied in: such a value is split where it is made, or not at all.
  bool made_by_weights(ValueId v) const {
    std::vector<ValueId> open{v};
    std::set<int> seen;
    while (!open.empty()) {
      const Value& value = graph_[open.back()];
      open.pop_back();
      if (is_of_template(value) && value.type.shape.rank() > 1) return true;
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
      if (is_of_template(graph_.values[i])) weights.emplace(graph_.values[i].name, static_cast<int>(i));
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
  bool cut_through_ = false, splits_classes_ = false;
  std::vector<std::int64_t> runs_;
  std::vector<std::pair<ValueId, Part>> wanting_;
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

  bool is_matrix(ValueId v) const { return v.present() && is_of_template(graph_[v]) && graph_[v].type.shape.rank() > 1; }

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
      if (!are_of_template(graph_[in], by_results, mesh_)) continue;
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
  // other (queries, keys and values; a gate and what goes through it), is split as so many runs: those that are sliced of what it gives,
  // or three or two equal ones.
  std::string begin_block(const Seed& seed) {
    const Value& v = graph_[seed.first];
    if (!can_be_held(v, seed.second, mesh_)) return unequal(v.type.shape, seed.second, mesh_);
    const Outcome as_one = begin_with(seed);
    if (as_one.taken) return {};
    if (!as_one.cut_through) return as_one.reason;
    std::vector<Part> forms{Part::split(0, 3), Part::split(0, 2)};
    if (!as_one.runs.empty()) forms = {Part::runs(0, as_one.runs)};
    std::string reason = as_one.reason;
    for (const Part& form : forms) {
      if (!can_be_held(v, form, mesh_)) {
        if (!as_one.runs.empty()) reason = unequal(v.type.shape, form, mesh_);
        continue;
      }
      const Outcome outcome = begin_with({seed.first, form});
      if (outcome.taken) return {};
      if (!outcome.cut_through || !as_one.runs.empty()) return outcome.reason;
    }
    return reason;
  }

  struct Outcome {
    bool taken = false, cut_through = false, sources_in_runs = false;
    std::vector<std::int64_t> runs{};
    std::string reason;
  };
  Outcome begin_with(const Seed& seed) {
    Outcome outcome = begin_with(seed, true);
    if (!outcome.taken && outcome.sources_in_runs) outcome = begin_with(seed, false);
    return outcome;
  }
  // `in_runs`: weights that the block needs besides lie in such runs as are needed of what they give; else in one.
  Outcome begin_with(const Seed& seed, bool in_runs) {
    ChosenParts tried = chosen_;
    tried.insert(seed);
    bool some_in_runs = false;
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
      for (const auto& [operand, need] : trial.wanting()) {
        Part form = Part::split(0, need.outer);
        form.widths = need.widths;
        const bool is_in_runs = in_runs && form.outer > 1;
        some_in_runs = some_in_runs || is_in_runs;
        add_sources(operand, is_in_runs ? form : Part::split(0), tried);
      }
      if (tried.size() == before)
        return {.cut_through = trial.cut_through(), .sources_in_runs = some_in_runs, .runs = trial.runs(), .reason = trial.reason()};
    }
  }

  // The weights that an operand was last multiplied by: split as well they give it in parts.
  void add_sources(ValueId operand, const Part& form, ChosenParts& tried) const {
    std::vector<ValueId> open{operand};
    std::set<int> seen;
    while (!open.empty()) {
      const NodeId producer = graph_[open.back()].producer;
      open.pop_back();
      if (!producer.present()) continue;
      if (const auto seed = seed_of(graph_[producer])) {
        for (const Part& part : {form, seed->second})
          if (can_be_held(graph_[seed->first], part, mesh_)) tried.emplace(seed->first, part);
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

}  // namespace

ChosenParts parts_of_layers(const Graph& graph, const MeshAxis& mesh, std::vector<std::string>& whole) {
  return Chooser(graph, mesh).run(whole);
}

}  // namespace tandem
