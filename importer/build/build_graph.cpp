// Goes once through the flat model's nodes, in the order in which they can be computed. Each is lifted to the newest opset, readied
// for the wanted batch, checked against its operator's row and added; where all it reads is known it is folded right away. What
// fails becomes a problem and the rest goes on, so that one report holds all.
#include "importer/build/builder.h"

#include <algorithm>
#include <new>

#include "importer/batch/bind_inputs.h"
#include "importer/batch/samples_first.h"
#include "importer/build/check_operands.h"
#include "importer/build/fold_node.h"
#include "importer/build/static_operands.h"
#include "importer/build/unsupported.h"
#include "importer/flat/constant_nodes.h"
#include "importer/message/limits.h"
#include "importer/message/tensor_data.h"
#include "importer/upgrade/counted_indices.h"
#include "importer/upgrade/upgrade.h"

namespace tandem {
namespace {

// The opset in which the definition that counts at `opset` came.
int definition_at(const Operator& op, std::int64_t opset) {
  const auto newer = std::upper_bound(op.since.begin(), op.since.end(), opset);
  return newer == op.since.begin() ? 0 : *(newer - 1);
}

void mark(Value& v, const BatchPlace& place) {
  v.batch = place;
  v.depends_on_batch = place.present();
}

}  // namespace

Builder::Builder(const FlatModel& model, const ImportOptions& options, const BatchReading& reading, std::int64_t batch,
                 const FollowedGraph* own, bool shapes_only)
    : model_(model),
      options_(options),
      reading_(reading),
      batch_(batch),
      own_(own),
      shapes_only_(shapes_only),
      budget_(model.bytes, options.fold_limit),
      values_(model.symbols.size()) {
  if (own) rebatch_.emplace(own->built.graph, own->followed, own->samples, batch);
}

BuiltGraph Builder::run(const std::string& name) {
  built_.problems = model_.problems;
  graph().name = name;
  if (options_.training) graph().warnings = model_.warnings;
  inputs();
  run(model_.main);
  outputs();
  if (own_) mark_samples();
  for (std::size_t i = 0; i < made_.size(); ++i)
    if (const ValueId v = values_[model_.symbols.size() + i]; v.present()) built_.made[{made_[i].original.index, made_[i].iteration}] = v;
  values_.resize(model_.symbols.size());
  built_.values = std::move(values_);
  return std::move(built_);
}

void Builder::problem(const FlatNode& node, std::string reason) {
  const std::string where = concat(node.op, " '", node.name, "': ");  // the line begins with it already
  if (reason.starts_with(where)) reason.erase(0, where.size());
  built_.problems.push_back({node.name, qualified_op(node), node.opset, std::move(reason)});
}

DType Builder::wanted(DType dtype) const {
  if (is_half(dtype) && !options_.keep_halves) dtype = DType::float32;
  return dtype == DType::float32 && options_.float_type == DType::float64 ? DType::float64 : dtype;
}

void Builder::inputs() {
  check_dims(model_.inputs, options_, built_.problems);
  built_.one_sample = reading_.one_sample;
  for (std::size_t i = 0; i < model_.inputs.size(); ++i) {
    const ModelInput& input = model_.inputs[i];
    const auto known = options_.constants.find(input.name);
    std::vector<Problem> none;
    const bool free = known == options_.constants.end();
    const BoundInput bound = bind_input(input, options_, reading_.axes[i], batch_, free ? built_.problems : none);
    ValueId& own = value(model_.main.inputs[i]);
    if (!free) {
      own = graph().add_constant(input.name, bound.usable ? given_value(known->second, bound, input.name) : wanted(known->second));
      continue;
    }
    if (!bound.usable) continue;
    if (!reading_.assumed[i].empty()) graph().warnings.push_back(reading_.assumed[i]);
    own = add_input(graph(), input.name, {wanted(bound.type.dtype), bound.type.shape}, bound.axis, reading_.one_sample);
    widest_ = std::max(widest_, bound.type.shape.elements());
  }
}

// As the input takes it: as it is, filled with its only number, or once for each sample.
Tensor Builder::given_value(const Tensor& tensor, const BoundInput& input, const std::string& name) {
  const DType dtype = wanted(input.type.dtype);
  Tensor given = tensor.cast(dtype);
  const Shape& wants = input.type.shape;
  if (const Tensor back = given.cast(tensor.dtype()); !is_float(dtype) && !std::ranges::equal(back.bytes(), tensor.bytes()))
    built_.problems.push_back({.reason = concat("input '", name, "' is given ", tensor.type(), ", whose numbers ", dtype, " cannot hold")});
  if (given.shape().rank() == 1 && given.elements() == wants.elements()) given = given.reshaped(wants);  // a list
  if (given.shape() == wants || (options_.batch == 0 && given.shape().rank() == wants.rank())) return given;  // 0: as the file has it
  budget_.make_constant(bytes_of({given.dtype(), wants}));
  if (given.elements() == 1) {
    Shape one;
    one.dims.assign(static_cast<std::size_t>(wants.rank()), 1);
    Tensor filled = given.reshaped(one);
    for (int axis = 0; axis < wants.rank(); ++axis) filled = repeat_samples(filled, {.axis = axis}, 1, wants[axis]);
    return filled;
  }
  Shape sample = wants, alone = wants;
  if (input.axis >= 0) {
    sample[input.axis] = 1;
    alone.dims.erase(alone.dims.begin() + input.axis);
    const bool list = given.shape().rank() == 1 && given.elements() == sample.elements();
    if (given.shape() == sample || given.shape() == alone || list)
      return repeat_samples(given.reshaped(sample), {.axis = input.axis}, 1, batch_);
  }
  const TensorType expected{given.dtype(), input.axis >= 0 ? alone : wants};
  built_.problems.push_back({.reason = concat("input '", name, "' is given the value ", tensor.type(), ", expected ", expected,
                                              input.axis >= 0 ? " for each sample" : "", " or a single number")});
  return given;
}

void Builder::run(const FlatBody& body) {
  for (const FlatInitializer& i : body.initializers)
    if (!follows(i.symbol) && !value(i.symbol).present()) initializer(i);  // of a body: once for all iterations
  if (&body == &model_.main)
    for (const Tie& tie : model_.ties) follow(tie);
  for (const FlatNode& node : body.nodes) attempt(node);
}

// A node that fails leaves nothing behind but its problem.
void Builder::attempt(const FlatNode& node) {
  const std::size_t nodes = graph().nodes.size(), values = graph().values.size();
  std::string reason;
  try {
    return run(node);
  } catch (const Error& error) {
    reason = error.what();
  } catch (const std::bad_alloc&) {
    reason = "takes more memory than there is";
  } catch (const std::length_error&) {
    reason = "takes more memory than there is";
  } catch (const std::out_of_range&) {
    reason = concat("has too few operands: ", node.inputs.size());
  }
  graph().nodes.erase(graph().nodes.begin() + static_cast<std::ptrdiff_t>(nodes), graph().nodes.end());
  graph().values.erase(graph().values.begin() + static_cast<std::ptrdiff_t>(values), graph().values.end());
  problem(node, std::move(reason));
}

void Builder::run(const FlatNode& node) {
  const bool standard = node.domain.empty();
  if (standard && node.op == "Constant") return constant(node);
  if (standard && node.op == "If") return choose(node);
  if (standard && (node.op == "Loop" || node.op == "Scan")) return loop(node);
  if (node.domain == "ai.onnx.preview" && node.op == "FlexAttention") return flex_attention(node);
  if (const ListRow* row = list_row(node)) return run_list(node, *row);
  if (standard && node.op == "Identity" && node.inputs.size() == 1 && node.outputs.size() == 1 && node.inputs[0].present() &&
      lists_.contains(node.inputs[0].index))
    return hand(node.inputs[0], node.outputs[0]);
  if (run_masked(node)) return;
  const std::optional<Renamed> now = standard ? renamed(node.op, node.opset) : std::nullopt;
  const Operator* op = find_operator(now ? now->op : node.op, node.domain);
  if (!op) fail(unsupported(node));
  if (node.opset > 0 && node.opset < op->since.front() && !now)
    fail("the operator exists since opset ", op->since.front(), ": export the model with that one or a later one");
  if (standard && node.opset > 0 && node.opset < limits::oldest_opset &&
      (now || definition_at(*op, node.opset) != definition_at(*op, limits::oldest_opset)))
    fail("opset ", node.opset, " defines the operator otherwise than opset ", limits::oldest_opset, ", the oldest that is read");
  if (!node.faults.empty()) fail(node.faults.front());
  if (op->domain == "tandem") fail("it is an operator of plans, which no model may hold");
  check_arity(now ? now->inputs : op->inputs, now ? now->outputs : op->outputs, node);
  Draft draft{.op = node.op,
              .domain = node.domain,
              .opset = node.opset,
              .name = node.name,
              .attributes = node.attributes,
              .outputs = static_cast<int>(node.outputs.size())};
  for (const Symbol in : node.inputs) {
    if (in.present() && lists_.contains(in.index)) fail("its input '", name(in), "' is a list of tensors");
    if (in.present() && !value(in).present()) return;  // what it reads could not be built: one problem is enough
    draft.inputs.push_back(in.present() ? value(in) : ValueId{});
  }
  if (op->name == node.op) check_types(*op, graph(), draft.inputs);
  if (standard && node.op == "ConstantOfShape") return constant_of_shape(node, draft);
  if (node.detached) {
    draft.op = "StopGradient";
    draft.domain = "tandem";
  }
  bind(node, add(node, draft));
}

std::vector<ValueId> Builder::add(const FlatNode& node, Draft& draft) {
  retype_floats(draft.attributes, find_operator(draft.op, draft.domain), [&](DType dtype) { return wanted(dtype); });
  if (const auto outputs = upgrade(graph(), draft)) return *outputs;
  const Operator* op = find_operator(draft.op, draft.domain);
  move_static_operands(graph(), *op, draft, budget_);
  if (own_) {
    if (const auto known = own_->built.nodes.find({node.id, node.iteration}); known != own_->built.nodes.end()) {
      rebatch_->apply(graph(), known->second, draft);
      op = find_operator(draft.op, draft.domain);
    } else {
      follow_folded(draft);
    }
  }
  const NodeId id = graph().add_node(*op, draft.name, std::move(draft.attributes), std::move(draft.inputs), draft.outputs, {node.name});
  const std::vector<ValueId> outputs = graph()[id].outputs;
  for (const ValueId out : outputs) check_extent(graph()[out].type);
  fold_last_node(graph(), budget_);
  if (!graph()[outputs[0]].producer.present()) return outputs;
  built_.nodes[{node.id, node.iteration}] = id;
  for (const Counted& counted : draft.counted) built_.counted.push_back({counted, id});
  return outputs;
}

// What the file expands to its own batch, a constant of that size already, was folded there and has no node to go by: it is the same for
// every sample, and is repeated for as many as its shape now asks for.
void Builder::follow_folded(Draft& draft) {
  if (draft.op != "Expand" || !draft.domain.empty() || !draft.attributes.has("shape")) return;
  const Ints target = draft.attributes.ints("shape");
  Value& x = graph()[draft.inputs.at(0)];
  if (x.kind != ValueKind::constant) return;
  const int rank = x.type.shape.rank(), missing = static_cast<int>(target.size()) - rank;
  for (int axis = std::max(0, -missing); axis < rank; ++axis) {
    const std::int64_t wanted = target[static_cast<std::size_t>(axis + missing)];
    const BatchPlace place{.axis = axis};
    if (x.type.shape[axis] != own_->samples || wanted != batch_ || wanted == own_->samples || !holds_copies(*x.data, place, own_->samples))
      continue;
    const Tensor repeated = repeat_samples(*x.data, place, own_->samples, batch_);
    budget_.make_constant(bytes_of(repeated.type()));
    draft.inputs[0] = graph().add_constant(concat(draft.name, "/repeated"), repeated);
    return;
  }
}

// A few numbers of an attribute must not ask for gigabytes.
void Builder::check_extent(const TensorType& type) const {
  if (type.shape.rank() > limits::rank) fail("its output has rank ", type.shape.rank(), ", expected at most ", limits::rank);
  const std::int64_t most = std::max(limits::axis, limits::axis_factor * std::min(widest_, std::int64_t{1} << 50));
  for (const std::int64_t d : type.shape)
    if (d > most)
      fail("its output ", type, " has an axis of ", d, " elements, expected at most ", most, " (", limits::axis, ", or ",
           limits::axis_factor, " times the elements of the largest input or tensor of the file)");
}

// The node's symbols stand for these values from here on, and values made for it take their names.
void Builder::bind(const FlatNode& node, const std::vector<ValueId>& outputs) {
  const std::size_t named = std::min(node.outputs.size(), outputs.size());
  for (std::size_t i = named; i < node.outputs.size(); ++i)
    if (node.outputs[i].present()) fail("it has ", node.outputs.size(), " outputs, but gives ", outputs.size(), " here");
  for (std::size_t i = 0; i < named; ++i)
    if (node.outputs[i].present()) check_batch(node.outputs[i], outputs[i]);
  for (std::size_t i = 0; i < named; ++i) {
    if (!node.outputs[i].present()) continue;
    value(node.outputs[i]) = outputs[i];
    rename(outputs[i], node.outputs[i]);
    repeat_copies(node.outputs[i]);
  }
}

// The value of the same symbol in the graph for another batch; absent: there is none.
ValueId Builder::own(Symbol s) const {
  if (!own_) return {};
  if (!is_made(s)) return own_->built.values[static_cast<std::size_t>(s.index)];
  const Made& m = made(s);
  const auto found = own_->built.made.find({m.original.index, m.iteration});
  return found == own_->built.made.end() ? ValueId{} : found->second;
}

const std::string& Builder::name(Symbol s) const {
  return is_made(s) ? made(s).name : model_.name(s);
}

Holding Builder::holding(Symbol s) const {
  while (s.present() && is_made(s)) s = made(s).original;
  return s.present() ? model_.holding(s) : Holding::constant;
}

// What holds the same for every sample of the file's batch holds it once, and is repeated.
void Builder::repeat_copies(Symbol s) {
  if (!own(s).present() || !value(s).present()) return;
  value(s) = rebatch_->once(graph(), value(s), own(s), budget_);
  for (const auto& [counted, node] : own_->built.counted)
    if (counted.constant == own(s)) count_on(graph()[value(s)], counted, node);
}

// What counts the samples of the file's batch counts those of the wanted one.
void Builder::count_on(Value& v, const Counted& counted, NodeId node) {
  const Graph& own = own_->built.graph;
  const BatchPlace& samples = own_->followed.places[static_cast<std::size_t>(own[node].outputs[0].index)];
  if (v.kind != ValueKind::constant || v.type.shape != own[counted.constant].type.shape || v.type.shape[counted.axis] != own_->samples)
    return;
  if (samples != BatchPlace{.axis = counted.axis}) return;
  v.data = counted_to(*v.data, counted, batch_);
  v.type = v.data->type();
  budget_.make_constant(bytes_of(v.type));
}

// Whether repeat_copies will give it the wanted batch: the file computes it from constants alone, for its own batch.
bool Builder::will_repeat(ValueId known, const Value& now) const {
  const auto copies = own_->followed.copies.find(known);
  return copies != own_->followed.copies.end() && now.kind == ValueKind::constant &&
         now.type.shape == own_->built.graph[known].type.shape && holds_copies(*now.data, copies->second, own_->samples);
}

// What holds samples must agree in all but the batch.
void Builder::check_batch(Symbol s, ValueId now) {
  const ValueId known = own(s);
  if (!known.present() || !own_->followed.places[static_cast<std::size_t>(known.index)].present()) return;
  const Shape wanted = rebatch_->shape(known), &got = graph()[now].type.shape;
  if (got != wanted && !will_repeat(known, graph()[now]))
    fail("gives ", got, " for ", batch_, " samples and ", own_->built.graph[known].type.shape, " for ", own_->samples,
         ": how its size follows the batch is not known");
}

void Builder::mark_samples() {
  for (std::size_t s = 0; s < values_.size(); ++s) {
    const ValueId known = own({static_cast<int>(s)});
    if (!known.present() || !values_[s].present()) continue;
    mark(graph()[values_[s]], own_->followed.places[static_cast<std::size_t>(known.index)]);
  }
  for (const ValueId in : graph().inputs)
    if (graph()[in].depends_on_batch) mark(graph()[in], {.axis = 0});
  for (const ValueId out : graph().outputs)
    if (const Value& v = graph()[out]; v.producer.present() && graph()[v.producer].op->name == "Identity")
      mark(graph()[out], graph()[graph()[v.producer].inputs[0]].batch);
}

// An input or an initializer keeps its own name.
void Builder::rename(ValueId id, Symbol symbol) {
  Value& v = graph()[id];
  if (v.kind == ValueKind::activation || (v.kind == ValueKind::constant && !named_in_file(v.name))) v.name = name(symbol);
}

// Of a node that makes a constant.
Symbol Builder::only_output(const FlatNode& node) {
  if (node.outputs.size() != 1 || !node.outputs[0].present()) fail("it has ", node.outputs.size(), " outputs, expected one with a name");
  return node.outputs[0];
}

void Builder::constant(const FlatNode& node) {
  if (!node.faults.empty()) fail(node.faults.front());
  const Symbol out = only_output(node);
  const Tensor tensor = wanted(constant_value(node.attributes));
  widest_ = std::max(widest_, tensor.elements());
  if (node.top_level && holding(out) != Holding::constant) {
    value(out) = parameter(out, tensor.type(), tensor);
  } else {
    value(out) = graph().add_constant(name(out), tensor);
  }
  repeat_copies(out);
}

void Builder::constant_of_shape(const FlatNode& node, const Draft& draft) {
  const Symbol out = only_output(node);
  const Fill fill = fill_of(graph(), draft);
  if (!node.top_level || holding(out) == Holding::constant) {
    budget_.make_constant(bytes_of({fill.element.dtype(), fill.shape}));
    value(out) = graph().add_constant(name(out), wanted(filled(fill)));
    return repeat_copies(out);
  }
  std::optional<Tensor> data;
  if (!shapes_only_) {
    budget_.make_weight(bytes_of({fill.element.dtype(), fill.shape}));
    data = wanted(filled(fill));
  }
  value(out) = parameter(out, {wanted(fill.element.dtype()), fill.shape}, std::move(data));
  repeat_copies(out);
}

void Builder::outputs() {
  for (std::size_t i = 0; i < model_.main.outputs.size(); ++i) {
    const Symbol out = model_.main.outputs[i];
    if (out.present() && value(out).present()) graph().outputs.push_back(output(out, model_.output_names[i]));
    if (const auto m = masked_.find(out.index); m != masked_.end()) refuse_masked(m->second);
    if (out.present() && lists_.contains(out.index))
      built_.problems.push_back(
          {.reason = concat("its output '", model_.output_names[i], "' is a list of tensors, which is not supported")});
  }
  if (model_.main.outputs.empty()) built_.problems.push_back({.reason = "has no outputs"});
}

// An output that is an input's or another output's own value goes by that one's name: it gets a node of its own.
ValueId Builder::output(Symbol out, const std::string& name) {
  const ValueId id = value(out);
  const Operator* identity = find_operator("Identity");
  if (graph()[id].name == name || !identity) return id;
  return graph()[graph().add_node(*identity, name, {}, {id}, 1)].outputs[0];
}

BuiltGraph build_graph(const FlatModel& model, const ImportOptions& options, const BatchReading& reading, std::int64_t batch,
                       const FollowedGraph* own, bool shapes_only) {
  return Builder(model, options, reading, batch, own, shapes_only).run(model.name_of_graph);
}

}  // namespace tandem
