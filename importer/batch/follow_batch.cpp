// Goes forward through the graph with the operators' rules. Where a view leaves several readings the likeliest is tried first and the
// others are remembered; a failure takes back the nearest reading that it depends on, and goes on behind it.
#include "importer/batch/follow_batch.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "graph/follow.h"
#include "graph/operator.h"
#include "importer/message/value_tests.h"

namespace tandem {
namespace {

constexpr int most_sources = 64;    // that are tried for one operand
constexpr int most_met = 3;       // copies looked for on the way from others
constexpr int chain_shown = 12;     // nodes of the way that a message shows
constexpr std::int64_t most_work = 2'000'000;  // nodes visited until the search is given up

class Follower {
 public:
  Follower(const Graph& graph, std::int64_t batch)
      : graph_(graph), batch_(batch), choices_(graph.nodes.size()), read_(needed_nodes(graph)) {}

  // With `leading`, an output whose axis 0 is as long as the batch must hold the samples there.
  bool run(bool leading) {
    found_ = {};
    restart();
    work_ = 0;
    at_outputs_ = false;
    for (int n = 0; n <= nodes();) {
      const NodeId node{n};
      NodeId from = node;  // whose operands led here
      try {
        if (n == nodes()) {
          from = leading ? check_outputs() : NodeId{};
          at_outputs_ = at_outputs_ || from.present();
          if (from.present()) fail("an output does not hold its samples along axis 0");
          found_.reason.clear();
          return true;
        } else {
          if (read_[at(n)]) step(node);
          ++n;
          if (std::exchange(adopted_, false)) {
            restart();
            n = 0;
          }
          continue;
        }
      } catch (const Error& error) {
        remember(from, error.what());
      }
      if (work_ > most_work || !back(from, n)) return false;
    }
    return true;
  }

  bool reached_outputs() const { return at_outputs_; }  // but some output did not hold its samples along axis 0
  FollowedBatch take() { return std::move(found_); }

 private:
  struct Choice {
    int taken = 0, readings = 1;
    std::set<int> conflicts;  // earlier choices that made its other readings fail
  };

  int nodes() const { return static_cast<int>(graph_.nodes.size()); }
  BatchPlace& place(ValueId v) { return found_.places[at(v.index)]; }

  void restart() {
    found_.places.assign(graph_.values.size(), {});
    found_.repeats.clear();
    for (Choice& c : choices_) c = {};
    for (const ValueId in : graph_.inputs)
      if (graph_[in].depends_on_batch) place(in) = {.axis = 0};
    for (const auto& [value, copied] : found_.copies) place(value) = copied;
  }

  // The places of a node's outputs from those of its operands.
  void step(NodeId id) {
    const Node& node = graph_[id];
    ++work_;
    found_.repeats.erase(id);
    bool holds = false, mixed = false;
    for (const ValueId in : node.inputs) {
      if (!in.present()) continue;
      holds = holds || place(in).present();
      mixed = mixed || place(in).mixed;
    }
    if (!holds) {
      for (const ValueId out : node.outputs)
        if (out.present() && !found_.copies.contains(out)) place(out) = {.mixed = mixed};
      return;
    }
    if (mixed) fail("it joins what is computed from all samples with single ones: samples would meet");
    const auto rule = node.op->follow ? node.op->follow : node.op->elementwise ? follow_broadcast : nullptr;
    if (!rule) fail("how samples pass through ", node.op->name, " is not known");
    std::vector<BatchPlace> operands;
    for (const ValueId in : node.inputs)
      operands.push_back(in.present() ? found_.places[static_cast<std::size_t>(in.index)] : BatchPlace{});
    FollowContext context(graph_, node, std::move(operands), batch_);
    rule(context);
    for (const FollowContext::Repeat& r : context.repeats()) repeat(id, r.input, r.place);
    if (batch_ == 1 && rule == follow_broadcast) draw_for_one(node, context.results()[0]);
    Choice& choice = choices_[at(id.index)];
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].present()) continue;
      const std::vector<BatchPlace>& readings = context.results()[i];
      if (i == 0) choice.readings = std::max(1, static_cast<int>(readings.size()));
      const BatchPlace holds_now = readings.empty() ? BatchPlace{} : readings[i == 0 ? at(choice.taken) : 0];
      const Shape& y = graph_[node.outputs[i]].type.shape;
      if (holds_now.present() && (holds_now.axis >= y.rank() || y[holds_now.axis] % (holds_now.outer * batch_) != 0))
        fail("its output ", i, ' ', y, " has no part for each of ", batch_, " samples");
      place(node.outputs[i]) = holds_now;
    }
  }

  // An operand without samples is to hold its part once for each of them.
  void repeat(NodeId node, int input, const BatchPlace& wanted) {
    const ValueId v = graph_[node].inputs[at(input)];
    const Value& value = graph_[v];
    const std::int64_t dim = value.type.shape[wanted.axis];
    if (dim % (wanted.outer * batch_) != 0)
      fail("'", value.name, "' ", value.type.shape, " has no part for each of ", batch_, " samples along axis ", wanted.axis);
    const bool copies = (batch_ == 1 && !drawn(v)) || (value.kind == ValueKind::constant && holds_copies(*value.data, wanted, batch_));
    if (!copies && value.kind == ValueKind::constant)
      fail("the constant '", value.name, "' ", value.type.shape, " is different for each of the file's ", batch_, " samples");
    if (!copies) return adopt(v, wanted);
    found_.repeats[node].push_back({input, wanted});
  }

  // Each sample draws its own numbers, whichever axis the samples turn out to lie along.
  static bool is_random(const Node& node) { return node.op->name.starts_with("Random"); }
  // Whether `v` is computed from random numbers of which it is not known that they are drawn for each sample.
  bool drawn(ValueId v) {
    if (std::none_of(graph_.nodes.begin(), graph_.nodes.end(), is_random)) return false;
    for (const int n : ancestors(v))
      if (is_random(graph_.nodes[at(n)]) && !found_.copies.contains(graph_.nodes[at(n)].outputs[0])) return true;
    return false;
  }

  // Of a single sample nothing tells numbers that it draws for itself from such that all samples share. They are its own where
  // they lie along its axis, as they are at any other batch.
  void draw_for_one(const Node& node, const std::vector<BatchPlace>& result) {
    if (result.empty() || !result[0].present()) return;
    for (const ValueId v : node.inputs) {
      const int axis = result[0].axis - (graph_[node.outputs[0]].type.shape.rank() - graph_[v].type.shape.rank());
      if (axis < 0 || place(v).present() || !drawn(v)) continue;
      try {
        adopt(v, {.axis = axis});
      } catch (const Error&) {  // they lie along none of its axes: shared
      }
    }
  }

  // `v` is computed from something that holds the same for every sample of the file's batch: finds it.
  void adopt(ValueId v, const BatchPlace& wanted) {
    if (adopted_) return;  // another operand's, and perhaps this one's too: all is followed anew
    const std::vector<int> way = ancestors(v);
    std::vector<ValueId> sources;
    const auto add = [&](ValueId s) {
      if (s.present() && !found_.copies.contains(s) && std::find(sources.begin(), sources.end(), s) == sources.end()) sources.push_back(s);
    };
    add(v);
    for (auto n = way.rbegin(); n != way.rend(); ++n) {
      for (const ValueId in : graph_.nodes[at(*n)].inputs) add(in);
      if (static_cast<int>(sources.size()) > most_sources) break;
    }
    for (const ValueId s : sources) {
      const Shape& shape = graph_[s].type.shape;
      for (int axis = 0; axis < shape.rank(); ++axis)
        for (const std::int64_t outer : std::set{std::int64_t{1}, wanted.outer}) {
          if (!copied_along(s, {.axis = axis, .outer = outer}) || !leads_to(s, {.axis = axis, .outer = outer}, way, v, wanted)) continue;
          adopted_ = true;
          return;
        }
    }
    fail("'", graph_[v].name, "' ", graph_[v].type.shape, " may be different for each of the file's ", batch_, " samples");
  }

  // Whether the value holds the same for every sample along an axis: because it was repeated along it, or by its numbers.
  bool copied_along(ValueId v, const BatchPlace& place) const {
    const Value& value = graph_[v];
    const int axis = place.axis;
    const std::int64_t length = value.type.shape[axis];
    if (value.kind == ValueKind::input) return false;
    // every sample's part, perhaps of more
    if (value.kind != ValueKind::activation && value.data && !(value.trainable && all_alike(*value.data)))
      return length > 0 && length % (place.outer * batch_) == 0 && holds_copies(*value.data, place, batch_);
    if (value.kind != ValueKind::activation && place.outer != 1) return false;
    if (value.kind != ValueKind::activation) return length == batch_ && (!value.data || holds_copies(*value.data, place, batch_));
    const Node& node = graph_[value.producer];
    if (is_random(node)) return place.outer == 1;
    if (node.op->name != "Expand" && node.op->name != "Tile") return false;
    const Shape& x = graph_[node.inputs[0]].type.shape;
    const int own = axis - (value.type.shape.rank() - x.rank());
    const std::int64_t repeated = own < 0 ? 1 : x[own];  // a Tile repeats several elements, too, one behind the other
    if (repeated == 1) return length > 0 && length % (place.outer * batch_) == 0;  // several for each sample: of frames, say
    return node.op->name == "Tile" && place.outer == 1 && length == batch_ * repeated;
  }

  // Whether samples that lie so in `source` lie as wanted in `v`. What meets them on the way may be copies, too, and is adopted with it.
  bool leads_to(ValueId source, const BatchPlace& start, const std::vector<int>& way, ValueId v, const BatchPlace& wanted) {
    FollowedBatch before = found_;
    const bool adopted = std::exchange(adopted_, false);  // by an operand before this one
    bool led = false;
    ++depth_;
    try {
      if (depth_ > most_met) fail("too many copies meet");
      found_.copies[source] = start;
      do {
        adopted_ = false;
        for (const auto& [copy, copied] : found_.copies) place(copy) = copied;
        for (const int n : way) step({n});
      } while (adopted_ && found_.copies.size() <= before.copies.size() + most_sources);
      led = place(v) == wanted && !adopted_;
    } catch (const Error&) {
    }
    --depth_;
    if (led) before.copies = std::move(found_.copies);
    found_ = std::move(before);
    adopted_ = adopted;
    return led;
  }

  std::vector<int> ancestors(ValueId v) {
    std::set<int> found;
    std::vector<ValueId> open{v};
    while (!open.empty()) {
      const ValueId next = open.back();
      open.pop_back();
      if (!next.present() || !graph_[next].producer.present() || !found.insert(graph_[next].producer.index).second) continue;
      const std::vector<ValueId>& in = graph_[graph_[next].producer].inputs;
      open.insert(open.end(), in.begin(), in.end());
    }
    work_ += static_cast<std::int64_t>(found.size());
    return {found.begin(), found.end()};
  }

  // The node of an output that has as many rows as the batch has samples, but not one row each.
  NodeId check_outputs() {
    for (const ValueId out : graph_.outputs) {
      const Shape& shape = graph_[out].type.shape;
      const BatchPlace p = place(out);
      if (p.present() && shape.rank() > 0 && shape[0] == batch_ && !p.leading(shape[0], batch_)) return graph_[out].producer;
    }
    return {};
  }

  // The failure that came furthest tells most.
  void remember(NodeId node, const std::string& reason) {
    if (!found_.reason.empty() && node <= found_.node) return;
    found_.node = node;
    found_.reason = concat(reason, way_to(node));
  }

  // Takes the nearest reading back that `from` depends on, and goes on behind it. False where none is left.
  bool back(NodeId from, int& n) {
    std::set<int> conflicts;
    for (const int a : ancestors_of_node(from))
      if (choices_[at(a)].readings > 1) conflicts.insert(a);
    while (!conflicts.empty()) {
      const int last = *conflicts.rbegin();
      conflicts.erase(last);
      Choice& choice = choices_[at(last)];
      choice.conflicts.insert(conflicts.begin(), conflicts.end());
      if (choice.taken + 1 < choice.readings) {
        ++choice.taken;
        for (int later = last + 1; later < nodes(); ++later) choices_[at(later)] = {};
        n = last;
        return true;
      }
      conflicts = choice.conflicts;
    }
    return false;
  }

  std::vector<int> ancestors_of_node(NodeId id) {
    std::set<int> all;
    for (const ValueId in : graph_[id].inputs)
      for (const int a : ancestors(in)) all.insert(a);
    return {all.begin(), all.end()};
  }

  // "; the samples come from input 'x' [2,10] by Transpose 't' [10,2], ..."
  std::string way_to(NodeId id) {
    std::vector<std::string> steps;
    ValueId v;
    const auto holder = [&](const Node& node) {
      for (const ValueId in : node.inputs)
        if (in.present() && (place(in).present() || place(in).mixed)) return in;
      return ValueId{};
    };
    for (v = holder(graph_[id]); v.present() && graph_[v].producer.present(); v = holder(graph_[graph_[v].producer]))
      steps.push_back(concat(graph_[graph_[v].producer].op->name, " '", graph_[graph_[v].producer].name, "' ", graph_[v].type.shape));
    std::string text = v.present() ? concat("; its samples come from '", graph_[v].name, "' ", graph_[v].type.shape) : std::string();
    const int skipped = static_cast<int>(steps.size()) - chain_shown;
    for (int i = static_cast<int>(steps.size()) - 1; i >= 0; --i) {
      if (skipped > 0 && i == static_cast<int>(steps.size()) - chain_shown / 2 - 1) {
        text += concat(", ", skipped, " nodes more");
        i -= skipped;
      }
      text += concat(text.empty() ? "; " : ", ", steps[at(i)]);
    }
    return text;
  }

  const Graph& graph_;
  std::int64_t batch_;
  std::vector<Choice> choices_;  // by node
  std::vector<bool> read_;       // by node: an output of the graph is computed from it
  FollowedBatch found_;
  std::int64_t work_ = 0;
  bool adopted_ = false;     // a copy was found: all is followed anew
  int depth_ = 0;            // of copies that are looked for on the way from others
  bool at_outputs_ = false;
};

}  // namespace

bool holds_copies(const Tensor& tensor, const BatchPlace& place, std::int64_t batch) {
  const Shape& shape = tensor.shape();
  std::int64_t before = place.outer;
  for (int i = 0; i < place.axis; ++i) before *= shape[i];
  const auto bytes = tensor.bytes();
  const std::size_t part = before == 0 || batch == 0 ? 0 : bytes.size() / static_cast<std::size_t>(before * batch);
  if (part == 0) return true;
  for (std::size_t outside = 0; outside < bytes.size(); outside += part * static_cast<std::size_t>(batch))
    for (std::int64_t s = 1; s < batch; ++s)
      if (std::memcmp(bytes.data() + outside, bytes.data() + outside + part * static_cast<std::size_t>(s), part) != 0) return false;
  return true;
}

FollowedBatch follow_batch(const Graph& graph, std::int64_t batch) {
  Follower follower(graph, batch);
  if (!follower.run(true) && follower.reached_outputs()) follower.run(false);
  return follower.take();
}

}  // namespace tandem
