// From one graph to the devices' programs: each value becomes the part of it that the device holds, and each transfer what the
// device does in it. A device may have nothing of what is split along an axis of the mesh. Then it has nothing of what is computed
// from that, its addends are zeros, and it takes part in exchanges with zeros and with empty parts.
#include "planner/place/cut.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "graph/place.h"
#include "graph/updates.h"
#include "planner/place/place.h"
#include "planner/rewrite/graph_copy.h"

namespace tandem {
namespace {

Part part_of(const Value& v, std::size_t axis) { return axis < v.placement.parts.size() ? v.placement.parts[axis] : Part{}; }

// Whether the device has an empty part of it along some axis of the mesh.
bool has_nothing_of(const Graph& whole, const Value& v, int device) {
  if (v.placement.group < 0) return false;
  const DeviceGroup& group = whole.groups[at(v.placement.group)];
  const int position = group.position_of(device);
  for (std::size_t a = 0; position >= 0 && a < v.placement.parts.size(); ++a)
    if (const Part& part = v.placement.parts[a]; part.is_split() || part.spread == Spread::own) {
      const std::vector<std::int64_t>& sizes = part.sizes.empty() ? group.axes[a].sizes : part.sizes;
      if (sizes[at(group.position_along(position, a))] == 0) return true;
    }
  return false;
}

class Cut {
 public:
  Cut(const Graph& whole, int device) : whole_(whole), device_(device), map_(whole.values.size()), made_(whole.values.size()) {
    for (const DeviceGroup& group : whole.groups) positions_.push_back(group.position_of(device));
    to_.name = whole.name;
    to_.groups = whole.groups;
  }

  DeviceGraph run() {
    for (std::size_t i = 0; i < whole_.values.size(); ++i)
      if (const ValueId v{static_cast<int>(i)}; whole_[v].kind != ValueKind::activation && has(whole_[v])) map_[v] = given(whole_[v]);
    for (const ValueId in : whole_.inputs)
      if (map_[in].present()) to_.inputs.push_back(map_[in]);
    std::map<std::string, int> met;
    for (const Node& node : whole_.nodes) {
      if (is_exchange(node)) number_ = ++met[node.name];
      const std::size_t first = to_.nodes.size();
      add(node);
      for (std::size_t n = first; n < to_.nodes.size(); ++n)
        std::tie(to_.nodes[n].phase, to_.nodes[n].chunk) = std::pair(node.phase, chunk_of(node, to_.nodes[n]));
    }
    for (const int i : outputs_on(whole_, device_)) {
      const GraphOutput& out = whole_.outputs[at(i)];
      to_.outputs.emplace_back(operand(out), out.role, out.of);
    }
    if (is_idle(whole_, device_) || whole_.groups.size() > 1) drop_unread(to_, is_exchange);
    return {std::move(to_), std::move(by_position_), std::move(by_first_)};
  }

 private:
  // Who gives does so where the value is made, who gets where the node is.
  int chunk_of(const Node& node, const Node& own) const {
    const NodeId maker = node.op->moves == Moves::send && own.op == node.op ? whole_[node.inputs[0]].producer : NodeId{};
    return maker.present() ? whole_.nodes[at(maker.index)].chunk : node.chunk;
  }
  bool here(int group) const { return group < 0 || positions_[at(group)] >= 0; }
  bool has(const Value& v) const { return here(v.placement.group) && !has_nothing_of(whole_, v, device_); }
  // An addend to which the device has nothing to add: what it would be made of is not there.
  bool is_addend(ValueId v) const {
    const auto partial = [](const Part& p) { return p.spread == Spread::partial; };
    return v.present() && std::ranges::any_of(whole_[v].placement.parts, partial);
  }
  bool is_zero(ValueId v) const { return is_addend(v) && (!map_[v].present() || made_[v]); }
  bool all_zero(const Node& node) const {
    const auto zero_if_addend = [&](ValueId v) { return !is_addend(v) || is_zero(v); };
    return std::ranges::any_of(node.inputs, [&](ValueId v) { return is_addend(v); }) && std::ranges::all_of(node.inputs, zero_if_addend);
  }
  bool known(ValueId v) const { return !v.present() || map_[v].present() || is_zero(v); }

  // What the device has of a value; zeros are made where somebody asks for them.
  ValueId operand(ValueId v) {
    if (!v.present() || map_[v].present()) return v.present() ? map_[v] : v;
    if (!known(v)) fail("placement: '", whole_[v].name, "' is read on device ", device_, ", which has nothing of it");
    made_[v] = true;
    return map_[v] = zeros(whole_[v]);
  }
  ValueId zeros(const Value& v) {
    const ValueId z =
        GraphBuilder(to_, concat("zeros/", v.name), {})
            .emit("Fill", {}, {{"value", 0.0F}, {"shape", local(v).dims}, {"dtype", static_cast<std::int64_t>(v.type.dtype)}});
    to_[z].name = v.name;
    to_[z].placement = v.placement;
    return z;
  }
  // The same for an exchange, into which a device goes with an empty part, too.
  ValueId exchanged(ValueId v) {
    if (!map_[v].present() && !has(whole_[v])) {
      const TensorType nothing{whole_[v].type.dtype, local(whole_[v])};
      const ValueId empty = to_.add_constant(whole_[v].name, Tensor(nothing));
      to_[empty].placement = whole_[v].placement;
      return empty;
    }
    return operand(v);
  }
  const DeviceGroup& group_of(const Value& v) const { return whole_.groups[at(v.placement.group)]; }
  Shape local(const Value& v) const {
    return v.placement.group < 0 ? v.type.shape : local_shape(v.type.shape, v.placement, group_of(v), positions_[at(v.placement.group)]);
  }

  // A parameter, input or constant.
  ValueId given(const Value& value) {
    Value v = value;
    v.type.shape = local(value);
    const bool part = v.type.shape != value.type.shape;
    if (v.kind == ValueKind::constant && part) v.data = cut_constant(value);
    // of unbiased variances it says of how many values the whole's would be
    if (v.kind == ValueKind::constant && v.role == ValueRole::share) {
      const double share = share_of(value), count = value.data->to_doubles()[0];
      v.data = Tensor::scalar(static_cast<float>(share * unbiased(count * share))).cast(value.type.dtype);
    }
    if (v.kind == ValueKind::parameter && part) {
      PartOfParameter own{
          {value.role, value.name}, value.template_shape, ranges_of(value, group_of(value), positions_[at(value.placement.group)])};
      v.template_shape = *shape_of(value.template_shape, own.ranges);
      to_.parts.push_back(std::move(own));
      v.data.reset();
    }
    return to_.add_value(std::move(v));
  }

  double share_of(const Value& v) const {
    double share = 1;
    for (std::size_t a = 0; a < v.placement.parts.size(); ++a)
      if (part_of(v, a).spread == Spread::own)
        share *= static_cast<double>(size_along(v, a)) / static_cast<double>(group_of(v).axes[a].total());
    return share;
  }
  int position_along(const Value& v, std::size_t axis) const { return group_of(v).position_along(positions_[at(v.placement.group)], axis); }
  std::int64_t size_along(const Value& v, std::size_t axis) const { return group_of(v).axes[axis].sizes[at(position_along(v, axis))]; }

  AxisRange range_of(const Value& v, const Shape& shape, std::size_t along) const {
    return tandem::range_of(v, shape, along, group_of(v), positions_[at(v.placement.group)]);
  }

  Tensor cut_constant(const Value& value) {
    Graph scratch;
    GraphBuilder b(scratch, "part", {});
    ValueId v = scratch.add_constant(value.name, *value.data);
    for (std::size_t a = 0; a < value.placement.parts.size(); ++a)
      if (value.placement.parts[a].is_split()) {
        by_position_.insert({value.placement.group, a});
        v = sliced(b, v, range_of(value, b.shape(v), a));
      }
    for (Node& node : scratch.nodes) {
      std::vector<Tensor> inputs;
      for (const ValueId in : node.inputs) inputs.push_back(*scratch[in].data);
      FoldContext c{.node = node, .inputs = std::move(inputs), .outputs = {scratch[node.outputs[0]].type}, .input_types = {}};
      scratch[node.outputs[0]].data = node.op->fold(c)->front();
    }
    return *scratch[v].data;
  }

  static ValueId slice(GraphBuilder& b, ValueId v, std::int64_t axis, std::int64_t begin, std::int64_t size) {
    return b.emit("Slice", {v}, {{"starts", Ints{begin}}, {"ends", Ints{begin + size}}, {"axes", Ints{axis}}, {"steps", Ints{1}}});
  }

  static ValueId sliced(GraphBuilder& b, ValueId v, const AxisRange& range) {
    const int axis = range.axis;
    const Shape whole = b.shape(v);
    if (!range.widths.empty()) {
      std::vector<ValueId> runs;
      std::int64_t place = 0;
      for (const std::int64_t width : range.widths) {
        runs.push_back(slice(b, v, axis, place + width * range.begin, width * range.size));
        place += whole[axis] / range.outer * width;
      }
      return b.emit("Concat", std::move(runs), {{"axis", std::int64_t{axis}}});
    }
    if (range.outer > 1) {
      Shape apart = whole;
      apart[axis] /= range.outer;
      apart.dims.insert(apart.dims.begin() + axis, range.outer);
      v = b.reshape(v, apart);
    }
    const std::int64_t along = range.outer > 1 ? axis + 1 : axis;
    v = slice(b, v, along, range.begin, range.size);
    Shape part = whole;
    part[axis] = range.outer * range.size;
    return b.reshape(v, part);
  }

  void add(const Node& node) {
    const ValueId first = *std::find_if(node.outputs.begin(), node.outputs.end(), [](ValueId v) { return v.present(); });
    if (node.op->moves == Moves::send) return add_send(node);
    if (!here(whole_[first].placement.group)) return;
    const bool exchanges = is_exchange(node);
    const auto computed = [&](ValueId out) {
      return out.present() && (exchanges || (has(whole_[out]) && !(is_addend(out) && all_zero(node))));
    };
    if (std::none_of(node.outputs.begin(), node.outputs.end(), computed)) return;
    // What is the same on all devices may be told by a node that needs samples: it is left out with what reads it.
    if (!exchanges && node.op->in_place.empty() &&
        !std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return known(v); }))
      return;
    if (node.op->moves == Moves::part) return take_part(node);
    if (node.op->moves == Moves::addend) return once(node);
    Node n = node;
    for (ValueId& in : n.inputs) in = exchanges ? exchanged(in) : operand(in);
    const NodeId id{static_cast<int>(to_.nodes.size())};
    for (ValueId& out : n.outputs) {
      if (!computed(out)) {
        out = {};
        continue;
      }
      Value v = whole_[out];
      v.type.shape = local(v);
      v.producer = id;
      const ValueId now = to_.add_value(std::move(v));
      if (has(whole_[out])) map_[out] = now;  // else it is an exchange of which others alone get something
      out = now;
    }
    if (exchanges) {
      name_exchange(node, n);
      to_.nodes.push_back(std::move(n));
      return;
    }
    n.attributes = local_attributes(
        node, whole_[first].type.shape,
        to_[n.outputs[static_cast<std::size_t>(std::find(node.outputs.begin(), node.outputs.end(), first) - node.outputs.begin())]]
            .type.shape);
    if (n.attributes.has("count")) n.attributes.set("count", counted(n.attributes.integer("count"), whole_[first]));
    if (n.attributes.has("layer")) count_as_whole(n.attributes, whole_[first]);
    keep_direction(node, n.attributes);
    to_.nodes.push_back(std::move(n));
    check(to_.nodes.back());
  }

  // Of a recurrence in both directions, each on a device: the matrices, operand 1 of the forward pass and operand 0 of the backward pass,
  // are one behind the other.
  void keep_direction(const Node& node, Attributes& attributes) {
    if (attributes.text("direction", "") != "bidirectional") return;
    const Value& matrices = whole_[node.inputs[node.op->name == "RecurrentTraining" ? 1 : 0]];
    for (std::size_t a = 0; a < matrices.placement.parts.size(); ++a) {
      if (!part_of(matrices, a).is_split()) continue;
      by_position_.insert({matrices.placement.group, a});
      attributes.set("direction", std::string(position_along(matrices, a) == 0 ? "forward" : "reverse"));
    }
  }

  // Random numbers of a part are those that the whole has there. Samples are told by the step's state.
  void count_as_whole(Attributes& attributes, const Value& drawn) {
    for (std::size_t a = 0; a < drawn.placement.parts.size(); ++a) {
      const bool by_samples = group_of(drawn).axes[a].samples && (attributes.has("axis") || attributes.has("inner"));
      if (!part_of(drawn, a).is_split() || by_samples) continue;
      if (attributes.has("part")) fail("placement: '", drawn.name, "' is drawn in parts along several axes of the mesh");
      by_position_.insert({drawn.placement.group, a});
      const AxisRange range = range_of(drawn, drawn.type.shape, a);
      if (!range.widths.empty()) fail("placement: '", drawn.name, "' is drawn in parts of runs of several widths");
      attributes.set("part", Ints{range.axis, range.begin, drawn.type.shape[range.axis], range.outer});
    }
  }

  // Elements that a device's own statistics are of.
  std::int64_t counted(std::int64_t count, const Value& statistic) const {
    for (std::size_t a = 0; a < statistic.placement.parts.size(); ++a)
      if (part_of(statistic, a).spread == Spread::own) count = count / group_of(statistic).axes[a].total() * size_along(statistic, a);
    return count;
  }

  // The operator's own shape rule, of the parts of its operands, gives the parts of its results.
  void check(Node& node) {
    std::vector<TensorType> placed;
    for (const ValueId out : node.outputs) placed.push_back(out.present() ? to_[out].type : TensorType{});
    InferContext context(to_, node);
    node.op->infer(context);
    for (std::size_t i = 0; i < placed.size(); ++i)
      if (const ValueId out = node.outputs[i]; out.present() && !to_[out].opaque && to_[out].type != placed[i])
        fail("placement: ", node.op->name, " '", node.name, "' gives ", to_[out].type, " on device ", device_, ", placed as ", placed[i]);
  }

  // Nodes may have one name.
  std::string name_of(const Node& node) const { return concat(node.name, number_ > 1 ? concat(" #", number_) : ""); }

  // Who takes part, where it is not every device of the plan.
  void name_exchange(const Node& node, Node& n) const {
    const Value &from = whole_[node.inputs[0]], &to = whole_[node.outputs[0]];
    if (whole_.groups.size() == 1 && group_of(to).axes.size() == 1 && node.op->moves == Moves::sum) return;
    for (std::size_t a = 0; a < group_of(to).axes.size(); ++a)
      if (part_of(from, a) != part_of(to, a)) {
        n.attributes.set(std::string(along_axis), Ints{to.placement.group, static_cast<std::int64_t>(a)});
        n.attributes.set("exchange", name_of(node));
      }
  }

  void take_part(const Node& node) {
    const Value &from = whole_[node.inputs[0]], &to = whole_[node.outputs[0]];
    GraphBuilder b(to_, node.name, node.origin);
    ValueId v = map_[node.inputs[0]];
    for (std::size_t a = 0; a < to.placement.parts.size(); ++a)
      if (part_of(to, a).is_split() && !part_of(from, a).is_split()) {
        by_position_.insert({to.placement.group, a});
        v = sliced(b, v, range_of(to, b.shape(v), a));
      }
    to_[v].placement = to.placement;
    map_[node.outputs[0]] = v;
  }

  void once(const Node& node) {
    const Value &from = whole_[node.inputs[0]], &to = whole_[node.outputs[0]];
    bool first = true;
    for (std::size_t a = 0; a < to.placement.parts.size(); ++a)
      if (part_of(from, a) != part_of(to, a)) {
        by_first_.insert({to.placement.group, a});
        first = first && position_along(to, a) == group_of(to).axes[a].first_with_some();
      }
    map_[node.outputs[0]] = first ? operand(node.inputs[0]) : zeros(to);
  }

  // The devices of two groups in order: each gives to the other's one.
  void add_send(const Node& node) {
    const Value &from = whole_[node.inputs[0]], &to = whole_[node.outputs[0]];
    const int giver = positions_[at(from.placement.group)], taker = positions_[at(to.placement.group)];
    Attributes attributes{{std::string(between_groups), Ints{from.placement.group, to.placement.group}}, {"exchange", name_of(node)}};
    if (giver >= 0) {
      const ValueId given = exchanged(node.inputs[0]);
      to_.nodes.push_back({node.op, node.name, attributes, {given}, {ValueId{}}, node.origin});
    }
    if (taker < 0) return;
    const NodeId id{static_cast<int>(to_.nodes.size())};
    Value v = to;
    v.type.shape = local(to);
    v.producer = id;
    attributes.set("dtype", static_cast<std::int64_t>(v.type.dtype));
    attributes.set("shape", v.type.shape.dims);
    const ValueId there = to_.add_value(std::move(v));
    map_[node.outputs[0]] = there;
    to_.nodes.push_back({&internal_operator("Receive"), node.name, std::move(attributes), {}, {there}, node.origin});
  }

  const Graph& whole_;
  const int device_;
  std::vector<int> positions_;  // by group; -1: not in it
  int number_ = 0;              // of the exchange at hand, among those of its name
  std::set<MeshPlace> by_position_, by_first_;
  Graph to_;
  IdVector<ValueId, ValueId> map_;
  IdVector<ValueId, bool> made_;  // zeros that were put in
};

}  // namespace

bool is_idle(const Graph& whole, int device) {
  return std::any_of(whole.groups.begin(), whole.groups.end(), [&](const DeviceGroup& group) {
    const int position = group.position_of(device);
    for (std::size_t a = 0; position >= 0 && a < group.axes.size(); ++a)
      if (group.axes[a].sizes[at(group.position_along(position, a))] == 0) return true;
    return false;
  });
}

DeviceGraph cut(const Graph& whole, int device) { return Cut(whole, device).run(); }

namespace {

// Whether another device, that stands before this one, has the same of it.
bool is_copy(const Graph& whole, const Value& v, int device) {
  const DeviceGroup& group = whole.groups[at(v.placement.group)];
  for (std::size_t a = 0; a < group.axes.size(); ++a)
    if (!group.axes[a].samples && part_of(v, a) == Part{} && group.position_along(group.position_of(device), a) > 0) return true;
  return false;
}

}  // namespace

std::vector<int> outputs_on(const Graph& whole, int device) {
  std::vector<int> given;
  for (std::size_t i = 0; i < whole.outputs.size(); ++i) {
    const int group = whole[whole.outputs[i]].placement.group;
    if (group >= 0 && whole.groups[at(group)].position_of(device) < 0) continue;
    // What is whole on all devices is told by those that compute something.
    const bool by_rows = whole.outputs[i].role == ValueRole::plain || whole.outputs[i].role == ValueRole::measure;
    const Value& value = whole[whole.outputs[i]];
    if (has_nothing_of(whole, value, device)) continue;
    if (by_rows && (is_idle(whole, device) || (group >= 0 && is_copy(whole, value, device)))) continue;
    given.push_back(static_cast<int>(i));
  }
  return given;
}

}  // namespace tandem
