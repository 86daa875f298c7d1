#include "graph/place.h"

#include <algorithm>
#include <limits>

#include "graph/known.h"
#include "graph/operators/rules.h"
#include "graph/updates.h"

namespace tandem {
namespace {

bool present(const Node& node, std::size_t input) { return node.inputs[input].present(); }

// Whether results of partial sums are partial sums; whole operands may stand beside them where the operator says so.
bool stays_partial(const Graph& graph, const Node& node, std::span<const Part> operands) {
  if (node.attributes.has("activation")) return false;
  for (const ValueId out : node.outputs)
    if (out.present() && !is_float(graph[out].type.dtype)) return false;  // rounded: a Cast to integers
  std::size_t partial = 0, numbers = 0, split = 0;
  const auto results = std::ranges::count_if(node.outputs, [](ValueId v) { return v.present(); });
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!present(node, i)) continue;
    partial += operands[i].spread == Spread::partial;
    numbers += is_float(graph[node.inputs[i]].type.dtype);
    split += operands[i].is_split();
  }
  switch (node.op->linear) {
    case Linear::no: return false;
    case Linear::sum: return partial == numbers;
    // A third operand, as a bias, is added. A second result, as a bias's gradient, is of the second operand alone.
    case Linear::product: return partial == 1 && split == 0 && numbers <= 2 && (results == 1 || operands[1].spread == Spread::partial);
    case Linear::first: return partial == 1 && split == 0 && operands[0].spread == Spread::partial;
  }
  return false;
}

// Addends of samples' gradients wait for their sum as long as they can. Others are summed where they are smallest: a layer's share of a
// gradient, before it is multiplied into that of a larger weight.
bool is_summed_before(const Graph& graph, const Node& node, std::span<const Part> operands, const MeshAxis& mesh) {
  if (mesh.samples) return false;
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max(), largest = 0;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i].spread == Spread::partial) smallest = std::min(smallest, graph[node.inputs[i]].type.shape.elements());
  for (const ValueId out : node.outputs)
    if (out.present()) largest = std::max(largest, graph[out].type.shape.elements());
  return largest > smallest;
}

// Rules for samples hold for parts of all kinds: what they refuse is said of these.
std::string said_of_parts(std::string text) {
  constexpr std::string_view samples = "samples";
  for (std::size_t at = text.find(samples); at != std::string::npos; at = text.find(samples, at)) text.replace(at, samples.size(), "parts");
  return text;
}

std::vector<BatchPlace> places_of(std::span<const Part> operands) {
  std::vector<BatchPlace> places;
  for (const Part& p : operands) places.push_back(p.is_split() ? BatchPlace{.axis = p.axis, .outer = p.outer} : BatchPlace{});
  return places;
}

// Where something lies in runs of several widths, rules see as many units of one width. What comes of these is the same of the runs where
// nothing tells the units apart and all operands have the same runs.
void check_runs(const PlaceContext& c, std::span<const Part> operands, const Part& runs) {
  if (runs.widths.empty()) return;
  for (const Part& p : operands)
    if (p.is_split() && (p.outer != runs.outer || p.widths != runs.widths)) c.fail("its operands lie in runs of different widths");
  if (c.attributes().has("layer")) c.fail("it draws random numbers by their places, and its operands lie in runs of several widths");
}

void run_rule(PlaceContext& c) {
  const Operator& op = *c.node().op;
  if (op.place) return op.place(c);
  if (op.follow) return op.follow(c);
  if (op.elementwise) return follow_broadcast(c);
  c.fail("it works on whole operands alone");
}

}  // namespace

PlaceContext::PlaceContext(const Graph& graph, const Node& node, std::span<const Part> operands, std::int64_t batch)
    : FollowContext(graph, node, places_of(operands), batch), parts_(operands) {}

std::vector<std::int64_t> PlaceContext::runs(int input) const {
  const Part& part = parts_[at(input)];
  std::vector<std::int64_t> lengths = part.widths;
  if (lengths.empty()) lengths.assign(at(part.outer), 1);
  for (std::int64_t& length : lengths) length *= x(input)[part.axis] / part.outer;
  return lengths;
}

namespace {

// Of a product that a factor which is split is summed over, beside a weight that is known: each device reads its part of that, too, and has
// an addend.
std::optional<NodePlacement> beside_known(const Graph& graph, const Node& node, std::span<const Part> operands, const MeshAxis& mesh) {
  const auto split = std::ranges::find_if(operands, &Part::is_split);
  if (mesh.samples || node.op->linear != Linear::product) return std::nullopt;
  const std::int64_t summed = graph[node.inputs[at(split - operands.begin())]].type.shape[split->axis];
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] != Part{} || !is_known_weight(graph, node, i)) continue;
    const Shape& shape = graph[node.inputs[i]].type.shape;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] != summed) continue;
      std::vector<Part> alike(operands.begin(), operands.end());
      (alike[i] = *split).axis = axis;
      NodePlacement placed = place_node(graph, node, alike, mesh);
      if (placed.reason.empty() && placed.outputs[0].spread == Spread::partial) return placed;
    }
  }
  return std::nullopt;
}

}  // namespace

NodePlacement place_node(const Graph& graph, const Node& node, std::span<const Part> operands, const MeshAxis& mesh) {
  NodePlacement placed{.inputs = {operands.begin(), operands.end()}};
  bool any_partial = false, any_own = false, any_split = false;
  for (const Part& p : operands) {
    any_partial = any_partial || p.spread == Spread::partial;
    any_own = any_own || p.spread == Spread::own;
    any_split = any_split || p.is_split();
  }
  const Part whole{any_own ? Spread::own : Spread::broadcast};
  const auto all_outputs = [&](const Part& part) {
    placed.outputs.assign(node.outputs.size(), part);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i].present() && graph[node.outputs[i]].opaque && part != Part{}) placed.outputs[i] = {Spread::own};
  };
  if (any_partial && stays_partial(graph, node, placed.inputs) && !is_summed_before(graph, node, placed.inputs, mesh)) {
    all_outputs({Spread::partial});
    return placed;
  }
  for (Part& p : placed.inputs)
    if (p.spread == Spread::partial) p = {};
  if (!any_split) {
    all_outputs(whole);
    return placed;
  }
  const Part& first = *std::find_if(operands.begin(), operands.end(), [](const Part& p) { return p.is_split(); });
  const auto uneven = std::ranges::find_if(placed.inputs, [](const Part& p) { return !p.widths.empty(); });
  const Part runs = uneven == placed.inputs.end() ? Part{} : *uneven;
  PlaceContext c(graph, node, placed.inputs, mesh.as(first).total());
  const auto split = [&](BatchPlace place) {
    if (!runs.widths.empty() && place.outer != runs.outer) c.fail("it cuts through runs of several widths");
    return Part{Spread::split, place.axis, place.outer, first.sizes, runs.widths};
  };
  try {
    const auto otherwise = [&](const Part& p) { return p.is_split() && p.sizes != first.sizes; };
    if (std::any_of(operands.begin(), operands.end(), otherwise)) c.fail("its operands are not shared out alike");
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (present(node, i) && graph[node.inputs[i]].opaque && operands[i] == Part{})
        c.fail("what it reads of the forward pass, '", graph[node.inputs[i]].name, "', is of the whole");
    run_rule(c);
    all_outputs(whole);
    for (const auto& [output, part] : c.in_runs()) (placed.outputs[at(output)] = part).sizes = first.sizes;
    if (c.in_runs().empty()) check_runs(c, placed.inputs, runs);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].present()) continue;
      Part& part = placed.outputs[i];
      if (graph[node.outputs[i]].opaque) {
        part = {Spread::own};
      } else if (const auto& readings = c.results()[i]; !readings.empty()) {
        if (readings[0].mixed && node.op->linear != Linear::sum) c.fail("its results mix what is split");
        const auto as_runs = [&](const BatchPlace& place) { return runs.widths.empty() || place.outer == runs.outer; };
        const auto it = std::ranges::find_if(readings, as_runs);
        const BatchPlace& reading = it == readings.end() ? readings[0] : *it;
        part = reading.mixed ? Part{Spread::partial} : reading.present() ? split(reading) : whole;
      }
    }
    for (const int i : c.sums()) placed.outputs[at(i)] = {Spread::partial};
    for (const int i : c.owns()) placed.outputs[at(i)] = {Spread::own};
    for (const int i : c.onces()) placed.inputs[at(i)] = {Spread::partial};
    for (const FollowContext::Repeat& r : c.repeats()) placed.inputs[at(r.input)] = split(r.place);
  } catch (const Error& e) {
    if (std::optional<NodePlacement> other = beside_known(graph, node, operands, mesh)) return *std::move(other);
    placed.reason = mesh.samples ? e.what() : said_of_parts(e.what());
    for (Part& p : placed.inputs)
      if (p.is_split()) p = {};
    all_outputs(whole);
  }
  return placed;
}

ValueId sum_of_addends(PartsContext& c, std::size_t operands) {
  Node sums = c.node;
  for (const char* name : {"activation", "min", "max"}) sums.attributes.erase(name);
  sums.inputs.resize(std::min(operands, sums.inputs.size()));
  sums.outputs.resize(1);
  std::vector<Part> parts;
  for (const ValueId in : sums.inputs) parts.push_back(in.present() ? c.devices.part(in) : Part{});
  const NodePlacement placed = place_node(c.graph(), sums, parts, c.mesh);
  if (placed.outputs[0].spread != Spread::partial) return {};
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (sums.inputs[i].present() && parts[i] != placed.inputs[i])
      sums.inputs[i] = c.devices.transfer(sums.inputs[i], placed.inputs[i], c.mesh);
  const ValueId y = c.node.outputs[0];
  return c.devices.sum(c.emit_as({Spread::partial}, y, sums.op->name, sums.inputs, sums.attributes), c.graph()[y].name);
}

ValueId activated(PartsContext& c, ValueId sum, ValueId of) {
  const Attributes& a = c.node.attributes;
  Attributes bounds;
  for (const char* name : {"min", "max"})
    if (a.has(name)) bounds.set(name, a.real(name));
  std::vector<ValueId> operands{sum};
  if (of.present()) operands.push_back(of);
  return c.emit_as({}, c.node.outputs[0], concat(a.text("activation"), of.present() ? "Backward" : ""), operands, bounds);
}

Attributes local_attributes(const Node& node, const Shape& whole, const Shape& local) {
  Attributes a = node.attributes;
  for (const char* name : {"shape", "input_shape", "weight_shape"})
    if (a.has(name) && Shape(a.ints(name)) == whole) a.set(name, local.dims);
  // A convolution's channels, or its filters, by groups: one that is dense stays so
  if (const int axis = a.has("weight_shape") ? 0 : 1; a.integer("group", 1) > 1 && whole[axis] != local[axis])
    a.set("group", a.integer("group") * local[axis] / whole[axis]);
  // A cut between runs of all parts
  for (const char* name : {"starts", "ends"}) {
    if (!a.has(name) || !a.has("axes")) continue;
    Ints at_part = a.ints(name);
    for (std::size_t i = 0; i < at_part.size(); ++i)
      if (const int axis = static_cast<int>(a.ints("axes")[i]); axis < whole.rank() && whole[axis] != local[axis])
        at_part[i] = at_part[i] * local[axis] / whole[axis];
    a.set(name, std::move(at_part));
  }
  return a;
}

void place_rows(PlaceContext& c) {
  if (!c.split(0)) c.fail("its operand 0 is whole, others are split");
  if (c.place().axis != 0) c.fail("its operand 0 is split along axis ", c.place().axis, ", which it works on as a whole");
  for (int i = 1; i < c.inputs(); ++i)
    if (c.split(i) && c.place(i) != c.place()) c.fail("its operands are not split alike");
  c.set_all(c.place());
}

void place_as_first(PlaceContext& c) {
  if (!c.split(0)) c.fail("its operand 0 is whole, others are split");
  c.set_all(c.place(0));
}

void place_uncut(PlaceContext& c) {
  const int axis = c.place().axis;
  if (c.x()[axis] != c.y()[axis]) c.fail("axis ", axis, " of ", c.x(), " is cut or padded");
  c.set(0, c.place());
}

void place_summed_rows(PlaceContext& c) {
  if (!c.split(0, 0) || c.place(0) != c.place(1)) c.fail("its operands are not both split by rows");
  for (int i = 0; i < c.outputs(); ++i) c.sum(i);
}

void place_update(PlaceContext& c) {
  const UpdateOperands operands(c.attributes(), at(c.inputs()));
  const int outs = c.outputs() / static_cast<int>(operands.tensors);
  for (std::size_t t = 0; t < operands.tensors; ++t) {
    const BatchPlace place = c.place(static_cast<int>(operands.at(t)));
    for (std::size_t i = 1; i < operands.each; ++i) {
      const int operand = static_cast<int>(operands.at(t, i));
      if (c.place(operand) == place) continue;
      if (!place.present() || c.split(operand)) c.fail("input ", operand, " is not placed as the parameter that it belongs to");
      c.need(operand, place);
    }
    for (int i = 0; i < outs; ++i) c.set(static_cast<int>(t) * outs + i, place);
  }
}

}  // namespace tandem
