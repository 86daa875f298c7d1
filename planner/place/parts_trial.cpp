#include "planner/place/parts_trial.h"

#include <algorithm>

#include "graph/known.h"
#include "graph/template_range.h"
#include "planner/place/transfers.h"

namespace tandem {
namespace {

bool divides(const Shape& shape, Part part, const MeshAxis& mesh) {
  const std::int64_t unit = part.outer * mesh.total();
  return shape[part.axis] > 0 && shape[part.axis] % unit == 0;
}

// The number of equal parts of a run that is nearest to one that is none, up to eight times as many; 1: there is no other.
std::int64_t nearest_parts(std::int64_t run, std::int64_t wanted) {
  for (std::int64_t off = 1; wanted + off <= std::min(run, 8 * wanted) || wanted - off > 1; ++off)
    for (const std::int64_t parts : {wanted - off, wanted + off})
      if (parts > 1 && run % parts == 0) return parts;
  return 1;
}

// Of a view that cuts through parts: the axis of its result that they would be parts of (heads); absent where that has as many.
std::optional<Part> axis_of_view(const Graph& graph, const Node& node, const Part& have, const MeshAxis& mesh) {
  if (node.op->name != "Reshape" || !have.is_split()) return std::nullopt;
  const Shape &x = graph[node.inputs[0]].type.shape, &y = graph[node.outputs[0]].type.shape;
  std::int64_t before = have.outer;
  for (int i = 0; i < have.axis; ++i) before *= x[i];
  const std::vector<BatchPlace> readings = readings_of_view(before, y, 1);
  if (readings.empty()) return std::nullopt;
  const auto places = [&](const BatchPlace& place) { return y[place.axis] / place.outer; };
  const BatchPlace& most = *std::ranges::max_element(readings, {}, places);
  if (places(most) % mesh.total() == 0) return std::nullopt;
  return Part::split(most.axis, most.outer);
}

// What a Slice takes of an axis, one index behind the other. Absent of others.
std::optional<IndexRun> sliced(const Graph& graph, const Node& node, int axis) {
  if (node.op->name != "Slice") return std::nullopt;
  const Ints& axes = node.attributes.ints("axes");
  const auto along = at(std::ranges::find(axes, axis) - axes.begin());
  if (along == axes.size() || node.attributes.ints("steps")[along] != 1) return std::nullopt;
  const std::int64_t begin = node.attributes.ints("starts")[along];
  return IndexRun{begin, begin + graph[node.outputs[0]].type.shape[axis]};
}

// Whether the node sums over classes of which each device has a part.
bool sums_over_classes(const Node& node, const std::vector<Part>& operands) {
  if (operands.empty() || !operands[0].is_split()) return false;
  if (node.op->name == "SoftmaxCrossEntropyTraining") return operands[0].axis == 1;
  const bool softmax = node.op->gives == OutputKind::softmax || node.op->gives == OutputKind::log_softmax;
  return softmax && node.attributes.integer("axis") == operands[0].axis;
}

}  // namespace

std::string unequal(const Shape& shape, const Part& part, const MeshAxis& mesh) {
  const std::int64_t run = shape[part.axis] / part.outer, nearest = nearest_parts(run, mesh.total());
  std::string runs;
  for (const std::int64_t width : part.widths) runs += concat(runs.empty() ? ", in runs of " : ", ", width * run);
  return concat("axis ", part.axis, " of ", shape, runs, runs.empty() ? "" : ",", " has no ", mesh.total(), " equal parts",
                nearest > 1 ? concat(", but ", nearest) : "");
}

bool are_of_template(const Value& v, const Part& part, const MeshAxis& mesh) {
  if (v.kind != ValueKind::parameter) return true;
  const std::int64_t unit = v.type.shape[part.axis] / part.outer / mesh.total();
  return range_in_template(v, {part.axis, unit, unit, part.outer, part.widths}).has_value();
}

bool can_be_held(const Value& v, const Part& part, const MeshAxis& mesh) {
  return are_of_template(v, part, mesh) && divides(v.type.shape, part, mesh);
}

bool PartsTrial::run() {
  Outcome outcome = Outcome::again;
  while (outcome == Outcome::again) outcome = place_all();
  return outcome == Outcome::placed && outputs_fit();
}

PartsTrial::Outcome PartsTrial::place_all() {
  reason_.clear();
  wanting_.clear();
  cuts_.clear();
  read_whole_.clear();
  parts_.assign(graph_.values.size(), {});
  for (const auto& [id, part] : chosen_) parts_[at(id.index)] = part;
  rows_ = {{first_.index, {0, graph_[first_].type.shape[chosen_.at(first_).axis]}}};
  for (const Node& node : graph_.nodes)
    if (const Outcome outcome = take(node); outcome != Outcome::placed) return outcome;
  return Outcome::placed;
}

PartsTrial::Outcome PartsTrial::take(const Node& node) {
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
    if (placed.inputs[i] == Part{} && !parameter_of(node.outputs[0], {})) read_whole_.insert(node.inputs[i].index);
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    if (const ValueId out = node.outputs[i]; out.present() && !chosen_.contains(out)) parts_[at(out.index)] = placed.outputs[i];
  follow_rows(node);
  return has_equal_parts(node);
}

PartsTrial::Outcome PartsTrial::take_sum(const Node& node) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    parts_[at(node.outputs[i].index)] = part(node.inputs[i]).is_split() ? part(node.inputs[i]) : Part{};
  return Outcome::placed;
}

PartsTrial::Outcome PartsTrial::move(const Node& node, std::size_t i, const std::vector<Part>& have, const NodePlacement& placed) {
  const Value& v = graph_[node.inputs[i]];
  const Part want = placed.inputs[i];
  if (have[i].spread == Spread::partial || want.spread == Spread::partial) return Outcome::placed;
  if (have[i].is_split()) {
    if (const auto heads = axis_of_view(graph_, node, have[i], mesh_))
      return refuse(node, unequal(graph_[node.outputs[0]].type.shape, *heads, mesh_), have);
    return refuse(node, placed.reason.empty() ? "its operands are split in different ways" : placed.reason, have);
  }
  if (const auto of = parameter_of(node.inputs[i], want)) {
    const auto& [id, held] = *of;
    const Value& parameter = graph_[id];
    if (!more_) return refuse(node, concat("'", parameter.name, "' is whole"), have);
    if (!can_be_held(parameter, held, mesh_))
      return refuse(node, concat("'", parameter.name, "': ", unequal(parameter.type.shape, held, mesh_)), have);
    if (read_whole_.contains(node.inputs[i].index) || read_whole_.contains(id.index))
      return refuse(node, concat("'", parameter.name, "' is read as a whole elsewhere"), have);
    if (!chosen_.emplace(id, held).second) return refuse(node, "its operands are split in different ways", have);
    return Outcome::again;
  }
  if (is_known_weight(graph_, node, i) && !read_whole_.contains(node.inputs[i].index) && can_be_held(v, want, mesh_)) {
    chosen_[node.inputs[i]] = want;  // in the backward pass, too
    return Outcome::again;
  }
  std::map<ValueId, Part> parts;
  if (can_be_made(node.inputs[i], want, parts)) return Outcome::placed;
  if (v.kind == ValueKind::activation && is_float(v.type.dtype) && made_by_weights(node.inputs[i]))
    return refuse(node, concat("'", v.name, "' is whole"), have, placed.inputs);
  return Outcome::placed;
}

std::optional<std::pair<ValueId, Part>> PartsTrial::parameter_of(ValueId v, Part wanted) const {
  while (v.present() && graph_[v].producer.present()) {
    const Node& node = graph_[graph_[v].producer];
    if (node.op->name != "Cast" && node.op->name != "Transpose" && node.op->name != "Reshape") return std::nullopt;
    if (wanted.is_split()) {
      const std::optional<Part> needed = operand_for(graph_, node, 0, wanted, mesh_);
      if (!needed || !needed->is_split()) return std::nullopt;
      wanted = *needed;
    }
    v = node.inputs[0];
  }
  if (!v.present() || !is_of_template(graph_[v])) return std::nullopt;
  return std::pair(v, std::move(wanted));
}

bool PartsTrial::can_be_made(ValueId v, Part wanted, std::map<ValueId, Part>& known) const {
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

PartsTrial::Outcome PartsTrial::refuse(const Node& node, std::string why, const std::vector<Part>& have, const std::vector<Part>& need) {
  reason_ = concat(node.op->name, " '", node.name, "': ", why);
  cut_through_ = node.op->name == "Slice" || node.op->name == "Reshape";
  if (node.op->name == "Slice") find_cuts(node.inputs[0]);
  for (std::size_t i = 0; i < have.size(); ++i)
    if (node.inputs[i].present() && have[i] == Part{} && graph_[node.inputs[i]].kind == ValueKind::activation)
      wanting_.emplace_back(node.inputs[i], need.empty() ? Part{} : need[i]);
  return Outcome::refused;
}

void PartsTrial::follow_rows(const Node& node) {
  const auto has = [&](ValueId in) { return in.present() && rows_.contains(in.index) && part(in).is_split(); };
  const auto in = std::ranges::find_if(node.inputs, has);
  if (in == node.inputs.end()) return;
  for (const ValueId out : node.outputs) {
    if (!out.present() || !part(out).is_split()) continue;
    if (const auto taken = sliced(graph_, node, part(*in).axis)) {
      if (const auto begin = row_of(*in, taken->begin), end = row_of(*in, taken->end); begin && end) rows_[out.index] = {*begin, *end};
    } else if (part(out).outer == part(*in).outer && part(out).widths == part(*in).widths) {
      rows_[out.index] = rows_.at(in->index);
    }
  }
}

std::optional<std::int64_t> PartsTrial::row_of(ValueId v, std::int64_t index) const {
  const IndexRun& rows = rows_.at(v.index);
  const std::int64_t size = graph_[v].type.shape[part(v).axis], all = index * (rows.end - rows.begin);
  if (all % size != 0) return std::nullopt;
  return rows.begin + all / size;
}

void PartsTrial::find_cuts(ValueId v) {
  if (!rows_.contains(v.index)) return;
  for (const Node& node : graph_.nodes)
    if (node.op->name == "Slice" && node.inputs[0] == v)
      if (const auto taken = sliced(graph_, node, part(v).axis))
        for (const std::int64_t index : {taken->begin, taken->end})
          if (const auto row = row_of(v, index)) cuts_.insert(*row);
}

bool PartsTrial::made_by_weights(ValueId v) const {
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

PartsTrial::Outcome PartsTrial::has_equal_parts(const Node& node) {
  for (const ValueId out : node.outputs)
    if (out.present() && part(out).is_split() && !divides(graph_[out].type.shape, part(out), mesh_))
      return refuse(node, unequal(graph_[out].type.shape, part(out), mesh_), {});
  return Outcome::placed;
}

bool PartsTrial::outputs_fit() {
  std::map<std::string, int, std::less<>> weights;
  for (std::size_t i = 0; i < graph_.values.size(); ++i)
    if (is_of_template(graph_.values[i])) weights.emplace(graph_.values[i].name, static_cast<int>(i));
  for (const GraphOutput& out : graph_.outputs) {
    const Part have = part(out), want = out.role == ValueRole::gradient ? parts_[at(weights.at(out.of))] : Part{};
    const NodeId made = graph_[out].producer;
    if (!more_ && out.role == ValueRole::plain) continue;  // that lies as the parameters say
    if (have == want || have.spread == Spread::partial || (made.present() && gives_any_part(graph_[made], want))) continue;
    reason_ = concat("'", graph_[out].name, "' is an output of the plan, and would be gathered");
    return false;
  }
  return true;
}

}  // namespace tandem
