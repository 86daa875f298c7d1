// Along one axis of the mesh: parts go from operands to results by the operators' rules; what is needed otherwise than it lies is
// moved.
#include <algorithm>
#include <set>

#include "base/option.h"
#include "planner/loss/external_loss.h"
#include "planner/place/place.h"
#include "planner/place/placing.h"
#include "planner/place/transfers.h"

namespace tandem {

void Sequence::finish() {
  add_new();
  // By node: how many of the ordered ones stand before it.
  std::vector<std::size_t> before(graph_.nodes.size());
  for (std::size_t i = 0; i < order_.size(); ++i) before[order_[i]] = i;
  std::vector<std::vector<std::size_t>> added(order_.size() + 1);
  const std::set<std::size_t> early(early_.begin(), early_.end());
  for (const std::size_t n : early_) {
    std::size_t& place = before[n];
    for (const ValueId in : graph_.nodes[n].inputs)
      if (const NodeId from = graph_[in].producer; from.present())
        place = std::max(place, before[at(from.index)] + (early.contains(at(from.index)) ? 0 : 1));
    if (graph_.nodes[n].op->moves == Moves::scatter) {
      const auto gathers = [&](std::size_t other) { return graph_.nodes[other].op->moves == Moves::gather; };
      const auto next = std::find_if(order_.begin() + static_cast<std::ptrdiff_t>(place), order_.end(), gathers);
      if (next != order_.end()) place = static_cast<std::size_t>(next - order_.begin()) + 1;
    }
    added[place].push_back(n);
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i <= order_.size(); ++i) {
    order.insert(order.end(), added[i].begin(), added[i].end());
    if (i < order_.size()) order.push_back(order_[i]);
  }
  arrange_nodes(graph_, order);
}

namespace {

// Places all values along one axis of the meshes.
class AxisPlacer {
 public:
  AxisPlacer(Graph& graph, std::size_t axis, const PlacementRequest& request, const ChosenParts& chosen, PutIn& put_in)
      : graph_(graph), axis_(axis), request_(request), chosen_(chosen), transfers_(graph, axis, put_in), now_(graph.values.size()) {}

  std::vector<GatheringNode> run() {
    Sequence sequence(graph_);
    const std::size_t nodes = graph_.nodes.size();
    const std::vector<MeshAxis>& axes = graph_.groups[0].axes;
    if (request_.merged && axis_ < axes.size() && axes[axis_].samples && !axes[axis_].one_has_all()) find_loss(axes[axis_]);
    start();
    for (std::size_t n = 0; n < nodes; ++n)
      if (graph_.nodes[n].op->in_place.empty()) {
        place(n);
        sequence.take(n);
      }
    sequence.take_late();
    place_outputs(sequence);
    for (std::size_t n = 0; n < nodes; ++n)
      if (!graph_.nodes[n].op->in_place.empty()) {
        place(n);
        sequence.take(n);
      }
    if (!alone_.empty() && !merges_)
      fail(ExitCode::usage, option("merge_on"), ": model '", graph_.name,
           "' computes its loss itself: its nodes work where the samples are");
    for (std::size_t i = 0; i < graph_.values.size(); ++i)
      if (Value& v = graph_.values[i]; v.placement.group >= 0 && axis_ < axes_of(v).size()) {
        v.placement.parts.resize(axis_);  // what was put in for this axis is whole along those before, if nothing else was said
        v.placement.parts.push_back(part({static_cast<int>(i)}));
      }
    sequence.finish();
    return std::move(gathering_);
  }

 private:
  const std::vector<MeshAxis>& axes_of(const Value& v) const { return graph_.groups[at(v.placement.group)].axes; }

  void start() {
    for (const GraphOutput& out : graph_.outputs)
      if (out.role == ValueRole::loss && graph_[out].producer.present()) loss_at_ = at(graph_[out].producer.index);
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      Value& v = graph_.values[i];
      const ValueId id{static_cast<int>(i)};
      if (v.kind == ValueKind::activation || v.kind == ValueKind::constant) continue;
      const auto chosen = chosen_.find(id);
      const Part asked = in_form(v, asked_of(v)),
                 wanted = in_proportion(v, asked == Part{} && chosen != chosen_.end() ? chosen->second : asked);
      if (wanted == Part{}) continue;
      if (v.role == ValueRole::step_state) {
        transfers_.set(id, wanted);  // on whichever device reads it
        continue;
      }
      if (v.placement.group < 0) v.placement.group = 0;
      const MeshAxis& mesh = axes_of(v)[axis_];
      transfers_.set_group(v.placement.group);
      if (v.kind == ValueKind::input && !mesh.samples)
        now_[id] = transfers_.transfer(id, wanted, mesh);  // the host gives all of it
      else
        transfers_.set(id, wanted);
    }
  }

  // What was said of a value.
  Part asked_of(const Value& v) const {
    const std::vector<MeshAxis>& axes = graph_.groups[at(std::max(0, v.placement.group))].axes;
    if (axis_ >= axes.size()) return {};
    const bool samples = axes[axis_].samples;
    // its place in the random stream
    if (v.role == ValueRole::step_state) return samples && v.of == step_random ? Part{Spread::own} : Part{};
    const bool of_samples = v.role != ValueRole::gradient || v.depends_on_batch;
    if (is_given_to_loss(v)) return samples && of_samples ? part_by_samples(axes[axis_]) : Part{};
    const bool own = v.role == ValueRole::plain && (v.kind == ValueKind::input || v.kind == ValueKind::parameter);
    const auto asked = own ? request_.values.find(v.name) : request_.values.end();
    return asked == request_.values.end() || axis_ >= asked->second.size() ? Part{} : asked->second[axis_];
  }

  // In parts as near to the mesh axis's proportion as can be.
  Part in_proportion(const Value& v, Part part) const {
    if (!part.is_split()) return part;
    const MeshAxis& mesh = graph_.groups[at(std::max(0, v.placement.group))].axes[axis_];
    const std::int64_t each = v.type.shape[part.axis] / part.outer / parts_beside(v, part);
    const std::vector<double> weights(mesh.sizes.begin(), mesh.sizes.end());
    if (part.sizes.empty() && each % mesh.total() != 0) part.sizes = slice_sizes(each, weights);
    if (!mesh.samples && std::ranges::count(mesh.as(part).sizes, 0) > 0)
      fail(ExitCode::usage, "placement: '", v.name, "' of ", v.type.shape, " is ", to_string(part), " along mesh axis '", mesh.name,
           "', where a device would have nothing of it");
    return part;
  }

  // In how many parts a parameter lies along later mesh axes by the same axis of its own: each of them is split.
  std::int64_t parts_beside(const Value& v, const Part& part) const {
    std::int64_t parts = 1;
    const auto asked = request_.values.find(v.name);
    for (std::size_t a = axis_ + 1; v.kind == ValueKind::parameter && asked != request_.values.end() && a < asked->second.size(); ++a)
      if (const Part other = in_form(v, asked->second[a]); other.is_split() && other.axis == part.axis)
        parts *= axes_of(v)[a].as(other).length();
    return parts;
  }

  Part part(ValueId v) const { return transfers_.part(v); }
  ValueId now(ValueId v) const { return v.present() && at(v.index) < now_.size() && now_[v].present() ? now_[v] : v; }
  static ValueId first_result(const Node& node) {
    return *std::find_if(node.outputs.begin(), node.outputs.end(), [](ValueId v) { return v.present(); });
  }
  int group_of(const Node& node) const { return graph_[first_result(node)].placement.group; }
  const MeshAxis* mesh_of(const Node& node) const {
    const int group = group_of(node);
    return group >= 0 && axis_ < graph_.groups[at(group)].axes.size() ? &graph_.groups[at(group)].axes[axis_] : nullptr;
  }

  // A parameter in parts along the axis of the samples lies so for the optimizer's sake. What else reads it reads it whole: gathered once,
  // or once in either direction.
  ValueId whole_for(std::size_t n, ValueId v) {
    if (!v.present() || graph_[v].kind != ValueKind::parameter || !part(v).is_split() || !graph_.nodes[n].op->in_place.empty()) return v;
    if (!graph_.groups[at(graph_[v].placement.group)].axes[axis_].samples) return v;
    const bool again = request_.gather_again && n > loss_at_;
    ValueId& whole = whole_[{v.index, again}];
    if (!whole.present()) {
      transfers_.set_reader(name_for_people(graph_.nodes[n]),
                            again ? "parameters in parts are read whole, anew in the backward pass" : "parameters in parts are read whole");
      whole = transfers_.gathered(v, again);
    }
    return whole;
  }

  // Where one device computes the loss of the whole batch: the nodes from what the model gives to the loss, and back to its gradient.
  void find_loss(const MeshAxis& mesh) {
    alone_.assign(mesh.sizes.size(), 0);
    alone_[*request_.merged] = 1;
    std::vector<ValueId> open;
    for (const GraphOutput& out : graph_.outputs)
      if (out.role == ValueRole::loss || out.role == ValueRole::metric) open.push_back(out);
    const auto is_models = [&](NodeId n) { return !graph_[n].origin.empty(); };
    while (!open.empty()) {
      const NodeId n = graph_[open.back()].producer;
      open.pop_back();
      if (!n.present() || is_models(n) || !of_loss_.insert(at(n.index)).second) continue;
      for (const ValueId in : graph_[n].inputs)
        if (in.present()) open.push_back(in);
    }
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      for (const ValueId in : graph_.nodes[n].inputs)
        if (in.present() && graph_[in].producer.present() && of_loss_.contains(at(graph_[in].producer.index)) &&
            !is_models({static_cast<int>(n)}))
          of_loss_.insert(n);
  }
  bool is_of_loss(NodeId n) const { return n.present() && of_loss_.contains(at(n.index)); }

  // What the loss reads of the samples goes to the device that computes it, and its gradient to those that have the samples. `v`: as the
  // graph had it, which now is `there`.
  ValueId merged(std::size_t n, ValueId v, ValueId there) {
    if (alone_.empty() || !v.present() || !part(there).is_split()) return there;
    const bool to_loss = of_loss_.contains(n), from_loss = is_of_loss(graph_[v].producer);
    Part to = part(there);
    if (to_loss == from_loss || to.sizes != (from_loss ? alone_ : std::vector<std::int64_t>())) return there;
    to.sizes = to_loss ? alone_ : std::vector<std::int64_t>();
    merges_ = true;
    transfers_.set_reader(name_for_people(graph_.nodes[n]), to_loss ? "one device computes the loss" : "one device has computed the loss");
    return transfers_.transfer(there, to, graph_.groups[at(group_of(graph_.nodes[n]))].axes[axis_]);
  }

  void place(std::size_t n) {
    for (ValueId& in : graph_.nodes[n].inputs) in = merged(n, in, whole_for(n, now(in)));
    const MeshAxis* const mesh = mesh_of(graph_.nodes[n]);
    if (!mesh) return;
    transfers_.set_group(group_of(graph_.nodes[n]));
    take_known_parts(n, *mesh);
    const Operator& op = *graph_.nodes[n].op;
    transfers_.set_reader(name_for_people(graph_.nodes[n]), {}, !op.keeps_statistic);
    if (op.moves == Moves::sum && !transfers_.is_one(graph_.nodes[n].outputs[0])) return sum_as_said(n, *mesh);
    if (op.by_parts && written_by_parts(n, *mesh)) return;
    std::vector<Part> operands;
    for (const ValueId in : graph_.nodes[n].inputs) operands.push_back(in.present() ? part(in) : Part{});
    NodePlacement placed = place_node(graph_, graph_.nodes[n], operands, *mesh);
    if (!op.in_place.empty() && mesh->one_has_all()) update_everywhere(placed);
    transfers_.set_reader(name_for_people(graph_.nodes[n]), placed.reason, !op.keeps_statistic);
    note_gathering(n, operands, placed);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const ValueId in = graph_.nodes[n].inputs[i];
      if (!in.present() || operands[i] == placed.inputs[i]) continue;
      const ValueId moved = transfers_.transfer(in, placed.inputs[i], *mesh);
      graph_.nodes[n].inputs[i] = moved;
    }
    for (std::size_t i = 0; i < placed.outputs.size(); ++i)
      if (const ValueId out = graph_.nodes[n].outputs[i]; out.present()) transfers_.set(out, placed.outputs[i]);
  }

  // What is known and lies in parts is made as these, or cut, where it is read, and so in each group by itself.
  void take_known_parts(std::size_t n, const MeshAxis& mesh) {
    for (std::size_t i = 0; i < graph_.nodes[n].inputs.size(); ++i) {
      const ValueId in = graph_.nodes[n].inputs[i];
      const auto chosen = chosen_.find(in);
      if (chosen == chosen_.end() || graph_[in].kind == ValueKind::parameter || part(in) != Part{}) continue;
      const ValueId own = transfers_.transfer(in, chosen->second, mesh);
      graph_.nodes[n].inputs[i] = own;
    }
  }

  // What is split and needed otherwise is gathered.
  void note_gathering(std::size_t n, const std::vector<Part>& operands, const NodePlacement& placed) {
    const Node& node = graph_.nodes[n];
    GatheringNode gathers{first_result(node), concat(node.op->name, " '", name_for_people(node), "'"), placed.reason};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].is_split() || operands[i] == placed.inputs[i]) continue;
      const Value& value = graph_[node.inputs[i]];
      gathers.bytes += bytes_of(value);
      if (gathers.reason.empty() && value.kind == ValueKind::activation)
        gathers.reason = concat("it needs '", value.name, "' ", to_string(placed.inputs[i]), ", which is ", to_string(operands[i]));
    }
    if (!gathers.reason.empty()) gathering_.push_back(std::move(gathers));
  }

  // By the operator's own rule; true where other nodes now stand for this one.
  bool written_by_parts(std::size_t n, const MeshAxis& mesh) {
    PartsContext c(graph_, graph_.nodes[n], mesh, transfers_);
    c.node.op->by_parts(c);
    for (std::size_t i = 0; i < c.results.size() && i < c.node.outputs.size(); ++i)
      if (c.node.outputs[i].present()) {
        now_[c.node.outputs[i]] = c.results[i];
        transfers_.set(c.node.outputs[i], part(c.results[i]));
      }
    if (c.results.empty()) graph_.nodes[n] = std::move(c.node);
    return !c.results.empty();
  }

  // What one device has all of, and updates are made of, all have to have.
  static void update_everywhere(NodePlacement& placed) {
    for (std::vector<Part>* parts : {&placed.inputs, &placed.outputs})
      for (Part& p : *parts)
        if (p.spread == Spread::own) p = {};
  }

  // A sum that a pass has put in: of addends, and nothing where the value is whole already. It sums along one axis of the mesh: addends
  // along a further one are summed before it.
  void sum_as_said(std::size_t n, const MeshAxis& mesh) {
    for (std::size_t i = 0; i < graph_.nodes[n].inputs.size(); ++i) {
      const ValueId in = graph_.nodes[n].inputs[i], out = graph_.nodes[n].outputs[i];
      const bool sums_already = graph_[in].placement.parts != graph_[out].placement.parts, partial = part(in).spread == Spread::partial;
      transfers_.set(out, partial ? Part{} : part(in));
      if (sums_already && partial) {
        const ValueId whole = transfers_.transfer(in, {}, mesh);
        graph_.nodes[n].inputs[i] = whole;
      }
      if (!sums_already && !partial) now_[out] = in;
    }
  }

  // A gradient is placed as its parameter is, and summed into parts as soon as it is there: none is kept whole. Of the other outputs, what
  // the model gives is no addend.
  void place_outputs(Sequence& sequence) {
    std::map<std::string, ValueId, std::less<>> parameters;
    for (std::size_t i = 0; i < graph_.values.size(); ++i)
      if (const Value& v = graph_.values[i]; v.kind == ValueKind::parameter && v.role == ValueRole::plain)
        parameters.emplace(v.name, ValueId{static_cast<int>(i)});
    for (GraphOutput& out : graph_.outputs) {
      out.value = now(out);
      const int group = graph_[out].placement.group;
      if (group < 0 || axis_ >= graph_.groups[at(group)].axes.size()) continue;
      const MeshAxis& mesh = graph_.groups[at(group)].axes[axis_];
      transfers_.set_group(group);
      const bool gradient = out.role == ValueRole::gradient;
      transfers_.set_reader(out.of.empty() ? graph_[out].name : out.of,
                            gradient ? "a gradient lies as its parameter does" : "it is given whole", !gradient);
      if (gradient) {
        place_gradient(out, part(parameters.at(out.of)), mesh);
        part(out).is_split() ? sequence.take_early() : sequence.take_late();
      } else if ((out.role == ValueRole::loss || out.role == ValueRole::metric) &&
                 (part(out).spread == Spread::own || (graph_[out].depends_on_batch && part(out) == Part{}))) {
        out.value = transfers_.by_share(out, "loss/share");  // the host adds what the devices give
      } else if (out.role == ValueRole::plain || out.role == ValueRole::measure) {
        const auto asked = request_.values.find(graph_[out].name);
        const bool said = asked != request_.values.end() && axis_ < asked->second.size();
        const bool as_it_is = mesh.samples && part(out).spread != Spread::partial;
        const Part wanted = said ? asked->second[axis_] : as_it_is ? part(out) : Part{};
        if (part(out) != wanted) out.value = transfers_.transfer(out, wanted, mesh);
      }
      sequence.take_late();
    }
  }

  void place_gradient(GraphOutput& out, Part wanted, const MeshAxis& mesh) {
    if (part(out) == wanted) return;
    if (part(out).spread == Spread::own && mesh.one_has_all()) out.value = transfers_.by_share(out, concat("gradient/", out.of));
    const bool partial = part(out).spread == Spread::partial;
    if (partial) graph_[out].of = out.of;  // known also where nothing comes of it: a device without the parameter
    out.value = partial && !wanted.is_split() ? transfers_.sum(out, out.of) : transfers_.transfer(out, wanted, mesh);
    check_order(out, wanted);
    if (!partial) return;
    graph_[out].role = out.role;
    graph_[out].of = out.of;
  }

  // Replicas share out the parts of layers: what they share out of the whole has no such parts.
  void check_order(const GraphOutput& gradient, Part wanted) const {
    const Value& v = graph_[gradient];
    if (!v.producer.present() || graph_[v.producer].op->moves != Moves::part) return;
    for (const Part& earlier : v.placement.parts)
      if (earlier.is_split() && earlier.axis == wanted.axis)
        fail(ExitCode::usage, "placement: '", gradient.of, "' is to be ", to_string(wanted), " along mesh axis '",
             axes_of(v)[axis_].name, "', where its gradient is computed whole, and is split by the same axis along another");
  }

  Graph& graph_;
  const std::size_t axis_;
  const PlacementRequest& request_;
  const ChosenParts& chosen_;
  Transfers transfers_;
  IdVector<ValueId, ValueId> now_;         // what stands for a value
  std::size_t loss_at_ = 0;                // the node whose result is the loss: the backward pass comes after it
  // With the loss on one device: all of an axis on that one, the nodes of the loss and its gradient, whether something goes there.
  std::vector<std::int64_t> alone_;
  std::set<std::size_t> of_loss_;
  bool merges_ = false;
  std::map<std::pair<int, bool>, ValueId> whole_;
  std::vector<GatheringNode> gathering_;
};

}  // namespace

std::vector<GatheringNode> place_along(Graph& graph, std::size_t axis, const PlacementRequest& request, const ChosenParts& chosen,
                                       PutIn& put_in) {
  return AxisPlacer(graph, axis, request, chosen, put_in).run();
}

}  // namespace tandem
