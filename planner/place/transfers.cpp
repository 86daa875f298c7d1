#include "planner/place/transfers.h"

#include <algorithm>

#include "graph/views.h"

namespace tandem {

std::int64_t bytes_of(const Value& value) { return bytes_of(value.type); }

namespace {

ExchangeKind kind_of(const Node& node) {
  switch (node.op->moves) {
    case Moves::gather: return node.attributes.has("swap") ? ExchangeKind::all_to_all : ExchangeKind::all_gather;
    case Moves::scatter: return ExchangeKind::reduce_scatter;
    default: return ExchangeKind::all_reduce;
  }
}

// Whether one device gets or gives rows of all: what each gives is then cut into pieces that lie in the rows' order.
bool is_of_one(const Part& have, const Part& to, const MeshAxis& mesh) {
  const auto by_rows = [](const Part& p) { return p.axis == 0 && p.outer == 1; };
  return by_rows(have) && by_rows(to) && (mesh.as(have).one_has_all() || mesh.as(to).one_has_all());
}

// That axis before the others.
Ints in_front(int axis, int rank) {
  Ints front{axis};
  for (int i = 0; i < rank; ++i)
    if (i != axis) front.push_back(i);
  return front;
}

}  // namespace

std::optional<Part> operand_for(const Graph& graph, const Node& node, std::size_t i, Part to, const MeshAxis& mesh) {
  const std::string_view op = node.op->name;
  if (node.outputs.size() != 1) return std::nullopt;
  if (!node.inputs[i].present()) return Part{};
  const Shape &x = graph[node.inputs[i]].type.shape, &y = graph[node.outputs[0]].type.shape;
  if (op == "Reshape") {
    std::int64_t before = to.outer;
    for (int a = 0; a < to.axis; ++a) before *= std::max<std::int64_t>(1, y[a]);
    const std::vector<BatchPlace> readings = readings_of_view(before, x, mesh.as(to).total());
    const auto as_runs = [&](const BatchPlace& place) { return to.widths.empty() || place.outer == to.outer; };
    const auto reading = std::ranges::find_if(readings, as_runs);
    if (reading == readings.end()) return std::nullopt;
    return Part{Spread::split, reading->axis, reading->outer, to.sizes, to.widths};
  }
  if (op == "Slice" && std::ranges::find(node.attributes.ints("axes"), to.axis) == node.attributes.ints("axes").end()) return to;
  if (op == "Transpose")
    return Part{Spread::split, static_cast<int>(node.attributes.ints("perm")[at(to.axis)]), to.outer, to.sizes, to.widths};
  if (node.op->moves == Moves::sum || node.op->moves == Moves::scatter || node.op->moves == Moves::gather) return to;  // along another axis
  if (!node.op->elementwise && node.op->follow != follow_broadcast && op != "Expand") return std::nullopt;
  const int axis = to.axis - (y.rank() - x.rank());
  return axis < 0 || x[axis] != y[to.axis] ? Part{} : Part{Spread::split, axis, to.outer, to.sizes, to.widths};
}

Part Transfers::part(ValueId v) const { return at(v.index) < parts_.size() ? parts_[at(v.index)] : Part{}; }

void Transfers::set(ValueId v, Part part) {
  if (parts_.size() < graph_.values.size()) parts_.resize(graph_.values.size());
  parts_[at(v.index)] = part;
}

ValueId Transfers::put(ValueId v, Part part, ValueId like) {
  graph_[v].placement = graph_[like].placement;
  if (graph_[v].placement.group < 0) graph_[v].placement.group = group_;
  set(v, part);
  return v;
}

// Sums over devices are float32.
ValueId Transfers::moved_by(std::string_view op, std::string name, std::string of, ValueId v, Part to, Attributes attributes) {
  const DType dtype = graph_[v].type.dtype;
  if (is_16_bit(dtype) && (op == "AllReduce" || op == "ReduceScatter")) {
    GraphBuilder b(graph_, name, {});
    const auto cast = [&](ValueId x, DType as) {
      const Part lies = part(x);
      return put(b.emit("Cast", {x}, {{"to", static_cast<std::int64_t>(as)}}), lies, x);
    };
    return cast(moved_by(op, name, std::move(of), cast(v, DType::float32), std::move(to), std::move(attributes)), dtype);
  }
  const NodeId node = graph_.add_node(internal_operator(op), std::move(name), std::move(attributes), {v}, 1);
  const ValueId there = put(graph_[node].outputs[0], to, v);
  std::optional<PlanTransfer>& transfer = put_in_[there];
  const Moves moves = graph_[node].op->moves;
  if (!is_exchange(graph_[node]) || (!sums_are_told_ && moves != Moves::gather)) return there;
  const MeshAxis& mesh = graph_.groups[at(graph_[there].placement.group)].axes[axis_];
  const std::string reason = reason_.empty() ? usual_reason(moves, mesh.samples) : reason_;
  transfer = PlanTransfer{kind_of(graph_[node]), std::move(of), bytes_of(graph_[v]), mesh.name, reader_, reason};
  return there;
}

std::string Transfers::usual_reason(Moves moves, bool samples) const {
  if (moves == Moves::gather) return concat("'", reader_, "' reads all of it");
  return samples ? "it is a sum over all samples" : "one sum ends a split layer";
}

ValueId Transfers::sum(ValueId addends, std::string of) { return moved_by("AllReduce", concat("sum/", of), of, addends, {}); }

ValueId Transfers::largest(ValueId each, std::string of) {
  return moved_by("AllReduce", concat("largest/", of), of, each, {}, {{"max", std::int64_t{1}}});
}

// The constant says `count` until each device has its own.
ValueId Transfers::by_share(ValueId each, std::string name, std::int64_t count) {
  const int group = graph_[each].placement.group;
  if (part(each).spread == Spread::own && graph_.groups[at(group)].axes[axis_].one_has_all())
    return moved_by("Once", concat("once/", graph_[each].name), graph_[each].name, each, {Spread::partial});
  GraphBuilder b(graph_, name, {});
  const ValueId share = b.scalar(static_cast<double>(count), b.type(each).dtype);
  graph_[share].role = ValueRole::share;
  graph_[share].placement.group = group;
  set(share, {Spread::own});
  return put(b.mul(each, share), {Spread::partial}, each);
}

ValueId Transfers::transfer(ValueId v, Part to, const MeshAxis& mesh) {
  const bool goes_by_its_own = to != Part{} || !mesh.one_has_all() || !is_float(graph_[v].type.dtype);
  if (part(v).spread == Spread::own && goes_by_its_own) return v;
  const Key key = key_of(v, to);
  if (const auto done = transferred_.find(key); done != transferred_.end()) return done->second;
  const ValueId there = moved(v, to, mesh);
  transferred_[key] = there;
  return there;
}

ValueId Transfers::moved(ValueId v, Part to, const MeshAxis& mesh) {
  const Part have = part(v);
  const std::string name = graph_[v].name;
  if (to.spread == Spread::partial) return moved_by("Once", concat("once/", name), name, v, to);
  if (have.spread == Spread::own) return moved_by("AllReduce", concat("sum/", name), name, by_share(v, concat("once/", name)), to);
  if (to.spread == Spread::own) return moved_by("TakePart", concat("part/", name), name, have == Part{} ? v : transfer(v, {}, mesh), to);
  if (to.is_split()) {
    if (have.is_split() && is_of_one(have, to, mesh))
      return moved_by("AllGather", concat("swap/", name), name, v, to, {{"swap", std::int64_t{1}}});
    if (have.is_split()) return transfer(transfer(v, {}, mesh), to, mesh);
    if (have.spread == Spread::partial) {
      return to.outer == 1 ? scattered(v, to) : transfer(transfer(v, {}, mesh), to, mesh);
    }
    if (const ValueId narrow = narrowed(v, to, mesh); narrow.present()) return narrow;
    return moved_by("TakePart", concat("part/", name), name, v, to);
  }
  return have.spread == Spread::partial ? sum(v, name) : gathered(v);
}

// A value that was turned: where its parts along earlier axes of the mesh lie now. `from`: by axis, which it was.
ValueId Transfers::turned(ValueId v, const Ints& from) {
  for (Part& part : graph_[v].placement.parts)
    if (part.is_split()) part.axis = static_cast<int>(std::ranges::find(from, part.axis) - from.begin());
  return v;
}

// Of addends each device gets its part of the sum. Exchanges cut the first axis.
ValueId Transfers::scattered(ValueId v, const Part& to) {
  const std::string name = graph_[v].name, sum = concat("sum/", name);
  if (to.axis == 0) return moved_by("ReduceScatter", sum, name, v, to);
  GraphBuilder b(graph_, sum, {});
  const Ints front = in_front(to.axis, b.shape(v).rank());
  v = turned(put(b.transpose(v, front), {Spread::partial}, v), front);
  v = moved_by("ReduceScatter", sum, name, v, {Spread::split, 0, 1, to.sizes});
  return turned(put(b.transpose(v, inverse(front)), to, v), inverse(front));
}

// Parts come together along the first axis.
ValueId Transfers::gathered(ValueId v, bool again) {
  const ValueId from = v;
  Part have = part(v);
  const std::string name = concat(graph_[v].name, again ? "/again" : "");
  GraphBuilder b(graph_, concat("gather/", name), {});
  const Shape shape = b.shape(v);
  if (!have.widths.empty()) {  // run by run
    std::vector<ValueId> runs;
    std::int64_t place = 0;
    for (const std::int64_t width : have.widths) {
      const std::int64_t end = place + shape[have.axis] / have.outer * width;
      const ValueId run =
          b.emit("Slice", {v}, {{"starts", Ints{place}}, {"ends", Ints{end}}, {"axes", Ints{have.axis}}, {"steps", Ints{1}}});
      runs.push_back(gathered(put(run, {Spread::split, have.axis, 1, have.sizes}, v), again));
      place = end;
    }
    return put(b.emit("Concat", std::move(runs), {{"axis", std::int64_t{have.axis}}}), {}, from);
  }
  if (have.outer > 1) {
    Shape apart = shape;
    apart[have.axis] /= have.outer;
    apart.dims.insert(apart.dims.begin() + have.axis, have.outer);
    have = {Spread::split, have.axis + 1, 1, have.sizes};
    v = put(b.reshape(v, apart), have, from);
    for (Part& part : graph_[v].placement.parts)
      if (part.is_split() && part.axis >= have.axis) ++part.axis;
  }
  const Ints front = in_front(have.axis, b.shape(v).rank());
  if (have.axis > 0) v = turned(put(b.transpose(v, front), {Spread::split, 0, 1, have.sizes}, v), front);
  v = moved_by("AllGather", concat("gather/", name), graph_[from].name, v, {});
  if (have.axis > 0) v = turned(put(b.transpose(v, inverse(front)), {}, v), inverse(front));
  return b.shape(v) == shape ? v : put(b.reshape(v, shape), {}, from);
}

// What is whole only because nothing said otherwise (filled, repeated, constant) is made as a part at once. Absent where it
// is none of that.
ValueId Transfers::narrowed(ValueId v, Part to, const MeshAxis& mesh) {
  if (part(v) == to) return v;
  if (part(v) != Part{}) return {};
  const Key key = key_of(v, to);
  if (const auto done = transferred_.find(key); done != transferred_.end()) return done->second;
  const Value value = graph_[v];
  if (value.type.shape[to.axis] % (to.outer * mesh.as(to).total()) != 0) return {};
  ValueId narrow;
  if (value.kind == ValueKind::constant) {
    narrow = graph_.add_value(value);
  } else if (value.producer.present()) {
    const Node node = graph_[value.producer];
    if (gives_any_part(node, to)) {
      PartsContext c(graph_, node, mesh, *this);
      return transferred_[key] = part_of_result(c, to);
    }
    if (node.inputs.empty() && node.op->name != "Fill") return {};
    std::vector<ValueId> operands;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::optional<Part> needed = operand_for(graph_, node, i, to, mesh);
      if (!needed) return {};
      operands.push_back(needed->is_split() ? narrowed(node.inputs[i], *needed, mesh) : node.inputs[i]);
      if (node.inputs[i].present() && !operands.back().present()) return {};
    }
    narrow = graph_[graph_.add_node(*node.op, node.name, node.attributes, std::move(operands), 1, node.origin)].outputs[0];
    const NodeId producer = graph_[narrow].producer;
    graph_[narrow] = value;
    graph_[narrow].producer = producer;
    if (const auto exchange = put_in_.find(v); exchange != put_in_.end()) put_in_[narrow] = exchange->second;
  }
  if (!narrow.present()) return {};
  if (value.placement.group < 0 && graph_.groups.size() == 1) graph_[v].placement.group = 0;
  transferred_[key] = put(narrow, to, v);
  return narrow;
}

// Whether some value that this one is made of has been made in parts, so that this one is.
bool Transfers::has_parts(ValueId v, const Part& to, const MeshAxis& mesh, std::set<ValueId>& seen) const {
  if (transferred_.contains(key_of(v, to))) return graph_[v].kind == ValueKind::activation;
  if (!seen.insert(v).second || !graph_[v].producer.present()) return false;
  const Node& node = graph_[graph_[v].producer];
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (const std::optional<Part> needed = operand_for(graph_, node, i, to, mesh); needed && needed->is_split())
      if (has_parts(node.inputs[i], *needed, mesh, seen)) return true;
  return false;
}

ValueId Transfers::made_in_parts(ValueId v, int axis, const MeshAxis& mesh) {
  std::set<ValueId> seen;
  const Part to = Part::split(axis);
  return part(v) == Part{} && has_parts(v, to, mesh, seen) ? narrowed(v, to, mesh) : ValueId{};
}

}  // namespace tandem
