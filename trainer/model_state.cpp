// What a Model's functions share: its graph as options ask for it, plans as they are needed, and one step of one of them.
#include "trainer/model_state.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/pattern.h"
#include "planner/passes/optimizer.h"
#include "planner/plan/plan_file.h"
#include "trainer/share.h"
#include "trainer/teacher.h"
#include "trainer/spec.h"

namespace tandem {
namespace {

// The sum over devices of a scalar output.
double sum_of(const HostOutput& output, const std::vector<std::byte>& values) {
  double sum = 0;
  visit_float(output.type.dtype, [&]<class T>() {
    const T* v = reinterpret_cast<const T*>(values.data());
    for (std::size_t i = 0; i < values.size() / sizeof(T); ++i) sum += static_cast<double>(v[i]);
  });
  return sum;
}

// Three outputs "a+b+c" of one shape [N,...] as one value [N,3,...] of that name; none where they are not there.
std::optional<ValueId> three_as_one(Graph& graph, const std::string& name) {
  std::vector<ValueId> parts;
  for (const std::string& part : split(name, '+'))
    if (const auto value = graph.find(part)) parts.push_back(*value);
  if (parts.size() != 3) return std::nullopt;
  const Value first = graph[parts[0]];
  Shape one = first.type.shape;
  if (one.rank() == 0) return std::nullopt;
  one.dims.insert(one.dims.begin() + 1, 1);
  GraphBuilder b(graph, name, {});
  for (ValueId& part : parts) {
    if (b.type(part) != first.type) fail(ExitCode::usage, "loss on ", name, ": '", graph[part].name, "' is ", b.type(part), ", '", first.name, "' is ", first.type, ", expected three alike");
    part = b.reshape(part, one);
  }
  const ValueId all = b.emit("Concat", parts, {{"axis", std::int64_t{1}}});
  graph[all].name = name;
  for (const ValueId v : {parts[0], parts[1], parts[2], all}) {
    graph[v].depends_on_batch = first.depends_on_batch;
    graph[v].batch = first.batch;
  }
  return all;
}

ValueId value_named(const Graph& graph, const std::string& name) {
  if (const auto value = graph.find(name); value && graph[*value].depends_on_batch) return *value;
  std::vector<std::string> names;
  for (const Value& v : graph.values)
    if (v.depends_on_batch) names.push_back(v.name);
  const std::string near = nearest(name, names);
  fail(ExitCode::usage, "option outputs '", name, "': model '", graph.name, "' computes no value of that name", near.empty() ? "" : concat(", did you mean '", near, "'?"));
}

// Places by samples by classes, as PyTorch's CTC takes them, becomes samples by places by classes under the same name; what makes
// probabilities of scores stays behind that.
void samples_first(Graph& graph, const std::string& name) {
  const auto found = graph.find(name);
  if (!found || graph[*found].type.shape.rank() != 3 || graph[*found].batch.axis != 1 || graph[*found].batch.outer != 1) return;
  ValueId v = *found;
  const NodeId maker = graph[v].producer;
  const bool scores = maker.present() && (graph[maker].op->gives == OutputKind::softmax || graph[maker].op->gives == OutputKind::log_softmax);
  const Node last = scores ? graph[maker] : Node{};
  GraphBuilder b(graph, name, {});
  ValueId turned = b.transpose(scores ? last.inputs[0] : v, {1, 0, 2});
  if (scores) {
    graph[turned].batch = {.axis = 0};
    turned = b.emit(last.op->name, {turned}, last.attributes);
  }
  graph[v].name = concat(name, "/places");
  graph[turned].name = name;
  graph[turned].batch = {.axis = 0};
  for (GraphOutput& out : graph.outputs)
    if (out.value == v) out.value = turned;
}

}  // namespace

bool is_step_state(std::string_view input) {
  return input.starts_with("tandem.");
}

// Rank 0 plans, for kernels may be timed, with what the ranks say is free on their devices; the others take its plan.
Plan plan_together(World* world, KeptPlans& kept, const GraphSource& source, CompileOptions options, Backends backends, const Plan* parameters_of) {
  if (!world) return kept.compile(source, options, backends, parameters_of);
  if (!parameters_of) {
    options.free_memory = free_memory(options.devices, devices_of(world, static_cast<int>(options.devices.size())), backends);
    world->gather(std::as_writable_bytes(std::span(options.free_memory)));
  }
  std::string bytes;
  if (world->rank() == 0) {
    const World::Busy busy(world);
    bytes = serialize(kept.compile(source, options, backends, parameters_of));
  }
  return parse_plan(world->broadcast(bytes));
}

std::string list_some(const std::vector<std::string>& names) {
  constexpr std::size_t most = 4;
  std::string s;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) s += (i ? ", " : "") + names[i];
  return names.size() > most ? concat(s, ", ... (", names.size(), " in all)") : s;
}

std::size_t bucket_count(const ModelOptions& o) { return o.buckets.empty() ? 1 : o.buckets.begin()->second.size(); }

std::map<std::string, std::int64_t> dims_of(const ModelOptions& o, std::size_t bucket) {
  std::map<std::string, std::int64_t> dims = o.dims;
  for (const auto& [name, sizes] : o.buckets) dims[name] = sizes.at(sizes.size() - 1 - bucket);
  return dims;
}

ModelOptions in_bucket(ModelOptions o, std::size_t bucket) {
  o.dims = dims_of(o, bucket);
  o.buckets.clear();
  return o;
}

FeedTarget weights_target() {
  return {.name = "sample_weights", .sample = {DType::float32, {}}, .label = true, .weight = true};
}

const ModelFile& Model::State::other_file(const std::string& path) const {
  const auto known = others.find(path);
  return known != others.end() ? known->second : others.emplace(path, ModelFile::read(path)).first->second;
}

std::vector<std::optional<GraphFile>> Model::State::loss_files(const ModelOptions& o, const Graph& graph) const {
  std::vector<std::optional<GraphFile>> files;
  for (const LossTerm& term : parse_loss(o.plan.loss)) {
    files.emplace_back();
    if (term.file.empty()) continue;
    CompileOptions on = o.plan;
    if (!term.output.empty()) on.loss_on = term.output;
    files.back().emplace(term.file, other_file(term.file), graph, graph[loss_value(graph, on)].name);
  }
  return files;
}

void Model::State::add_teacher(Graph& graph, const ModelOptions& o, std::int64_t batch) const {
  const std::string path = o.teacher.string();
  const Teacher teacher(path, other_file(path), graph);
  const ValueId student = student_value(graph, o.plan);
  teacher.attach(graph, student, batch, o.dims, std::string(teacher_prefix));
}

GraphSource Model::State::source_with_losses(const ModelOptions& o) const {
  const std::vector<LossTerm> terms = parse_loss(o.plan.loss);
  return [this, o, terms, plain = plain_source(o)](std::int64_t batch) {
    Graph graph = plain(batch);
    const std::vector<std::optional<GraphFile>> files = loss_files(o, graph);
    for (std::size_t i = 0; i < files.size(); ++i)
      if (files[i]) {
        const ValueId loss = files[i]->attach(graph, batch, o.dims, terms.size() > 1 ? concat("labels/", terms[i].output) : "labels", concat(terms[i].file, '/'));
        graph[loss].name = file_loss_value(i);
      }
    if (!o.teacher.empty()) add_teacher(graph, o, batch);
    return graph;
  };
}

GraphSource Model::State::source(const ModelOptions& o, std::size_t bucket, const std::vector<std::string>& outputs) const {
  const ModelOptions at = in_bucket(o, bucket);
  return at.plan.mode == PlanMode::training && outputs.empty() ? source_with_losses(at) : plain_source(at, outputs);
}

GraphSource Model::State::plain_source(const ModelOptions& o, const std::vector<std::string>& outputs) const {
  const bool training = o.plan.mode == PlanMode::training;
  std::vector<std::string> values;
  const std::vector<LossTerm> terms = parse_loss(o.plan.loss);
  const std::vector<CompileOptions> each = options_of_losses(o.plan);
  for (std::size_t i = 0; i < terms.size(); ++i)
    if (const std::string& value = terms[i].file.empty() ? each[i].loss_on : terms[i].output.empty() ? o.plan.loss_on : terms[i].output; !value.empty()) values.push_back(value);
  return [this, o, training, values, outputs](std::int64_t batch) {
    Graph graph = file.graph({.batch = batch, .dims = o.dims, .training = training, .max_turns = o.max_turns});
    if (!outputs.empty()) {
      graph.outputs.clear();
      for (const std::string& name : outputs) graph.outputs.push_back(value_named(graph, name));
      return graph;
    }
    // What a loss is measured on is an output of the plan that evaluates; one that trains goes by the losses alone.
    for (const std::string& name : values) {
      const auto value = graph.find(name) ? graph.find(name) : three_as_one(graph, name);
      if (value && std::find(graph.outputs.begin(), graph.outputs.end(), *value) == graph.outputs.end()) graph.outputs.push_back(*value);
    }
    for (const CompileOptions& one : options_of_losses(o.plan))
      if (loss_row(parse_loss(one.loss)[0].loss).over == LossOver::sequence) samples_first(graph, graph[loss_value(graph, one)].name);
    if (!training)
      for (const std::optional<GraphFile>& loss : loss_files(o, graph))
        for (const FileInput& input : loss ? loss->inputs() : std::vector<FileInput>{})
          if (input.of == FileInput::Of::value && graph[*graph.find(input.value)].kind == ValueKind::activation &&
              std::find(graph.outputs.begin(), graph.outputs.end(), *graph.find(input.value)) == graph.outputs.end())
            graph.outputs.push_back(*graph.find(input.value));
    return graph;
  };
}

Losses Model::State::losses_if_any(const ModelOptions& o, std::size_t bucket) const {
  try {
    return losses_for(o, bucket);
  } catch (const Error&) {
    if (o.plan.mode == PlanMode::training) throw;
    return {};
  }
}

bool Model::State::own_loss() const {
  return std::any_of(losses.begin(), losses.end(), [](const Labels& l) { return l.own(); });
}

std::span<const FeedTarget> Model::State::inputs() const {
  const auto labels = std::find_if(targets.begin(), targets.end(), [](const FeedTarget& t) { return t.label; });
  return {targets.begin(), labels};
}

Losses Model::State::losses_for(const ModelOptions& o, std::size_t bucket) const {
  for (const CompileOptions& one : options_of_losses(o.plan)) {
    if (one.loss_on.empty() || one.loss_on.starts_with("tandem/")) continue;
    const Graph graph = source(o, bucket)(std::max<std::int64_t>(1, o.plan.batch));
    std::vector<std::string> names;
    const bool own = parse_loss(one.loss)[0].loss == "output";  // may be a number of the whole batch
    for (const Value& v : graph.values)
      if (v.depends_on_batch || (own && v.kind == ValueKind::activation)) names.push_back(v.name);
    if (std::find(names.begin(), names.end(), one.loss_on) != names.end()) continue;
    const std::string near = nearest(one.loss_on, names), of = concat("option loss_on ", one.loss_on, ": model '", graph.name, "' computes no value of that name");
    if (!near.empty()) fail(ExitCode::usage, of, ", did you mean '", near, "'?");
    std::vector<std::string> outputs;
    for (const ValueId out : graph.outputs) outputs.push_back(graph[out].name);
    fail(ExitCode::usage, of, " (its outputs: ", list_some(outputs), ")");
  }
  return tandem::losses_of(source_with_losses(in_bucket(o, bucket)), o.plan);
}

LoaderOptions::RowsOf Model::State::rows_here() const {
  if (!options.world) return {};
  std::vector<double> weights;
  for (const DeviceSpec& d : options.plan.devices) weights.push_back(d.weight);
  return [weights, own = devices_of(options.world, static_cast<int>(weights.size()))](std::int64_t batch) {
    const std::vector<std::int64_t> sizes = slice_sizes(batch, weights);
    const auto first = sizes.begin() + own.first, last = first + own.count;
    return RowRange{std::accumulate(sizes.begin(), first, std::int64_t{0}), std::accumulate(first, last, std::int64_t{0})};
  };
}

Session& Model::State::running() const {
  if (!session) fail(ExitCode::usage, "model '", file.name(), "' is not compiled");
  return *session;
}

void Model::State::check_buckets(const ModelOptions& o) const {
  for (const auto& [name, sizes] : o.buckets) {
    if (sizes.size() != bucket_count(o))
      fail(ExitCode::usage, "option dims: '", name, "' has ", sizes.size(), " sizes, '", o.buckets.begin()->first, "' ", bucket_count(o), ": expected as many, the first ones for the first bucket and so on");
    if (std::adjacent_find(sizes.begin(), sizes.end(), std::greater_equal<>()) != sizes.end() || sizes.empty() || sizes[0] < 1 || sizes.size() > 255)
      fail(ExitCode::usage, "option dims: the sizes of '", name, "' must rise, from 1 on; there may be 255 of them");
  }
  std::map<std::string, Shape> whole;
  for (std::size_t bucket = 0; bucket < bucket_count(o) && bucket_count(o) > 1; ++bucket)
    for (const Graph graph = source(o, bucket)(o.plan.batch); const Value& v : graph.values) {
      if (v.kind != ValueKind::parameter) continue;
      const auto [it, added] = whole.emplace(v.name, v.type.shape);
      const auto& [dim, sizes] = *o.buckets.begin();
      if (it->second != v.type.shape || (added && bucket > 0))
        fail(ExitCode::usage, "option dims: the sizes of '", dim, "' cannot share the weight '", v.name, "', which is ", v.type.shape, " at ", sizes[sizes.size() - 1 - bucket],
             added ? std::string(" and absent") : concat(" and ", it->second), " at ", sizes.back(), ": expected one size");
    }
}

std::size_t Model::State::plan_for(PlanMode mode, std::int64_t batch, std::size_t bucket, const std::vector<std::string>& outputs) {
  const auto found = plans.find({mode, batch, bucket, outputs});
  if (found != plans.end()) return found->second;
  CompileOptions o = plan_options(options);
  o.mode = mode;
  o.batch = batch;
  const std::size_t index = running().add(plan_together(options.world, kept_plans, source(options, bucket, outputs), o, backends, &running().plan(0)));
  plans[{mode, batch, bucket, outputs}] = index;
  prepare_runner(index, bucket);
  return index;
}

void Model::State::prepare_runner(std::size_t index, std::size_t bucket) {
  const Plan& plan = session->plan(index);
  Runner r{.bucket = bucket};
  std::vector<std::optional<TensorType>> fed;
  for (const HostInput& input : plan.inputs) {
    const auto target = std::find_if(targets.begin(), targets.end(), [&](const FeedTarget& t) { return t.name == input.name; });
    if (target == targets.end() && !is_step_state(input.name))
      fail("plan of '", plan.model, "': nothing feeds its input '", input.name, "'");
    r.targets.push_back(target == targets.end() ? -1 : static_cast<int>(target - targets.begin()));
    fed.push_back({});
    if (target == targets.end()) continue;
    fed.back() = TensorType{target->sample.dtype, bucket_forms[bucket].shapes[static_cast<std::size_t>(r.targets.back())]};
    fed.back()->shape.dims.insert(fed.back()->shape.dims.begin(), plan.batch);
  }
  session->check_inputs(index, fed);
  r.inputs.resize(r.targets.size());
  r.ahead.resize(r.targets.size());
  for (const HostOutput& output : plan.outputs) r.storage.emplace_back(static_cast<std::size_t>(output.bytes()));
  for (auto& s : r.storage) r.outputs.push_back(s.data());
  if (runners.size() <= index) runners.resize(index + 1);
  runners[index] = std::move(r);
}

void Model::State::run(std::size_t plan, std::span<std::byte* const> inputs, double rate, const BatchAhead& ahead, std::int64_t first) {
  StepState state = step_state(rate);
  state.first = first;
  run(plan, inputs, state, ahead);
}

void Model::State::run(std::size_t plan, std::span<std::byte* const> inputs, const StepState& state, const BatchAhead& ahead) {
  Runner& r = runners[plan];
  const auto list = [](const Runner& runner, std::span<std::byte* const> from, std::vector<const std::byte*>& to) {
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = runner.targets[i] < 0 ? nullptr : from[static_cast<std::size_t>(runner.targets[i])];
  };
  list(r, inputs, r.inputs);
  Ahead next{.announced = ahead.announced, .plan = ahead.plan};
  if (!ahead.inputs.empty()) {
    Runner& follows = runners[ahead.plan];
    list(follows, ahead.inputs, follows.ahead);
    next.inputs = follows.ahead;
  }
  session->run(plan, r.inputs, r.outputs, state, next);
}

StepState Model::State::step_state(double rate) const {
  const OptimizerOptions& o = options.plan.optimizer;
  return {.learning_rate = rate, .step = step + o.steps_before, .beta1 = o.beta1, .beta2 = o.beta2, .seed = options.seed, .kind = scalars_kind(o)};
}

void Model::State::start_states() {
  std::vector<NamedTensor> given;
  session->each_optimizer_state([&](const NamedTensor& t) {
    const auto it = options.states.find(t.name);
    if (it == options.states.end()) return;
    if (it->second.type() != t.tensor.type()) fail("training_info: the state '", t.name, "' is ", it->second.type(), ", expected ", t.tensor.type());
    given.push_back({t.name, it->second});
  });
  if (!given.empty()) session->set_parameters(share(options.world, std::move(given)));
}

StepReport Model::State::report(std::size_t index, double rate) const {
  const Plan& plan = session->plan(index);
  const Runner& r = runners[index];
  StepReport report{.step = step, .samples = plan.batch, .learning_rate = rate};
  constexpr std::string_view part_of_loss = "loss/";
  double counted = not_measured;
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    const std::string& name = plan.outputs[i].name;
    const double value = name == "loss" || name == "correct" || name == "counted" || name.starts_with(part_of_loss) ? sum_of(plan.outputs[i], r.storage[i]) : 0;
    if (plan.outputs[i].name == "loss") report.loss = value;
    if (plan.outputs[i].name == "loss_scale") {  // the same on all devices; one without samples says 0
      const auto* scales = reinterpret_cast<const float*>(r.storage[i].data());
      report.loss_scale = static_cast<double>(*std::max_element(scales, scales + plan.outputs[i].parts));
    }
    if (plan.outputs[i].name == "correct") report.accuracy = value;
    if (plan.outputs[i].name == "counted") counted = value;
    if (plan.outputs[i].name.starts_with(part_of_loss)) report.metrics[concat(plan.outputs[i].name.substr(part_of_loss.size()), "_loss")] = value;
  }
  report.accuracy /= std::isnan(counted) ? static_cast<double>(plan.batch * bucket_forms[r.bucket].positions) : counted;
  return report;
}

CompileOptions Model::State::plan_options(const ModelOptions& o) const {
  CompileOptions plan = o.plan;
  for (const TemplateTensor& t : file.tensors()) plan.tensors.push_back(t.name);
  freeze_base(file, plan.freeze, plan.unfreeze);
  return plan;
}

Buckets Model::State::buckets_for(Feed& feed) const {
  std::vector<std::vector<Shape>> shapes;
  for (const BucketForm& form : bucket_forms) shapes.push_back(form.shapes);
  return {feed, std::move(shapes)};
}

namespace {

// What the last training left word of, or the file; null: nothing, or what is none of ours.
Json prepared(const Model::State& s, const std::string& key) {
  const auto own = s.preparation.find(key);
  const auto given = s.file.metadata().find(concat(metadata_prefix, key));
  try {
    if (own != s.preparation.end()) return Json::parse(own->second);
    if (given != s.file.metadata().end()) return Json::parse(given->second);
  } catch (const Error&) {
  }
  return {};
}

}  // namespace

void freeze_base(const ModelFile& file, std::vector<std::string>& freeze, std::vector<std::string>& unfreeze) {
  if (file.adapters().empty()) return;
  for (const LoraAdapter& adapter : file.adapters())
    for (const std::string& name : {adapter.a, adapter.b})
      if (!matches_any(name, freeze)) unfreeze.push_back(name);
  unfreeze.insert(unfreeze.end(), file.head().begin(), file.head().end());
  freeze.push_back("*");
}

std::vector<std::string> Model::State::class_names() const {
  std::vector<std::string> names;
  try {
    const Json list = prepared(*this, "classes");
    for (const Json& name : list.is_null() ? Json::Array{} : list.array()) names.push_back(name.text());
  } catch (const Error&) {
    return {};  // others' entry
  }
  return names;
}

std::map<std::string, double> Model::State::means() const {
  std::map<std::string, double> means;
  try {
    const Json object = prepared(*this, "missing");
    for (const auto& [column, mean] : object.is_null() ? Json::Object{} : object.object()) means[column] = mean.number();
  } catch (const Error&) {
    return {};
  }
  return means;
}

}  // namespace tandem
