#include "planner/place/choose_parts.h"

#include <algorithm>
#include <optional>
#include <set>

#include "graph/known.h"
#include "planner/place/parts_trial.h"

namespace tandem {
namespace {

class Chooser {
 public:
  Chooser(const Graph& graph, const MeshAxis& mesh) : graph_(graph), mesh_(mesh) {}
  // Parameters lie so, and no others in parts: of what is known it is found out.
  Chooser(const Graph& graph, const MeshAxis& mesh, ChosenParts parameters)
      : graph_(graph), mesh_(mesh), chosen_(std::move(parameters)), of_parameters_(false) {}

  ChosenParts run(std::vector<std::string>& whole) {
    for (const Node& node : graph_.nodes) {
      const auto seed = seed_of(node);
      if (!seed) note_refusal(node);
      if (!seed || chosen_.contains(seed->first) || !tried_.insert(seed->first).second) continue;
      if (const std::string reason = begin_block(*seed); !reason.empty())
        whole.push_back(concat("'", name_of(seed->first), "': ", reason));
    }
    for (const auto& [id, reason] : refused_)
      if (!chosen_.contains(id) && !tried_.contains(id)) whole.insert(whole.begin(), concat("'", name_of(id), "': ", reason));
    return chosen_;
  }

 private:
  using Seed = std::pair<ValueId, Part>;

  // Of what is made of constants the first of these.
  const std::string& name_of(ValueId v) const {
    while (graph_[v].producer.present()) v = graph_[graph_[v].producer].inputs[0];
    return graph_[v].name;
  }

  // The weight that a node has there: a parameter, perhaps cast to another type, or what is known. Absent: none.
  ValueId weight_of(const Node& node, std::size_t i) const {
    const ValueId v = node.inputs[i];
    if (!v.present() || graph_[v].type.shape.rank() < 2 || node.op->name == "Cast") return {};
    ValueId parameter = v;
    while (const Node* const cast = made_by(graph_, parameter, "Cast")) parameter = cast->inputs[0];
    if (is_of_template(graph_[parameter])) return of_parameters_ ? parameter : ValueId{};
    return is_known_weight(graph_, node, i) ? v : ValueId{};
  }

  // A weight of which the node needs all, as a recurrence does at each step.
  void note_refusal(const Node& node) {
    for (std::size_t i = 0; i < node.inputs.size() && node.op->in_place.empty(); ++i) {
      const ValueId weight = weight_of(node, i);
      if (!weight.present()) continue;
      const Shape& shape = graph_[weight].type.shape;
      const auto longer = std::ranges::find_if(shape.dims, [](std::int64_t dim) { return dim > 1; });
      if (longer == shape.dims.end() || *longer == shape.elements()) continue;
      std::vector<Part> operands(node.inputs.size());
      operands[i] = Part::split(static_cast<int>(longer - shape.dims.begin()));
      const std::string reason = place_node(graph_, node, operands, mesh_).reason;
      if (!reason.empty()) refused_.try_emplace(weight, concat(node.op->name, " '", node.name, "': ", reason));
    }
  }

  // A weight that splits the node's result where it is split itself: a parameter by its rows, as it is held; what is known by any axis.
  std::optional<Seed> seed_of(const Node& node) const {
    for (std::size_t i = 0; i < node.inputs.size() && node.op->in_place.empty(); ++i) {
      const ValueId weight = weight_of(node, i);
      const int axes = !weight.present() ? 0 : is_of_template(graph_[weight]) ? 1 : graph_[weight].type.shape.rank();
      for (int axis = 0; axis < axes; ++axis)
        if (const Seed seed{weight, Part::split(axis)}; begins(node, i, seed)) return seed;
    }
    return std::nullopt;
  }
  bool begins(const Node& node, std::size_t i, const Seed& seed) const {
    const auto& [weight, by_results] = seed;
    const Value& v = graph_[weight];
    if (v.type.shape[by_results.axis] == 1 || !are_of_template(v, by_results, mesh_)) return false;
    std::vector<Part> operands(node.inputs.size());
    operands[i] = by_results;
    const NodePlacement placed = place_node(graph_, node, operands, mesh_);
    const std::int64_t elements = v.type.shape.elements(), results = graph_[node.outputs[0]].type.shape.elements();
    const bool larger = placed.outputs[0].spread == Spread::partial && elements > results;  // a table, than what is picked and summed
    return placed.reason.empty() && (placed.outputs[0].is_split() || larger);
  }

  // Takes the block that begins with a weight, where there is one: empty, or why there is none. A weight of several layers, one behind the
  // other (queries, keys and values; a gate and what goes through it), is split as so many runs: those that are sliced of what it gives,
  // and of these parts again; or three or two equal ones.
  std::string begin_block(const Seed& seed) {
    const Value& v = graph_[seed.first];
    if (!can_be_held(v, seed.second, mesh_)) return unequal(v.type.shape, seed.second, mesh_);
    Outcome outcome = begin_with(seed);
    const int axis = seed.second.axis;
    std::set<std::int64_t> cuts{0, v.type.shape[axis]};
    for (std::size_t known = 0; known != cuts.size() && !outcome.taken && !outcome.cuts.empty();) {
      known = cuts.size();
      cuts.merge(outcome.cuts);
      const Part form = runs_between(axis, cuts);
      if (!can_be_held(v, form, mesh_)) return unequal(v.type.shape, form, mesh_);
      outcome = begin_with({seed.first, form});
    }
    for (const std::int64_t equal : {3, 2}) {
      if (outcome.taken) return {};
      if (!outcome.cut_through || cuts.size() > 2) break;
      const Part form = Part::split(axis, equal);
      if (!can_be_held(v, form, mesh_)) continue;
      if (Outcome other = begin_with({seed.first, form}); other.taken || !other.cut_through) outcome = std::move(other);
    }
    return outcome.taken ? std::string() : outcome.reason;
  }

  static Part runs_between(int axis, const std::set<std::int64_t>& cuts) {
    std::vector<std::int64_t> lengths;
    for (auto cut = std::next(cuts.begin()); cut != cuts.end(); ++cut) lengths.push_back(*cut - *std::prev(cut));
    return Part::runs(axis, std::move(lengths));
  }

  struct Outcome {
    bool taken = false, cut_through = false, sources_in_runs = false;
    std::set<std::int64_t> cuts{};
    std::string reason;
  };
  Outcome begin_with(const Seed& seed) {
    Outcome outcome = begin_with(seed, true);
    if (outcome.taken || !outcome.sources_in_runs) return outcome;
    Outcome other = begin_with(seed, false);
    return other.taken || outcome.cuts.empty() ? other : outcome;
  }
  // `in_runs`: weights that the block needs besides lie in such runs as are needed of what they give; else in one.
  Outcome begin_with(const Seed& seed, bool in_runs) {
    ChosenParts tried = chosen_;
    tried.insert(seed);
    bool some_in_runs = false;
    for (;;) {
      PartsTrial trial(graph_, mesh_, tried, seed.first, of_parameters_);
      if (trial.run()) {
        // What is summed for the loss and for the gradient of what it reads costs more than a few scores.
        const Shape& weight = graph_[seed.first].type.shape;
        const std::int64_t classes = weight[seed.second.axis], features = weight.elements() / std::max<std::int64_t>(1, classes);
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
        return {.cut_through = trial.cut_through(), .sources_in_runs = some_in_runs, .cuts = trial.cuts(), .reason = trial.reason()};
    }
  }

  // The weights that an operand was last multiplied by: split as well they give it in parts.
  void add_sources(ValueId operand, Part form, ChosenParts& tried) const {
    std::vector<ValueId> open{operand};
    std::set<int> seen;
    while (!open.empty()) {
      const NodeId producer = graph_[open.back()].producer;
      open.pop_back();
      if (!producer.present()) continue;
      if (const auto seed = seed_of(graph_[producer])) {
        form.axis = seed->second.axis;
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
  bool of_parameters_ = true;
  bool splits_classes_ = false;
  std::set<ValueId> tried_;
  std::map<ValueId, std::string> refused_;  // by weight
};

}  // namespace

ChosenParts parts_of_layers(const Graph& graph, const MeshAxis& mesh, std::vector<std::string>& whole) {
  return Chooser(graph, mesh).run(whole);
}

ChosenParts parts_of_known(const Graph& graph, const MeshAxis& mesh, ChosenParts parameters) {
  std::vector<std::string> whole;
  return Chooser(graph, mesh, std::move(parameters)).run(whole);
}

}  // namespace tandem
