// Keeps, for each value of a graph, the buffers that hold it, and adds a Reorder or a Cast where a kernel wants another form.
#include "planner/lower/value_forms.h"

#include <algorithm>

#include "graph/operator.h"
#include "graph/updates.h"
#include "graph/views.h"
#include "planner/plan/format.h"

namespace tandem {

ValueForms::ValueForms(const Graph& graph, const Backend& backend, const SelectOptions& options, Tuner& tuner, LoweredGraph& program)
    : graph_(graph), options_(options), tuner_(tuner), backend_(backend), program_(program), facts_(graph.values.size()) {
  const IdVector<ValueId, int> uses = graph.uses();
  for (const Node& node : graph.nodes) note_update(node);
  for (const Node& node : graph.nodes) note_sum(node, uses);
  for (const Node& node : graph.nodes) note_accumulation(node);
  for (const Node& node : graph.nodes) note_cast(node);
  if (options.training)
    for (const Node& node : graph.nodes) note_parts(node);
}

// Gradients want the layout of the parameter they update, states that of theirs; a copy in 16 bits and its parameter
// lie alike, as the first of them that is read.
void ValueForms::note_update(const Node& node) {
  if (node.op->in_place.empty() || !node.attributes.has("tensors")) return;
  const UpdateOperands operands(node.attributes, node.inputs.size());
  for (std::size_t t = 0; t < operands.tensors; ++t)
    for (std::size_t i = 1; i < operands.each; ++i) {
      const ValueId parameter = node.inputs[operands.at(t)], other = node.inputs[operands.at(t, i)];
      facts(other).follows = parameter;
      if (graph_[other].role == ValueRole::copy) facts(parameter).copy = other;
    }
}

// Sums are taken in place, and lie as what they update does: a part that only the sum reads, and that a kernel writes, is
// written there.
void ValueForms::note_sum(const Node& node, const IdVector<ValueId, int>& uses) {
  if (node.op->moves != Moves::sum) return;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId part = node.inputs[i];
    if (uses[part] != 1 || !graph_[part].producer.present()) continue;
    const Operator& op = *graph_[graph_[part].producer].op;
    if (op.name == "Reshape" || op.name == "Transpose" || op.moves == Moves::sum) continue;
    facts(part).summed = true;
    facts(part).follows = follows(node.outputs[i]);
  }
}

// What micro-batches add up to lies where it is read, and what they add lies alike.
void ValueForms::note_accumulation(const Node& node) {
  if (!node.op->accumulates) return;
  for (const ValueId in : node.inputs) facts(in).follows = follows(node.outputs[0]);
  facts(node.inputs[0]).summed = summed(node.outputs[0]);
}

// A parameter in 16 bits is cast where it is first read, into the layout that its reader wants; the parameter itself
// takes that layout where nothing else has decided it. So casting moves no element.
void ValueForms::note_cast(const Node& node) {
  if (node.op->name != "Cast" || graph_[node.inputs[0]].kind != ValueKind::parameter) return;
  if (std::find(graph_.outputs.begin(), graph_.outputs.end(), node.outputs[0]) != graph_.outputs.end()) return;
  if (!summed(node.outputs[0])) facts(node.outputs[0]).cast_of = node.inputs[0];
}

// A device that keeps nothing of a parameter has an empty constant of that name, and does not update it.
void ValueForms::note_parts(const Node& node) {
  const auto kept = [&](const Value& v) {
    return v.kind == ValueKind::parameter || (v.kind == ValueKind::constant && v.type.shape.elements() == 0);
  };
  const auto named = [&](const std::string& name) {
    for (std::size_t i = 0; i < graph_.values.size() && !name.empty(); ++i)
      if (const Value& v = graph_.values[i]; kept(v) && v.role == ValueRole::plain && v.name == name) return ValueId{static_cast<int>(i)};
    return ValueId{};
  };
  for (std::size_t i = 0; i < node.inputs.size() && i < node.outputs.size(); ++i) {
    const ValueId in = node.inputs[i], out = node.outputs[i];
    if (node.op->moves == Moves::gather && out.present() && kept(graph_[in])) facts(out).gathered = in;
    if (node.op->moves != Moves::scatter || !graph_[in].producer.present()) continue;
    const Operator& op = *graph_[graph_[in].producer].op;
    if (op.name == "Reshape" || op.name == "Transpose" || op.accumulates) continue;
    facts(in).scattered = out.present() && follows(out).present() ? follows(out) : named(graph_[in].of);
  }
}

BufferId ValueForms::add(ValueId v, Operand operand, MemoryClass memory, BufferId alias) {
  Buffer b{
      .name = graph_[v].name, .operand = std::move(operand), .placement = to_string(graph_[v].placement, graph_.groups), .memory = memory};
  b.bytes = aligned(b.operand.bytes(), options_.device->alignment);
  if (alias.present()) {
    const Buffer& root = program_.buffers[alias];
    b.alias = alias;
    b.arena = root.arena;
    b.memory = root.memory;
  } else if (memory == MemoryClass::weights) {
    b.arena = ArenaKind::parameters;
  } else if (memory == MemoryClass::optimizer_state) {
    b.arena = ArenaKind::optimizer;
  } else if (memory == MemoryClass::gradients) {
    b.arena = ArenaKind::gradients;
  }
  const BufferId id = program_.buffers.add(std::move(b));
  of(v).push_back(id);
  return id;
}

BufferId ValueForms::add_constant(ValueId v, const Layout& layout) {
  Operand o = row_major(v);
  o.layout = layout;
  const BufferId id = add(v, std::move(o), MemoryClass::weights);
  Buffer& b = program_.buffers[id];
  b.arena = ArenaKind::constants;
  b.constant = graph_[v].data;
  return id;
}

const Operand* ValueForms::fixed_operand(ValueId v) const {
  if (!options_.fixed) return nullptr;
  const auto it = options_.fixed->find({{graph_[v].role, graph_[v].name}, graph_[v].type.shape.dims});
  return it == options_.fixed->end() ? nullptr : &it->second;
}

BufferId ValueForms::add_parameter(ValueId v, const Layout& layout) {
  Operand o = row_major(v);
  o.layout = layout;
  return add(v, std::move(o), graph_[v].role == ValueRole::optimizer_state ? MemoryClass::optimizer_state : MemoryClass::weights);
}

void ValueForms::add_unused_parameter(ValueId v) {
  const Operand* const fixed = fixed_operand(v);
  add_parameter(v, fixed ? fixed->layout : row_major(v).layout);
}

Operand ValueForms::requested(ValueId v) {
  if (!v.present()) return {};
  if (const ValueId parts = gathered(v); parts.present()) {
    Operand o = row_major(v);
    if (o.shape.rank() > 0) o.layout = facts(parts).whole;
    return o;
  }
  if (!of(v).empty()) return operand(of(v)[0]);
  Operand o = row_major(v);
  const Value& value = graph_[v];
  if (const ValueId parameter = cast_of(v); parameter.present()) {
    o.layout = requested(parameter).layout;
    return o;
  }
  if (value.kind == ValueKind::parameter) {
    if (const Operand* fixed = fixed_operand(v)) {
      o.layout = fixed->layout;
      return o;
    }
    const ValueId leader = follows(v);
    for (const ValueId alike : {leader, facts(v).copy, leader.present() ? facts(leader).copy : ValueId{}}) {
      if (!alike.present() || of(alike).empty()) continue;
      o.layout = operand(of(alike)[0]).layout;
      return o;
    }
  }
  if (o.shape.rank() > 0) o.layout = Layout();
  return o;
}

bool ValueForms::lies(ValueId v, const Layout& layout) const {
  // what was gathered lies row by row: that is none of the forms that a parameter would have
  const std::size_t from = gathered(v).present() && whole_layout(gathered(v)) != row_major(v).layout ? 1 : 0;
  const std::vector<BufferId>& all = facts(v).forms;
  for (std::size_t i = from; i < all.size(); ++i)
    if (operand(all[i]).layout == layout) return true;
  return false;
}

BufferId ValueForms::first(ValueId v) {
  if (graph_[v].kind == ValueKind::constant || of(v).empty()) form(v, row_major(v).layout);
  const ValueId parts = gathered(v);
  if (!parts.present()) return of(v)[0];
  return form(v, whole_layout(parts).any() ? row_major(v).layout : whole_layout(parts));
}

BufferId ValueForms::form(ValueId v, const Layout& layout) {
  if (const ValueId parts = gathered(v); parts.present() && facts(parts).whole.any()) facts(parts).whole = layout;
  for (const BufferId b : of(v))
    if (operand(b).layout == layout) return b;
  const Value& value = graph_[v];
  if (value.kind == ValueKind::constant) return add_constant(v, layout);
  if (const ValueId parameter = cast_of(v); parameter.present() && of(v).empty()) {
    const Layout as_kept = requested(parameter).layout.any() ? layout : requested(parameter).layout;
    Operand to = row_major(v);
    to.layout = as_kept;
    const BufferId from = form(parameter, as_kept);
    convert("Cast", from, add(v, to, MemoryClass::activations));
    if (as_kept == layout) return of(v)[0];
  }
  if (of(v).empty()) {
    if (value.kind != ValueKind::parameter) fail("planner: '", value.name, "' has no buffer");
    const BufferId b = add_parameter(v, requested(v).layout.any() ? layout : requested(v).layout);
    if (operand(b).layout == layout) return b;
  }
  const BufferId first = of(v)[0];
  Operand to = operand(first);
  to.layout = layout;
  if (same_memory(operand(first).shape, operand(first).layout, to.shape, to.layout)) return add(v, to, MemoryClass::activations, first);
  return reorder(v, first, to);
}

BufferId ValueForms::reorder(ValueId v, BufferId from, const Operand& to) {
  const BufferId out = add(v, to, MemoryClass::activations);
  convert("Reorder", from, out);
  if (gathered(v).present() && from == of(v)[0]) program_.turned_seconds += program_.steps.back().seconds;
  return out;
}

ValueForms::Conversion ValueForms::conversion(std::string_view op, const Operand& from, const Operand& to) {
  Conversion found;
  if (op == "Cast") found.attributes.set("to", static_cast<std::int64_t>(to.dtype));
  const KernelRequest request{op, &found.attributes, {from}, {to}, options_.kernel};
  for (const KernelDescription& d : tuner_.describe(request)) {
    if (d.inputs[0] != from || d.outputs[0] != to) continue;
    const Cost c = tuner_.cost(request, d, 0, *options_.device);
    if (found.kernel && found.cost.seconds <= c.seconds) continue;
    found.kernel = d;
    found.cost = c;
  }
  if (!found.kernel) fail("no kernel of backend ", backend_.name(), " makes ", to, " of ", from, " (", op, ")");
  return found;
}

void ValueForms::convert(std::string_view op, BufferId from, BufferId to) {
  Conversion c = conversion(op, operand(from), operand(to));
  Step step{.what = LaunchStep{std::string(op), c.kernel->kernel, std::move(c.attributes)},
            .inputs = {from},
            .outputs = {to},
            .origin = *origin_};
  launch(std::move(step), *c.kernel, c.cost, 0);
}

double ValueForms::cast_seconds(const Operand& from, DType to) {
  Operand other = from;
  other.dtype = to;
  if (other.layout.any()) other.layout = Layout::row_major(other.shape.rank());
  Operand have = other;
  have.dtype = from.dtype;
  return conversion("Cast", have, other).cost.seconds;
}

double ValueForms::reorder_seconds(const Operand& from, const Operand& to) const {
  if (same_memory(from.shape, from.layout, to.shape, to.layout)) return 0;
  return estimate(0, static_cast<double>(from.bytes() + to.bytes()), 1, *options_.device);
}

void ValueForms::launch(Step step, const KernelDescription& d, Cost cost, double flops) {
  if (d.workspace > 0) {
    Buffer w{.name = concat(step.op(), " workspace"),
             .operand = {DType::uint8, Shape{d.workspace}, Layout::row_major(1)},
             .memory = MemoryClass::workspace};
    w.bytes = aligned(d.workspace, options_.device->alignment);
    step.workspace = program_.buffers.add(std::move(w));
  }
  step.flops = flops;
  for (const Operand& o : d.inputs) step.bytes += static_cast<double>(o.bytes());
  for (const Operand& o : d.outputs) step.bytes += static_cast<double>(o.bytes());
  step.bytes *= d.passes;
  step.seconds = cost.seconds;
  step.measured = cost.measured;
  program_.steps.push_back(std::move(step));
  program_.in_place.push_back(d.in_place);
}

BufferId ValueForms::unnamed(ValueId v, const Operand& operand) {
  const BufferId b = add(v, operand, MemoryClass::activations);
  of(v).pop_back();
  return b;
}

BufferId ValueForms::gather(Exchange& bucket, std::span<const BufferId> parts, MemoryClass memory) {
  const BufferId id{static_cast<int>(program_.buffers.size())};
  const ArenaKind arena = memory == MemoryClass::gradients ? ArenaKind::gradients : ArenaKind::scratch;
  std::int64_t bytes = 0;
  for (const BufferId part : parts) {
    Buffer& b = program_.buffers[part];
    b.memory = memory;
    b.arena = arena;
    b.alias = id;
    b.offset = bytes;
    bytes += b.bytes;
  }
  bucket.elements = bytes / static_cast<std::int64_t>(size_of(bucket.dtype));
  Buffer all{.name = bucket.name,
             .operand = {bucket.dtype, Shape{bucket.elements}, Layout::row_major(1)},
             .memory = memory,
             .arena = arena};
  all.bytes = bytes;
  program_.buffers.push_back(std::move(all));
  return id;
}

}  // namespace tandem
