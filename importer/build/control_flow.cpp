// If, Loop and Scan: a graph has no branches and no loops. Where a condition is known the branch that it takes stands in the If's place,
// where it is not both are computed and Where chooses. A Loop or Scan becomes its iterations, one behind the other, each with symbols of
// its own; their number must be known, or at least the most there can be: then iterations behind the end change nothing. Where the model
// does not say how many those are, ImportOptions::max_loop_iterations does, and results of loops that would go on beyond it are not
// numbers.
#include <algorithm>
#include <limits>

#include "base/option.h"
#include "importer/build/builder.h"
#include "importer/build/loop_state.h"
#include "importer/message/limits.h"

namespace tandem {

const Tensor* Builder::known(Symbol s) {
  if (!s.present() || !value(s).present()) return nullptr;
  const Value& v = graph()[value(s)];
  return v.kind == ValueKind::constant ? &*v.data : nullptr;
}

bool Builder::built(Symbol s) { return value(s).present() || lists_.contains(s.index); }

const FlatBody& Builder::body_of(const FlatNode& node, std::string_view attribute) {
  const auto body = std::find_if(node.bodies.begin(), node.bodies.end(), [&](const FlatBody& b) { return b.attribute == attribute; });
  if (body == node.bodies.end()) fail("it has no ", attribute);
  return *body;
}

Symbol Builder::new_symbol(std::string name, Symbol original, std::string iteration) {
  made_.push_back({std::move(name), original, std::move(iteration)});
  values_.emplace_back();
  return {static_cast<int>(values_.size()) - 1};
}

FlatBody Builder::instantiate(const FlatBody& body, const std::string& iteration) {
  std::map<int, Symbol> now;
  return instantiate(body, iteration, now);
}

// Values that the body makes get new symbols; constants that it holds are held once.
FlatBody Builder::instantiate(const FlatBody& body, const std::string& iteration, std::map<int, Symbol>& now) {
  const auto define = [&](Symbol s) {
    if (!s.present()) return s;
    return now[s.index] =
               new_symbol(name(s) + iteration, is_made(s) ? made(s).original : s, (is_made(s) ? made(s).iteration : "") + iteration);
  };
  const auto look_up = [&](Symbol s) {
    const auto found = s.present() ? now.find(s.index) : now.end();
    return found == now.end() ? s : found->second;
  };
  FlatBody copy{.attribute = body.attribute, .vectors = body.vectors, .initializers = body.initializers};
  for (const Symbol in : body.inputs) copy.inputs.push_back(define(in));
  for (const FlatNode& node : body.nodes) {
    FlatNode made = node;
    made.iteration += iteration;
    made.name += iteration;
    for (Symbol& in : made.inputs) in = look_up(in);
    for (FlatBody& inner : made.bodies) inner = instantiate(inner, iteration, now);
    for (Symbol& out : made.outputs) out = define(out);
    copy.nodes.push_back(std::move(made));
  }
  for (const Symbol out : body.outputs) copy.outputs.push_back(look_up(out));
  return copy;
}

namespace {

// What one more iteration copies: bodies in the body, too, whether they will be taken or not.
std::int64_t copied_nodes(const FlatBody& body) {
  std::int64_t nodes = std::ssize(body.nodes);
  for (const FlatNode& node : body.nodes)
    for (const FlatBody& inner : node.bodies) nodes += copied_nodes(inner);
  return nodes;
}

}  // namespace

void Builder::count_iteration(const FlatBody& body) {
  unrolled_ += 1 + std::ssize(body.nodes);
  if (unrolled_ > limits::unrolled_nodes)
    fail("the iterations of the model's loops hold more than ", limits::unrolled_nodes,
         " nodes, one behind the other; loops are unrolled when the plan is made");
  copied_ += copied_nodes(body);
  if (copied_ > limits::copied_nodes)
    fail("the iterations of the model's loops copy more than ", limits::copied_nodes,
         " nodes, with those of branches in them; loops are unrolled when the plan is made");
}

void Builder::hand(Symbol from, Symbol to) {
  if (!from.present() || !to.present()) return;
  value(to) = value(from);
  if (const auto found = lists_.find(from.index); found != lists_.end()) lists_[to.index] = List(found->second);
}

void Builder::hand_out(Symbol from, Symbol to, std::span<const Symbol> made) {
  hand(from, to);
  if (!from.present() || !to.present() || !value(to).present()) return;
  if (std::find(made.begin(), made.end(), from) != made.end()) rename(value(to), to);
}

std::vector<Symbol> Builder::made_by(const FlatBody& body) {
  std::vector<Symbol> made;
  for (const FlatNode& inner : body.nodes) made.insert(made.end(), inner.outputs.begin(), inner.outputs.end());
  return made;
}

Symbol Builder::emit(const FlatNode& of, std::string_view op, std::vector<Symbol> operands, Attributes attributes,
                     std::string_view suffix) {
  FlatNode node;
  node.id = of.id;
  node.iteration = concat(of.iteration, '/', suffix);
  node.name = concat(of.name, '/', suffix);
  node.op = op;
  node.opset = limits::newest_opset;
  node.attributes = std::move(attributes);
  node.inputs = std::move(operands);
  const Symbol out = new_symbol(node.name, {}, concat(of.id, node.iteration));
  node.outputs = {out};
  attempt(node);
  return out;
}

Symbol Builder::constant(const FlatNode& of, Tensor tensor, std::string_view suffix) {
  const Symbol s = new_symbol(concat(of.name, '/', suffix), {}, concat(of.id, of.iteration, '/', suffix));
  value(s) = graph().add_constant(name(s), std::move(tensor));
  return s;
}

// The tensors side by side along a new axis.
Symbol Builder::stacked(const FlatNode& of, const List& iterations, std::int64_t axis, std::string_view suffix) {
  if (axis == 0)
    if (const Symbol whole = joined(of, iterations, true, std::string(suffix)); whole.present()) return whole;
  const Symbol axes = constant(of, Tensor::of<std::int64_t>(Shape{1}, Ints{axis}), concat(suffix, "/axis"));
  List parts;
  for (std::size_t i = 0; i < iterations.size(); ++i)
    parts.push_back(emit(of, "Unsqueeze", {iterations[i], axes}, {}, concat(suffix, '#', i)));
  return emit(of, "Concat", std::move(parts), {{"axis", axis}}, suffix);
}

// One element, of this type where it is computed from data.
void Builder::expect_one(Symbol s, DType dtype, std::string_view what) {
  if (!value(s).present()) fail(what, " is a list of tensors");
  const TensorType& type = graph()[value(s)].type;
  if (type.shape.elements() != 1 || (type.dtype != dtype && !known(s))) fail(what, " is ", type, ", expected one element of ", dtype);
}

void Builder::choose(const FlatNode& node) {
  const Symbol in = node.inputs.at(0);
  if (!in.present()) fail("its condition is missing");
  if (!built(in)) return;
  expect_one(in, DType::boolean, "its condition");
  const Tensor* condition = known(in);
  if (!condition) return both_branches(node);
  const FlatBody& body = body_of(node, condition->to_int64s()[0] ? "then_branch" : "else_branch");
  if (body.outputs.size() < node.outputs.size())
    fail("its ", body.attribute, " gives ", body.outputs.size(), " outputs, expected ", node.outputs.size());
  run(body);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) hand_out(body.outputs[i], node.outputs[i], made_by(body));
}

void Builder::both_branches(const FlatNode& node) {
  const FlatBody &taken = body_of(node, "then_branch"), &other = body_of(node, "else_branch");
  if (std::min(taken.outputs.size(), other.outputs.size()) < node.outputs.size())
    fail("its branches give ", taken.outputs.size(), " and ", other.outputs.size(), " outputs, expected ", node.outputs.size());
  const std::size_t problems = built_.problems.size();
  run(taken);
  run(other);
  if (built_.problems.size() > problems) return;
  const Symbol none = constant(node, Tensor::of<std::int64_t>(Shape{0}, Ints{}), "scalar");
  const Symbol condition = emit(node, "Reshape", {node.inputs[0], none}, {}, "condition");
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].present()) continue;
    const Symbol a = taken.outputs[i], b = other.outputs[i];
    if (!a.present() || !b.present() || !value(a).present() || !value(b).present())
      return problem(node, "its condition is computed from data, and its branches give lists of tensors");
    const TensorType of_taken = graph()[value(a)].type, of_other = graph()[value(b)].type;
    if (!(of_taken == of_other))
      return problem(node, concat("its condition is computed from data, and its branches give ", of_taken, " and ", of_other,
                                  "; only branches that give the same type and shape can both be computed"));
    const Symbol chosen = emit(node, "Where", {condition, a, b}, {}, concat("chosen#", i));
    hand_out(chosen, node.outputs[i], std::span(&chosen, 1));
  }
  graph().warnings.push_back(concat("If '", node.name, "': its condition is computed from data, so both of its branches are computed"));
}

bool Builder::iteration(const FlatNode& node, const FlatBody& body, LoopState& state) {
  const std::size_t problems = built_.problems.size();
  run(body);
  if (built_.problems.size() > problems) return false;
  const std::size_t first = node.op == "Loop" ? 1 : 0, carried = state.carried.size();
  for (std::size_t i = 0; i < carried; ++i) {
    Symbol now = body.outputs[first + i];
    if (state.active.present()) {
      const Symbol before = state.carried[i];
      if (!now.present() || !before.present() || !value(now).present() || !value(before).present())
        fail("its end is computed from data, and it carries a list of tensors");
      if (!(graph()[value(now)].type == graph()[value(before)].type))
        fail("its end is computed from data, and what it carries changes from ", graph()[value(before)].type, " to ",
             graph()[value(now)].type);
      if (now != before) now = emit(node, "Where", {state.active, now, before}, {}, concat("carried", i, "#", name(now)));
    }
    state.carried[i] = now;
  }
  for (std::size_t i = 0; i < state.gathered.size(); ++i) state.gathered[i].push_back(body.outputs[first + carried + i]);
  return true;
}

// What fails within an iteration has become a problem of the node inside; nothing that was built may go with an error of the loop's own.
void Builder::loop(const FlatNode& node) {
  try {
    unroll(node);
  } catch (const Error& error) {
    problem(node, error.what());
  }
}

void Builder::unroll(const FlatNode& node) {
  if (node.op == "Scan") return scan(node);
  const FlatBody& body = body_of(node, "body");
  for (const Symbol in : node.inputs)
    if (in.present() && !built(in)) return;
  LoopState state = loop_state(node, body);
  LoopEnd end = loop_end(node);
  std::int64_t number = 0;
  for (; goes_on(node, number, end, state); ++number) {
    count_iteration(body);
    const FlatBody now = instantiate(body, concat('#', number));
    const auto given = [&](std::size_t i, auto known_value) {  // as declared: TorchScript's exporter writes [1], and nodes that want a list
      value(now.inputs[i]) = graph().add_constant(name(now.inputs[i]), Tensor::of(now.vectors[i] ? Shape{1} : Shape{}, {known_value}));
    };
    given(0, number);
    given(1, true);
    for (std::size_t i = 0; i < state.carried.size(); ++i) hand(state.carried[i], now.inputs[2 + i]);
    if (!iteration(node, now, state)) return;
    end.condition = now.outputs[0];
    if (!end.condition.present() || !value(end.condition).present()) fail("its body gives no condition");
  }
  if (end.capped) mark_unfinished(node, state);
  if (state.active.present()) warn_of_open_end(node, number, end.capped);
  finish(node, state, std::vector<std::int64_t>(state.gathered.size()), std::vector<std::int64_t>(state.gathered.size()));
}

Builder::LoopState Builder::loop_state(const FlatNode& node, const FlatBody& body) {
  LoopState state;
  for (std::size_t i = 2; i < node.inputs.size(); ++i) state.carried.push_back(node.inputs[i]);
  const std::size_t carried = state.carried.size();
  if (body.inputs.size() != 2 + carried) fail("its body takes ", body.inputs.size(), " inputs, expected ", 2 + carried);
  if (body.outputs.size() < 1 + carried || body.outputs.size() < 1 + node.outputs.size())
    fail("its body gives ", body.outputs.size(), " outputs, expected ", 1 + std::max(carried, node.outputs.size()));
  state.gathered.resize(body.outputs.size() - 1 - carried);
  return state;
}

Builder::LoopEnd Builder::loop_end(const FlatNode& node) {
  const Symbol most = node.inputs.at(0);
  LoopEnd end{.condition = node.inputs.size() > 1 ? node.inputs[1] : Symbol{}};
  if (!most.present() && !end.condition.present()) fail("it has neither a number of iterations nor a condition: it never ends");
  if (!most.present()) return end;
  expect_one(most, DType::int64, "its number of iterations");
  if (const Tensor* count = known(most)) {
    end.limit = std::max<std::int64_t>(0, count->to_int64s()[0]);
    return end;
  }
  if (options_.max_loop_iterations <= 0)
    fail("its number of iterations is computed from data: ", option("max_loop_iterations"), " says how many are planned at most");
  end.iterations_left = scalar(node, most, -1);
  return end;
}

Symbol Builder::scalar(const FlatNode& of, Symbol s, std::int64_t iteration) {
  const Symbol none = constant(of, Tensor::of<std::int64_t>(Shape{0}, Ints{}), concat("scalar#", iteration));
  return emit(of, "Reshape", {s, none}, {}, concat("end#", iteration));
}

// A count or a condition that is computed from data narrows `active`; one that is known ends the loop.
bool Builder::goes_on(const FlatNode& node, std::int64_t number, LoopEnd& end, LoopState& state) {
  if (end.limit >= 0 && number >= end.limit) return false;
  const std::int64_t most = options_.max_loop_iterations;
  const bool capped = state.active.present() && most > 0 && number >= most;
  const auto narrow = [&](Symbol now) {
    state.active = state.active.present() ? emit(node, "And", {state.active, now}, {}, concat("active#", number)) : now;
  };
  if (end.iterations_left.present()) {
    const Symbol at = constant(node, Tensor::scalar(number), concat("iteration#", number));
    narrow(emit(node, "Less", {at, end.iterations_left}, {}, concat("counted#", number)));
  }
  if (end.condition.present()) {
    expect_one(end.condition, DType::boolean, "its condition");
    if (const Tensor* c = known(end.condition)) {
      if (!c->to_int64s()[0]) return false;
    } else {
      if (most <= 0 && (end.limit < 0 || end.limit > limits::unrolled_nodes))
        fail("its condition is computed from data, and it ",
             end.limit < 0 ? "has no number of iterations: " : concat("may take ", end.limit, " iterations: "), option("max_loop_iterations"),
             " says how many are planned at most");
      narrow(scalar(node, end.condition, number));
    }
  }
  end.capped = capped;
  return !capped;
}

void Builder::warn_of_open_end(const FlatNode& node, std::int64_t iterations, bool capped) {
  const std::string computed =
      capped ? concat(iterations, " iterations are computed (", option("max_loop_iterations"),
                      "); those behind the end change nothing, and where there would be more its results are not numbers")
             : concat("all of its ", iterations, " iterations are computed; those behind the end change nothing");
  graph().warnings.push_back(concat("Loop '", node.name, "': its end is computed from data, so ", computed));
}

// Behind the last iteration that is planned `active` says that there is another.
void Builder::mark_unfinished(const FlatNode& node, LoopState& state) {
  bool marked = false;
  for (std::size_t i = 0; i < state.carried.size(); ++i) {
    Symbol& carried = state.carried[i];
    if (!carried.present() || !value(carried).present()) continue;
    const DType dtype = graph()[value(carried)].type.dtype;
    if (!is_float(dtype)) continue;
    const Symbol none = emit(node, "Cast", {constant(node, Tensor::scalar(std::numeric_limits<float>::quiet_NaN()), concat("nan#", i))},
                             {{"to", static_cast<std::int64_t>(dtype)}}, concat("unfinished#", i));
    carried = emit(node, "Where", {state.active, none, carried}, {}, concat("finished#", i));
    marked = true;
  }
  if (!marked) fail("its end is computed from data, and none of what it carries could show that its iterations were too few");
}

void Builder::scan(const FlatNode& node) {
  if (node.opset < 9) return scan_samples(node);
  const FlatBody& body = body_of(node, "body");
  for (const Symbol in : node.inputs) {
    if (in.present() && !built(in)) return;
    if (!in.present() || !value(in).present()) fail("one of its inputs is missing, or a list of tensors");
  }
  const auto scanned = static_cast<std::size_t>(std::max<std::int64_t>(0, node.attributes.integer("num_scan_inputs")));
  if (scanned < 1 || scanned > node.inputs.size()) fail("num_scan_inputs is ", scanned, ", expected 1 to ", node.inputs.size());
  const std::size_t carried = node.inputs.size() - scanned;
  LoopState state{.carried = {node.inputs.begin(), node.inputs.begin() + static_cast<std::ptrdiff_t>(carried)}};
  if (body.inputs.size() != node.inputs.size()) fail("its body takes ", body.inputs.size(), " inputs, expected ", node.inputs.size());
  if (body.outputs.size() < std::max(carried, node.outputs.size()))
    fail("its body gives ", body.outputs.size(), " outputs, expected ", std::max(carried, node.outputs.size()));
  state.gathered.resize(body.outputs.size() - carried);
  const auto listed = [&](const char* attribute, std::size_t entries) {
    const Ints given = node.attributes.ints(attribute, {});
    if (!given.empty() && given.size() != entries) fail(attribute, " has ", given.size(), " entries, expected ", entries);
    return given.empty() ? Ints(entries, 0) : given;
  };
  const Ints axes = listed("scan_input_axes", scanned), reversed = listed("scan_input_directions", scanned);
  const Ints out_axes = listed("scan_output_axes", state.gathered.size()),
             out_reversed = listed("scan_output_directions", state.gathered.size());
  std::int64_t length = -1;
  std::vector<List> parts(scanned);
  for (std::size_t i = 0; i < scanned; ++i) {
    const Symbol in = node.inputs[carried + i];
    const Shape shape = graph()[value(in)].type.shape;
    const std::int64_t axis = normalize_axis(axes[i], shape.rank(), "scan_input_axes");
    const std::int64_t own_length = shape[static_cast<int>(axis)];
    if (length >= 0 && own_length != length) fail("its inputs are scanned over ", length, " and ", own_length, " iterations");
    length = own_length;
    if (length > limits::unrolled_nodes) fail("it takes ", length, " iterations, expected at most ", limits::unrolled_nodes);
    parts[i] = split(node, in, axis, Ints(static_cast<std::size_t>(length), 1), false, concat("scanned", i));
    if (reversed[i]) std::reverse(parts[i].begin(), parts[i].end());
  }
  for (std::int64_t t = 0; t < length; ++t) {
    count_iteration(body);
    const FlatBody now = instantiate(body, concat('#', t));
    for (std::size_t i = 0; i < carried; ++i) hand(state.carried[i], now.inputs[i]);
    for (std::size_t i = 0; i < scanned; ++i) hand(parts[i][static_cast<std::size_t>(t)], now.inputs[carried + i]);
    if (!iteration(node, now, state)) return;
  }
  finish(node, state, out_axes, out_reversed);
}

void Builder::finish(const FlatNode& node, LoopState& state, const Ints& axes, const Ints& reversed) {
  const std::size_t carried = state.carried.size();
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].present()) continue;
    if (i < carried) {
      hand(state.carried[i], node.outputs[i]);
      if (const Symbol from = state.carried[i]; from.present() && value(from).present() && is_made(from))
        rename(value(from), node.outputs[i]);
      continue;
    }
    List& parts = state.gathered[i - carried];
    if (state.active.present()) fail("its end is computed from data, so the size of its output ", i, " is not known");
    if (parts.empty()) fail("it runs no iteration, so the shape of its output ", i, " is not known");
    if (reversed[i - carried]) std::reverse(parts.begin(), parts.end());
    const Symbol whole = stacked(node, parts, axes[i - carried], concat("gathered", i));
    hand(whole, node.outputs[i]);
    if (value(whole).present()) rename(value(whole), node.outputs[i]);
  }
}

}  // namespace tandem
