// Along one axis of the mesh: parts go from operands to results by the operators' rules; what is needed otherwise than it lies is
// moved.
#include <algorithm>
#include <tuple>

#include "graph/place.h"
#include "planner/place/place.h"
#include "planner/place/placing.h"

namespace tandem {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Places all values along one axis of the meshes.
class AxisPlacer {
 public:
  AxisPlacer(Graph& graph, std::size_t axis, const PlacementRequest& request, std::map<ValueId, std::size_t>& transfers)
      : graph_(graph), axis_(axis), request_(request), transfers_(transfers) {}

  std::vector<std::string> run() {
    start();
    Sequence sequence(graph_);
    const std::size_t nodes = graph_.nodes.size();
    for (std::size_t n = 0; n < nodes; ++n)
      if (graph_.nodes[n].op->in_place.empty()) {
        place(n);
        sequence.take(n);
      }
    place_outputs();
    for (std::size_t n = 0; n < nodes; ++n)
      if (!graph_.nodes[n].op->in_place.empty()) {
        place(n);
        sequence.take(n);
      }
    for (std::size_t i = 0; i < graph_.values.size(); ++i)
      if (Value& v = graph_.values[i]; v.placement.group >= 0 && axis_ < axes_of(v).size()) {
        v.placement.parts.resize(axis_);  // what was put in for this axis is whole along those before, if nothing else was said
        v.placement.parts.push_back(parts_[i]);
      }
    sequence.finish();
    return std::move(gathered_for_);
  }

 private:
  const std::vector<MeshAxis>& axes_of(const Value& v) const { return graph_.groups[at(v.placement.group)].axes; }

  void start() {
    moved_.resize(graph_.values.size());
    parts_.resize(graph_.values.size());
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      Value& v = graph_.values[i];
      if (v.kind == ValueKind::activation) continue;
      if (v.role == ValueRole::step_state && v.of == step_random) parts_[i] = {Spread::own};  // a device's place in the random stream
      const std::vector<Part>* const asked = asked_of(v);
      if (!asked || axis_ >= asked->size()) continue;
      parts_[i] = in_form(v, (*asked)[axis_]);
      if (parts_[i] != Part{} && v.placement.group < 0) v.placement.group = 0;
    }
  }

  // What was said of a value; null: nothing.
  const std::vector<Part>* asked_of(const Value& v) const {
    if (v.role == ValueRole::label || v.role == ValueRole::sample_weight) return &request_.labels;
    const bool own = v.role == ValueRole::plain && (v.kind == ValueKind::input || v.kind == ValueKind::parameter);
    const auto asked = own ? request_.values.find(v.name) : request_.values.end();
    return asked == request_.values.end() ? nullptr : &asked->second;
  }

  // What was said of the template's tensor, of the parameter as it is held.
  static Part in_form(const Value& v, Part part) {
    if (v.kind != ValueKind::parameter || !part.is_split()) return part;
    for (int axis = 0; axis < v.type.shape.rank(); ++axis)
      if (template_axis(v, axis) == part.axis) return Part::split(axis, part.outer);
    fail(ExitCode::usage, "placement: parameter '", v.name, "' of ", v.template_shape, " is held as ", v.type.shape, ", whose parts are none of its axis ", part.axis);
  }

  ValueId now(ValueId v) const { return v.present() && at(v.index) < moved_.size() && moved_[at(v.index)].present() ? moved_[at(v.index)] : v; }
  Part& part(ValueId v) {
    if (parts_.size() < graph_.values.size()) parts_.resize(graph_.values.size());
    return parts_[at(v.index)];
  }
  const MeshAxis* mesh_of(const Node& node) const {
    const auto out = std::find_if(node.outputs.begin(), node.outputs.end(), [](ValueId v) { return v.present(); });
    const int group = graph_[*out].placement.group;
    return group >= 0 && axis_ < graph_.groups[at(group)].axes.size() ? &graph_.groups[at(group)].axes[axis_] : nullptr;
  }

  void place(std::size_t n) {
    for (ValueId& in : graph_.nodes[n].inputs) in = now(in);
    const MeshAxis* mesh = mesh_of(graph_.nodes[n]);
    if (!mesh) return;
    if (const std::string_view op = graph_.nodes[n].op->name; op == "AllReduce" && !transfers_.contains(graph_.nodes[n].outputs[0])) {
      sum_as_said(n);
      return;
    }
    if (mean_over_parts(n) || mean_of_losses(n)) return;
    if (graph_.nodes[n].op->name == "RunningStatistics") {
      Node& node = graph_.nodes[n];
      const ValueId own = node.inputs[1];
      const bool each_its_own = part(own).spread == Spread::own && !one_has_all(*mesh);  // their variances are made unbiased one by one
      const ValueId mean = mean_of_own(own, graph_[node.inputs[0]].name, node.attributes.ints("counts", Ints{1})[0]);
      Node& statistic = graph_.nodes[n];  // nodes were added
      statistic.inputs[1] = mean;
      if (each_its_own) statistic.attributes.erase("counts");
    }
    std::vector<Part> operands;
    for (const ValueId in : graph_.nodes[n].inputs) operands.push_back(in.present() ? part(in) : Part{});
    NodePlacement placed = place_node(graph_, graph_.nodes[n], operands, *mesh);
    if (!graph_.nodes[n].op->in_place.empty() && one_has_all(*mesh)) update_everywhere(placed);
    if (!placed.reason.empty()) gathered_for_.push_back(concat(graph_.nodes[n].op->name, " '", graph_.nodes[n].name, "': ", placed.reason));
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const ValueId in = graph_.nodes[n].inputs[i];
      if (!in.present() || operands[i] == placed.inputs[i]) continue;
      const ValueId moved = transfer(in, placed.inputs[i], *mesh);
      graph_.nodes[n].inputs[i] = moved;
    }
    for (std::size_t i = 0; i < placed.outputs.size(); ++i)
      if (const ValueId out = graph_.nodes[n].outputs[i]; out.present()) part(out) = placed.outputs[i];
  }

  // What one device has all of, and updates are made of, all have to have.
  static void update_everywhere(NodePlacement& placed) {
    for (std::vector<Part>* parts : {&placed.inputs, &placed.outputs})
      for (Part& p : *parts)
        if (p.spread == Spread::own) p = {};
  }

  // An AllReduce that a pass has put in: it sums addends, and is nothing where the value is whole already.
  void sum_as_said(std::size_t n) {
    const Node& node = graph_.nodes[n];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Part have = part(node.inputs[i]);
      part(node.outputs[i]) = have.spread == Spread::partial ? Part{} : have;
      if (have.spread != Spread::partial) moved_[at(node.outputs[i].index)] = node.inputs[i];
    }
  }

  // A mean over what is split is a sum, and its factor.
  bool mean_over_parts(std::size_t n) {
    const Node node = graph_.nodes[n];
    if (node.op->name != "ReduceMean" || !part(node.inputs[0]).is_split()) return false;
    const Ints axes = node.attributes.ints("axes");
    if (std::find(axes.begin(), axes.end(), part(node.inputs[0]).axis) == axes.end()) return false;
    const TensorType x = graph_[node.inputs[0]].type, y = graph_[node.outputs[0]].type;
    GraphBuilder b(graph_, node.name, node.origin);
    const ValueId sum = b.emit("ReduceSum", {node.inputs[0]}, node.attributes);
    added(sum, {Spread::partial}, node.inputs[0]);
    const ValueId factor = b.scalar(static_cast<double>(y.shape.elements()) / static_cast<double>(std::max<std::int64_t>(1, x.shape.elements())), x.dtype);
    const ValueId mean = b.mul(sum, factor);
    added(mean, {Spread::partial}, sum);
    moved_[at(node.outputs[0].index)] = mean;
    part(node.outputs[0]) = part(mean);
    return true;
  }

  // A mean of losses, or its gradient: their sum, divided by that of the labels' weights on all devices.
  bool mean_of_losses(std::size_t n) {
    const Node node = graph_.nodes[n];
    const bool backward = node.op->name == "NegativeLogLikelihoodLossBackward";
    if (!backward && node.op->name != "NegativeLogLikelihoodLoss") return false;
    const Part labels = part(node.inputs[1]);
    const Part scores = Part::split(labels.axis > 0 ? labels.axis + 1 : labels.axis, labels.outer);
    if (node.attributes.text("reduction") != "mean" || !labels.is_split() || part(node.inputs[0]) != (backward ? Part{} : scores)) return false;
    GraphBuilder b(graph_, node.name, node.origin);
    Attributes sum = node.attributes;
    sum.set("reduction", std::string("sum"));
    const ValueId weights = sum_of_weights(node, scores);
    std::vector<ValueId> operands = node.inputs;
    if (backward) added(operands[0] = b.div(operands[0], weights), {}, weights);
    ValueId result = b.emit(node.op->name, std::move(operands), sum);
    added(result, backward ? scores : Part{Spread::partial}, node.inputs[1]);
    if (!backward) {
      const ValueId addend = result;
      added(result = b.div(addend, weights), {Spread::partial}, addend);
    }
    moved_[at(node.outputs[0].index)] = result;
    part(node.outputs[0]) = part(result);
    return true;
  }

  // The loss of scores that are all -1.
  ValueId sum_of_weights(const Node& node, Part scores) {
    const AttributeValue* const ignored = node.attributes.find("ignore_index");
    ValueId& whole = weights_[{node.inputs[1], node.inputs.size() > 2 ? node.inputs[2] : ValueId{}, ignored ? to_string(*ignored) : std::string()}];
    if (whole.present()) return whole;
    const bool backward = node.attributes.has("input_shape");
    GraphBuilder b(graph_, concat("weights/", graph_[node.inputs[1]].name), node.origin);
    const TensorType type = b.type(node.inputs[0]);
    const ValueId ones = b.emit("Fill", {}, {{"value", -1.0F}, {"shape", backward ? node.attributes.ints("input_shape") : type.shape.dims}, {"dtype", static_cast<std::int64_t>(type.dtype)}});
    added(ones, scores, node.inputs[1]);
    Attributes sum = node.attributes;
    sum.set("reduction", std::string("sum"));
    sum.erase("input_shape");
    std::vector<ValueId> operands = node.inputs;
    operands[0] = ones;
    const ValueId addend = b.emit("NegativeLogLikelihoodLoss", std::move(operands), sum);
    added(addend, {Spread::partial}, ones);
    return whole = moved_by("AllReduce", concat("sum/", graph_[addend].name), addend, {});
  }

  // A running statistic moves towards the mean of the devices' own ones, each weighted by its share of the samples.
  // `count`: of values that the whole's would be of, where each device's is to be unbiased; else 1.
  ValueId mean_of_own(ValueId own, const std::string& statistic, std::int64_t count) {
    if (part(own).spread != Spread::own) return own;
    return summed(by_share(own, concat("statistics/", statistic), count), ValueRole::statistic, statistic);
  }

  // What every device has, as an addend of the mean: times its share of the samples. Where one has all, that one's is the mean. The
  // constant says `count` until each has its own.
  ValueId by_share(ValueId each, std::string name, std::int64_t count = 1) {
    if (part(each).spread == Spread::own && one_has_all(axes_of(graph_[each])[axis_])) return moved_by("Once", concat("once/", graph_[each].name), each, {Spread::partial});
    GraphBuilder b(graph_, std::move(name), {});
    const ValueId share = b.scalar(static_cast<double>(count), b.type(each).dtype);
    graph_[share].role = ValueRole::share;
    graph_[share].placement.group = graph_[each].placement.group;
    part(share) = {Spread::own};
    const ValueId addend = b.mul(each, share);
    added(addend, {Spread::partial}, each);
    return addend;
  }

  // A gradient is placed as its parameter is; of the other outputs, what the model gives is no addend.
  void place_outputs() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i)
      if (graph_.values[i].kind == ValueKind::parameter && graph_.values[i].role == ValueRole::plain) parameters_.emplace(graph_.values[i].name, ValueId{static_cast<int>(i)});
    for (GraphOutput& out : graph_.outputs) {
      out.value = now(out);
      const int group = graph_[out].placement.group;
      if (group < 0 || axis_ >= graph_.groups[at(group)].axes.size()) continue;
      const MeshAxis& mesh = graph_.groups[at(group)].axes[axis_];
      if (out.role == ValueRole::gradient) {
        const Part wanted = part(parameters_.at(out.of));
        if (part(out) == wanted) continue;
        if (part(out).spread == Spread::own && one_has_all(mesh)) out.value = by_share(out, concat("gradient/", out.of));
        out.value = part(out).spread == Spread::partial && !wanted.is_split() ? summed(out, out.role, out.of) : transfer(out, wanted, mesh);
      } else if ((out.role == ValueRole::loss || out.role == ValueRole::metric) && (part(out).spread == Spread::own || (graph_[out].depends_on_batch && part(out) == Part{}))) {
        out.value = by_share(out, "loss/share");  // the host adds what the devices give
      } else if (out.role == ValueRole::plain || out.role == ValueRole::measure) {
        const auto asked = request_.values.find(graph_[out].name);
        if (asked != request_.values.end() && axis_ < asked->second.size() && part(out) != asked->second[axis_])
          out.value = transfer(out, asked->second[axis_], mesh);
        else if (part(out).spread == Spread::partial)
          out.value = transfer(out, {}, mesh);
      }
    }
  }

  // A value that was put in: placed so along this axis, and along the others as `like`.
  void added(ValueId v, Part where, ValueId like) {
    graph_[v].placement = graph_[like].placement;
    part(v) = where;
    if (moved_.size() < graph_.values.size()) moved_.resize(graph_.values.size());
  }

  ValueId moved_by(std::string_view op, std::string name, ValueId v, Part to) {
    const ValueId there = graph_[graph_.add_node(internal_operator(op), std::move(name), {}, {v}, 1)].outputs[0];
    added(there, to, v);
    transfers_[there] = axis_;
    return there;
  }

  ValueId summed(ValueId v, ValueRole role, const std::string& of) {
    const ValueId whole = moved_by("AllReduce", concat("sum/", of), v, {});
    graph_[whole].role = role;
    graph_[whole].of = of;
    return whole;
  }

  // The value placed as `to`; put in once.
  ValueId transfer(ValueId v, Part to, const MeshAxis& mesh) {
    if (part(v).spread == Spread::own && (to != Part{} || !one_has_all(mesh) || !is_float(graph_[v].type.dtype))) return v;  // each device goes by its own
    const std::tuple key(v.index, to.spread, to.axis, to.outer);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    const ValueId there = moved(v, to, mesh);
    known_[key] = there;
    return there;
  }

  ValueId moved(ValueId v, Part to, const MeshAxis& mesh) {
    const Part have = part(v);
    const std::string& name = graph_[v].name;
    if (to.spread == Spread::partial) return moved_by("Once", concat("once/", name), v, to);
    if (have.spread == Spread::own) return moved_by("AllReduce", concat("sum/", name), by_share(v, concat("once/", name)), to);
    if (to.spread == Spread::own) return moved_by("TakePart", concat("part/", name), have == Part{} ? v : transfer(v, {}, mesh), to);
    if (to.is_split()) {
      if (have.is_split()) return transfer(transfer(v, {}, mesh), to, mesh);
      if (have.spread == Spread::partial) {
        if (to == Part::split(0)) return moved_by("ReduceScatter", concat("sum/", name), v, to);
        return transfer(transfer(v, {}, mesh), to, mesh);
      }
      if (const ValueId narrow = narrowed(v, to, mesh); narrow.present()) return narrow;
      return moved_by("TakePart", concat("part/", name), v, to);
    }
    if (have.spread == Spread::partial) return moved_by("AllReduce", concat("sum/", name), v, to);
    return gathered(v);
  }

  // Parts come together along the first axis.
  ValueId gathered(ValueId v) {
    const ValueId from = v;
    Part have = part(v);
    const std::string name = graph_[v].name;
    GraphBuilder b(graph_, concat("gather/", name), {});
    const Shape shape = b.shape(v);
    if (have.outer > 1) {
      Shape apart = shape;
      apart[have.axis] /= have.outer;
      apart.dims.insert(apart.dims.begin() + have.axis, have.outer);
      v = b.reshape(v, apart);
      have = Part::split(have.axis + 1);
      added(v, have, from);
    }
    Ints front{have.axis};
    for (int i = 0; i < b.shape(v).rank(); ++i)
      if (i != have.axis) front.push_back(i);
    if (have.axis > 0) added(v = b.transpose(v, front), Part::split(0), from);
    v = moved_by("AllGather", concat("gather/", name), v, {});
    if (have.axis > 0) {
      Ints back(front.size());
      for (std::size_t i = 0; i < front.size(); ++i) back[at(static_cast<int>(front[i]))] = static_cast<std::int64_t>(i);
      added(v = b.transpose(v, back), {}, from);
    }
    if (b.shape(v) != shape) added(v = b.reshape(v, shape), {}, from);
    return v;
  }

  // What is whole only because nothing said otherwise (filled, repeated, constant) is made as a part at once. Absent where it
  // is none of that.
  ValueId narrowed(ValueId v, Part to, const MeshAxis& mesh) {
    if (part(v) == to) return v;
    if (part(v) != Part{}) return {};
    const std::tuple key(v.index, to.spread, to.axis, to.outer);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    const Value value = graph_[v];
    if (value.type.shape[to.axis] % (to.outer * mesh.total()) != 0) return {};
    ValueId narrow;
    if (value.kind == ValueKind::constant) {
      narrow = graph_.add_value(value);
    } else if (value.producer.present()) {
      const Node node = graph_[value.producer];
      if (node.inputs.empty() && node.op->name != "Fill") return {};
      std::vector<ValueId> operands;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const std::optional<Part> needed = operand_for(node, i, to, mesh);
        if (!needed) return {};
        operands.push_back(needed->is_split() ? narrowed(node.inputs[i], *needed, mesh) : node.inputs[i]);
        if (node.inputs[i].present() && !operands.back().present()) return {};
      }
      narrow = graph_[graph_.add_node(*node.op, node.name, node.attributes, std::move(operands), 1, node.origin)].outputs[0];
      const NodeId producer = graph_[narrow].producer;
      graph_[narrow] = value;
      graph_[narrow].producer = producer;
    }
    if (!narrow.present()) return {};
    if (value.placement.group < 0) graph_[v].placement.group = 0;
    added(narrow, to, v);
    known_[key] = narrow;
    return narrow;
  }

  // How an operand has to be placed so that the node's result is split so; absent where it cannot be told.
  std::optional<Part> operand_for(const Node& node, std::size_t i, Part to, const MeshAxis& mesh) const {
    const std::string_view op = node.op->name;
    if (node.outputs.size() != 1) return std::nullopt;
    if (!node.inputs[i].present()) return Part{};
    const Shape &x = graph_[node.inputs[i]].type.shape, &y = graph_[node.outputs[0]].type.shape;
    if (op == "Reshape") {
      std::int64_t before = to.outer;
      for (int a = 0; a < to.axis; ++a) before *= std::max<std::int64_t>(1, y[a]);
      const std::vector<BatchPlace> readings = readings_of_view(before, x, mesh.total());
      if (readings.empty()) return std::nullopt;
      return Part::split(readings[0].axis, readings[0].outer);
    }
    if (op == "Transpose") return Part::split(static_cast<int>(node.attributes.ints("perm")[at(to.axis)]), to.outer);
    if (!node.op->elementwise && op != "Expand" && op != "Cast" && op != "Where") return std::nullopt;
    const int axis = to.axis - (y.rank() - x.rank());
    return axis < 0 || x[axis] != y[to.axis] ? Part{} : Part::split(axis, to.outer);
  }

  Graph& graph_;
  const std::size_t axis_;
  const PlacementRequest& request_;
  std::map<ValueId, std::size_t>& transfers_;  // results of those that were put in, by axis
  std::vector<Part> parts_;                // by value
  std::vector<ValueId> moved_;             // by value: what stands for it now
  std::map<std::tuple<int, Spread, int, std::int64_t>, ValueId> known_;
  std::map<std::tuple<ValueId, ValueId, std::string>, ValueId> weights_;  // sums of labels' weights: by labels, weights by class and the label that does not count
  std::map<std::string, ValueId, std::less<>> parameters_;
  std::vector<std::string> gathered_for_;  // nodes that need whole operands, and why
};

}  // namespace

std::vector<std::string> place_along(Graph& graph, std::size_t axis, const PlacementRequest& request, std::map<ValueId, std::size_t>& transfers) {
  return AxisPlacer(graph, axis, request, transfers).run();
}

}  // namespace tandem
