#include "trainer/model.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "graph/pattern.h"
#include "planner/check_options.h"
#include "planner/plan/plan_file.h"
#include "trainer/initialize.h"
#include "trainer/index_range.h"
#include "trainer/model_state.h"
#include "trainer/share.h"
#include "trainer/spec.h"

namespace tandem {
namespace {

constexpr std::string_view labels_name = "labels", metadata_prefix = "tandem.";
bool is_step_state(std::string_view input) {
  return input.starts_with("tandem.");
}

Shape without_batch(const Shape& s) {
  return s.rank() == 0 ? s : Shape(std::vector<std::int64_t>(s.begin() + 1, s.end()));
}

// The sum over devices of a scalar output.
double sum_of(const HostOutput& output, const std::vector<std::byte>& values) {
  double sum = 0;
  visit_float(output.type.dtype, [&]<class T>() {
    const T* v = reinterpret_cast<const T*>(values.data());
    for (std::size_t i = 0; i < values.size() / sizeof(T); ++i) sum += static_cast<double>(v[i]);
  });
  return sum;
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

// What a model takes of each sample: its inputs, then the labels that the loss takes.
std::vector<FeedTarget> targets_of(const Graph& graph, const Labels& labels) {
  std::vector<FeedTarget> targets;
  bool own_labels = false;  // an input of the model that goes by that name
  for (const ValueId in : graph.inputs) {
    const Value& value = graph[in];
    if (is_step_state(value.name)) continue;
    own_labels = own_labels || value.name == labels_name;
    targets.push_back({.name = value.name, .sample = {value.type.dtype, without_batch(value.type.shape)}, .indices = index_range(graph, in)});
  }
  if (!labels.sample || own_labels) return targets;
  targets.push_back({.name = std::string(labels_name), .sample = *labels.sample, .label = true, .indices = {.count = labels.classes}});
  return targets;
}

// Values that a model had before go on.
void keep_values(Initial& initial, const std::vector<NamedTensor>& had) {
  std::map<std::string_view, const Tensor*> known;
  for (const NamedTensor& v : had) known[v.name] = &v.tensor;
  for (NamedTensor& v : initial.values)
    if (const auto it = known.find(v.name); it != known.end() && it->second->type() == v.tensor.type()) v.tensor = *it->second;
  initial.missing.clear();
  initial.constant.clear();
  initial.chosen.clear();
}

std::string list_some(const std::vector<std::string>& names) {
  constexpr std::size_t most = 4;
  std::string s;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) s += (i ? ", " : "") + names[i];
  return names.size() > most ? concat(s, ", ... (", names.size(), " in all)") : s;
}

}  // namespace

GraphSource Model::State::source(const ModelOptions& o) const {
  const bool training = o.plan.mode == PlanMode::training;
  return [this, dims = o.dims, training, loss_on = o.plan.loss_on](std::int64_t batch) {
    Graph graph = file.graph({.batch = batch, .dims = dims, .training = training});
    // What the loss is measured on is an output of the plan that evaluates; one that trains goes by the loss alone.
    const auto value = loss_on.empty() ? std::nullopt : graph.find(loss_on);
    if (value && std::find(graph.outputs.begin(), graph.outputs.end(), *value) == graph.outputs.end()) graph.outputs.push_back(*value);
    return graph;
  };
}

Labels Model::State::labels_if_any(const ModelOptions& o) const {
  try {
    return labels_for(o);
  } catch (const Error&) {
    if (o.plan.mode == PlanMode::training) throw;
    return {};
  }
}

Labels Model::State::labels_for(const ModelOptions& o) const {
  if (!o.plan.loss_on.empty()) {
    const Graph graph = source(o)(std::max<std::int64_t>(1, o.plan.batch));
    std::vector<std::string> names;
    for (const Value& v : graph.values)
      if (v.depends_on_batch) names.push_back(v.name);
    if (std::find(names.begin(), names.end(), o.plan.loss_on) == names.end()) {
      const std::string near = nearest(o.plan.loss_on, names), of = concat("option loss_on ", o.plan.loss_on, ": model '", graph.name, "' computes no value of that name");
      if (!near.empty()) fail(ExitCode::usage, of, ", did you mean '", near, "'?");
      std::vector<std::string> outputs;
      for (const ValueId out : graph.outputs) outputs.push_back(graph[out].name);
      fail(ExitCode::usage, of, " (its outputs: ", list_some(outputs), ")");
    }
  }
  return labels_of(source(o), o.plan);
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

std::size_t Model::State::plan_for(PlanMode mode, std::int64_t batch) {
  const auto found = plans.find({mode, batch});
  if (found != plans.end()) return found->second;
  CompileOptions o = plan_options(options);
  o.mode = mode;
  o.batch = batch;
  const std::size_t index = running().add(plan_together(options.world, kept_plans, source(options), o, backends, &running().plan(0)));
  plans[{mode, batch}] = index;
  prepare_runner(index);
  return index;
}

void Model::State::prepare_runner(std::size_t index) {
  const Plan& plan = session->plan(index);
  Runner r;
  std::vector<std::optional<TensorType>> fed;
  for (const HostInput& input : plan.inputs) {
    const auto target = std::find_if(targets.begin(), targets.end(), [&](const FeedTarget& t) { return t.name == input.name; });
    if (target == targets.end() && !is_step_state(input.name))
      fail("plan of '", plan.model, "': nothing feeds its input '", input.name, "'");
    r.targets.push_back(target == targets.end() ? -1 : static_cast<int>(target - targets.begin()));
    fed.push_back({});
    if (target == targets.end()) continue;
    fed.back() = target->sample;
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
  StepState state = step_state(rate);
  state.first = first;
  session->run(plan, r.inputs, r.outputs, state, next);
}

StepState Model::State::step_state(double rate) const {
  const OptimizerOptions& o = options.plan.optimizer;
  return {.learning_rate = rate, .step = step, .beta1 = o.beta1, .beta2 = o.beta2, .seed = options.seed};
}

StepReport Model::State::report(std::size_t index, double rate) const {
  const Plan& plan = session->plan(index);
  const Runner& r = runners[index];
  StepReport report{.step = step, .samples = plan.batch, .learning_rate = rate};
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    const double value = plan.outputs[i].name == "loss" || plan.outputs[i].name == "correct" ? sum_of(plan.outputs[i], r.storage[i]) : 0;
    if (plan.outputs[i].name == "loss") report.loss = value;
    if (plan.outputs[i].name == "loss_scale") {  // the same on all devices; one without samples says 0
      const auto* scales = reinterpret_cast<const float*>(r.storage[i].data());
      report.loss_scale = static_cast<double>(*std::max_element(scales, scales + plan.outputs[i].parts));
    }
    if (plan.outputs[i].name == "correct") report.accuracy = value / static_cast<double>(plan.batch * labels.positions());
  }
  return report;
}

Model Model::load(const std::filesystem::path& path, const WeightOptions& weights) {
  ModelFile file = ModelFile::read(path, weights);
  std::vector<std::string> names;
  for (const TemplateTensor& t : file.tensors()) names.push_back(t.name);
  for (const auto& [option, patterns] : {std::pair{"trainable", &weights.trainable}, {"constant", &weights.constant}})
    for (const std::string& pattern : *patterns)
      if (std::none_of(names.begin(), names.end(), [&, &p = pattern](const std::string& name) { return matches_any(name, {p}); })) {
        const std::string near = nearest(pattern, names);
        fail(ExitCode::usage, "option ", option, " '", pattern, "': model '", file.name(), "' holds no float tensor of that name",
             near.empty() ? ": ModelFile::tensors() lists them" : concat(", did you mean '", near, "'?"));
      }
  return Model(std::move(file));
}
Model::Model(ModelFile file) : state_(std::make_unique<State>(std::move(file))) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
const ModelFile& Model::file() const {
  return state_->file;
}

Summary Model::summary(const SummaryOptions& options) const {
  const ModelFile& file = state_->file;
  const ImportOptions import{.batch = 1, .dims = options.dims};
  CompileOptions names{.freeze = options.freeze, .unfreeze = options.unfreeze};
  for (const TemplateTensor& t : file.tensors()) names.tensors.push_back(t.name);
  std::vector<Problem> problems = file.problems(import);
  if (!problems.empty()) return outline(file.name(), file.outline(import), file.tensors(), std::move(problems), names);
  return summarize(file.graph(import), file.tensors(), names);
}

CompileOptions Model::State::plan_options(const ModelOptions& o) const {
  CompileOptions plan = o.plan;
  for (const TemplateTensor& t : file.tensors()) plan.tensors.push_back(t.name);
  return plan;
}

Plan Model::make_plan(const ModelOptions& o, Backends backends) const {
  return tandem::compile(state_->source(o), state_->plan_options(o), backends);
}

std::string Model::training_graph(const ModelOptions& o) const {
  return onnx_of(tandem::training_graph(state_->source(o), state_->plan_options(o)));
}

std::vector<std::string> Model::State::class_names() const {
  const auto own = preparation.find("classes");
  const auto given = file.metadata().find(concat(metadata_prefix, "classes"));
  const std::string text = own != preparation.end() ? own->second : given != file.metadata().end() ? given->second : "[]";
  std::vector<std::string> names;
  try {
    const Json list = Json::parse(text);
    for (const Json& name : list.array()) names.push_back(name.text());
  } catch (const Error&) {
    return {};  // others' entry
  }
  return names;
}

DataRequest Model::data_request() const {
  state_->running();  // fails where nothing was compiled
  return data_request(state_->options);
}

DataRequest Model::data_request(const ModelOptions& o) const {
  DataRequest request{.seed = o.seed, .class_names = state_->class_names(), .training = o.plan.mode == PlanMode::training};
  for (const FeedTarget& target : targets_of(state_->source(o)(o.plan.batch), {}))
    request.inputs.push_back({.name = target.name, .sample = target.sample, .indices = target.indices});
  const Labels labels = state_->labels_if_any(o);
  if (!labels.sample) return request;
  request.label = *labels.sample;
  request.classes = labels.classes;
  request.label_rows = labels.positions();
  return request;
}

std::string Model::fit_labels(ModelOptions& o, const Dataset& data) const {
  const Labels labels = state_->labels_for(o);  // names what is wrong
  if (data.follows_request()) return o.plan.mode == PlanMode::training ? "" : labels.assumed;  // a plan for training says it itself
  for (const Field& field : data.fields())
    if (field.role == Role::label) return tandem::fit_labels(state_->source(o), o.plan, field.sample);
  o.plan.dense_labels = o.plan.dense_labels || (labels.sample && is_float(labels.sample->dtype));
  return "";
}

void Model::check_data(const Dataset& data, const ModelOptions& o, const Preprocess& preprocess) const {
  Feed(data, targets_of(state_->source(o)(o.plan.batch), state_->labels_for(o)), preprocess, o.seed).check_values(o.plan.loss);
}

void Model::check(const ModelOptions& o, Backends backends) const {
  check_initialization(o.init);
  tandem::check_options(state_->source(o), state_->plan_options(o), backends);
  state_->labels_if_any(o);
}

void Model::compile(const ModelOptions& options, Backends backends) {
  State& s = *state_;
  own_devices(options.plan.devices, options.world);
  Labels labels = s.labels_if_any(options);
  check_initialization(options.init);
  const bool keeps = !options.plans.empty() && (!options.world || options.world->rank() == 0);
  KeptPlans kept = keeps ? KeptPlans(options.plans, options.resume) : KeptPlans();
  Plan plan = plan_together(options.world, kept, s.source(options), s.plan_options(options), backends, nullptr);
  const Graph graph = s.source(options)(options.plan.batch);
  const bool inference = options.plan.mode == PlanMode::inference;
  Initial initial = initialize(graph, inference && options.init == "auto" ? "keep" : options.init, options.seed);
  s.initial = !s.session;
  if (s.session) keep_values(initial, parameters());
  if (!initial.missing.empty() && inference)
    fail("model '", s.file.name(), "' has no values for ", list_some(initial.missing), ": train it first");
  s.session.reset();
  s.options = options;
  s.backends.assign(backends.begin(), backends.end());
  s.runners.clear();
  s.plans = {{{options.plan.mode, options.plan.batch}, 0}};
  s.kept_plans = std::move(kept);
  s.notes.clear();
  s.step = 0;
  if (s.kept_plans.made_anew())
    s.notes.push_back(concat(options.plans.string(), " keeps no plan for this model with these devices and options: it is planned anew, "
                             "and results may differ in their last bits from those of a run without the break"));
  if (!initial.missing.empty())
    s.notes.push_back(concat("the template has no values for ", list_some(initial.missing), ": they start as he-normal (option init names another)"));
  if (!initial.chosen.empty())
    s.notes.push_back(concat("the template holds no trained weights: they start as ", initial.chosen, " (option init names another, option init keep takes the template's)"));
  if (!initial.constant.empty())
    s.notes.push_back(concat("all values are alike in ", list_some(initial.constant),
                             ": no training tells such weights apart (option init he-normal or glorot-uniform draws them)"));

  s.preparation = {{"loss", options.plan.loss}};
  if (!options.plan.loss_on.empty()) s.preparation["loss_on"] = options.plan.loss_on;
  if (options.plan.class_axis) s.preparation["class_axis"] = std::to_string(*options.plan.class_axis);
  s.labels = std::move(labels);
  s.targets = targets_of(graph, s.labels);
  s.session = std::make_unique<Session>(std::move(plan), s.backends, options.world);
  s.session->set_parameters(share(options.world, initial.values));
  s.prepare_runner(0);
}

const Plan& Model::plan() const {
  return state_->running().plan(0);
}
const std::vector<std::string>& Model::notes() const {
  return state_->notes;
}

std::int64_t Model::predicted_peak_bytes() const {
  const Session& session = state_->running();
  std::int64_t most = 0;
  for (std::size_t d = 0; d < plan().devices.size(); ++d) {
    // Constants are each plan's own; a plan that needs more of another arena than those before it takes a new one.
    std::map<ArenaKind, std::int64_t> largest;
    std::int64_t sum = 0;
    for (std::size_t p = 0; p < state_->runners.size(); ++p)
      for (const Arena& arena : session.plan(p).devices[d].arenas) {
        std::int64_t& there = largest[arena.kind];
        if (arena.kind != ArenaKind::constants && arena.bytes <= there) continue;
        sum += arena.bytes;
        there = arena.bytes;
      }
    most = std::max(most, sum);
  }
  return most;
}

std::int64_t Model::allocated_bytes() const {
  std::int64_t most = 0;
  for (int d = 0; d < state_->running().devices(); ++d) most = std::max(most, state_->session->allocated_bytes(d));
  return most;
}

std::vector<NamedTensor> Model::parameters() const {
  return state_->running().parameters();
}
void Model::set_parameters(std::span<const NamedTensor> values) {
  Session& session = state_->running();
  state_->initial = false;
  session.set_parameters(share(state_->options.world, {values.begin(), values.end()}));
}

void Model::save(const std::filesystem::path& path, bool metadata, SaveOptions options) const {
  std::vector<ModelFile::Weight> weights;
  for (NamedTensor& p : parameters()) weights.push_back({std::move(p.name), std::move(p.tensor)});
  std::map<std::string, std::string> entries = state_->file.metadata();
  const bool trained = state_->options.plan.mode == PlanMode::training;
  if (trained || !metadata) std::erase_if(entries, [](const auto& entry) { return entry.first.starts_with(metadata_prefix); });
  if (trained && metadata)
    for (const auto& [key, value] : state_->preparation) entries[concat(metadata_prefix, key)] = value;
  options.metadata = std::move(entries);
  state_->file.write(path, std::move(weights), options);
}

}  // namespace tandem
