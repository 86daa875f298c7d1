#include "trainer/model.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "planner/plan/plan_file.h"
#include "trainer/initialize.h"
#include "trainer/model_state.h"
#include "trainer/share.h"

namespace tandem {
namespace {

constexpr std::string_view labels_name = "labels";
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

std::int64_t rows_per_sample(const TensorType& label, std::int64_t classes) {
  return std::max<std::int64_t>(
      1, label.dtype == DType::int64 ? label.shape.elements() : label.shape.elements() / std::max<std::int64_t>(1, classes));
}

// Rank 0 plans, for kernels may be timed, with what the ranks say is free on their devices; the others take its plan.
Plan plan_together(World* world, const GraphSource& source, CompileOptions options, Backends backends, const Plan* parameters_of) {
  if (!world) return tandem::compile(source, options, backends, parameters_of);
  if (!parameters_of) {
    options.free_memory = free_memory(options.devices, devices_of(world, static_cast<int>(options.devices.size())), backends);
    world->gather(std::as_writable_bytes(std::span(options.free_memory)));
  }
  std::string bytes;
  if (world->rank() == 0) {
    const World::Busy busy(world);
    bytes = serialize(tandem::compile(source, options, backends, parameters_of));
  }
  return parse_plan(world->broadcast(bytes));
}

// What a model takes of each sample: its inputs, then the labels that the loss takes.
std::vector<FeedTarget> targets_of(const Graph& graph, const ModelOptions& options) {
  std::vector<FeedTarget> targets;
  bool own_labels = false;  // an input of the model that goes by that name
  for (const ValueId in : graph.inputs) {
    const Value& value = graph[in];
    if (is_step_state(value.name)) continue;
    own_labels = own_labels || value.name == labels_name;
    targets.push_back({.name = value.name, .sample = {value.type.dtype, without_batch(value.type.shape)}});
  }
  if (options.plan.loss == "output" || graph.outputs.empty() || own_labels) return targets;
  const TensorType& output = graph[graph.outputs[0]].type;
  const Scores scores = scores_of(graph);
  targets.push_back({.name = std::string(labels_name),
                     .sample = label_type(output, scores, options.plan.loss, options.plan.dense_labels),
                     .label = true,
                     .classes = classes_of(output.shape, scores, options.plan.loss)});
  return targets;
}

std::string list_some(const std::vector<std::string>& names) {
  constexpr std::size_t most = 4;
  std::string s;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) s += (i ? ", " : "") + names[i];
  return names.size() > most ? concat(s, ", ... (", names.size(), " in all)") : s;
}

}  // namespace

GraphSource Model::State::source(const ModelOptions& o) const {
  return [this, dims = o.dims, training = o.plan.mode == PlanMode::training](std::int64_t batch) {
    return file.graph({.batch = batch, .dims = dims, .training = training});
  };
}

Loader::RowsOf Model::State::rows_here() const {
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
  CompileOptions o = options.plan;
  o.mode = mode;
  o.batch = batch;
  const std::size_t index = running().add(plan_together(options.world, source(options), o, backends, &running().plan(0)));
  plans[{mode, batch}] = index;
  prepare_runner(index);
  return index;
}

void Model::State::prepare_runner(std::size_t index) {
  const Plan& plan = session->plan(index);
  Runner r;
  for (const HostInput& input : plan.inputs) {
    const auto target = std::find_if(targets.begin(), targets.end(), [&](const FeedTarget& t) { return t.name == input.name; });
    if (target == targets.end() && !is_step_state(input.name))
      fail("plan of '", plan.model, "': nothing feeds its input '", input.name, "'");
    r.targets.push_back(target == targets.end() ? -1 : static_cast<int>(target - targets.begin()));
  }
  r.inputs.resize(r.targets.size());
  r.ahead.resize(r.targets.size());
  for (const HostOutput& output : plan.outputs) {
    const std::size_t copies = output.combine == Combine::sum ? plan.devices.size() : 1;
    r.storage.emplace_back(copies * static_cast<std::size_t>(output.type.shape.elements()) * size_of(output.type.dtype));
  }
  for (auto& s : r.storage) r.outputs.push_back(s.data());
  if (runners.size() <= index) runners.resize(index + 1);
  runners[index] = std::move(r);
}

void Model::State::run(std::size_t plan, std::span<std::byte* const> inputs, double rate, const BatchAhead& ahead) {
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
  const OptimizerOptions& o = options.plan.optimizer;
  session->run(plan, r.inputs, r.outputs, {.learning_rate = rate, .step = step, .beta1 = o.beta1, .beta2 = o.beta2, .seed = options.seed}, next);
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
      report.loss_scale = static_cast<double>(*std::max_element(scales, scales + plan.devices.size()));
    }
    if (plan.outputs[i].name == "correct") {
      const std::int64_t rows =
          targets.back().label ? rows_per_sample(targets.back().sample, classes_of(output.shape, scores, options.plan.loss)) : 1;
      report.accuracy = value / static_cast<double>(plan.batch * rows);
    }
  }
  return report;
}

Model Model::load(const std::filesystem::path& path) {
  return Model(ModelFile::read(path));
}
Model::Model(ModelFile file) : state_(std::make_unique<State>(std::move(file))) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
const ModelFile& Model::file() const {
  return state_->file;
}

Summary Model::summary(const std::map<std::string, std::int64_t>& dims) const {
  return summarize(state_->file.graph({.batch = 1, .dims = dims}));
}

Plan Model::make_plan(const ModelOptions& o, Backends backends) const {
  return tandem::compile(state_->source(o), o.plan, backends);
}

std::string Model::training_graph(const ModelOptions& o) const {
  const auto samples = slice_sizes(o.plan.batch, [&] {
    std::vector<double> weights;
    for (const DeviceSpec& d : o.plan.devices) weights.push_back(d.weight);
    return weights;
  }());
  return onnx_of(tandem::training_graph(state_->source(o), o.plan, samples.at(0)));
}

DataRequest Model::data_request() const {
  return state_->running(), data_request(state_->options);
}

DataRequest Model::data_request(const ModelOptions& o) const {
  const Graph graph = state_->source(o)(o.plan.batch);
  DataRequest request{.seed = o.seed};
  for (const ValueId in : graph.inputs) {
    const TensorType& type = graph[in].type;
    if (!is_step_state(graph[in].name))
      request.inputs.push_back({.name = graph[in].name, .sample = {type.dtype, without_batch(type.shape)}});
  }
  if (o.plan.loss == "output" || graph.outputs.empty()) return request;
  const TensorType& output = graph[graph.outputs[0]].type;
  const Scores scores = scores_of(graph);
  request.label = label_type(output, scores, o.plan.loss, o.plan.dense_labels);
  request.classes = classes_of(output.shape, scores, o.plan.loss);
  return request;
}

bool Model::dense_labels(const Dataset& data, const ModelOptions& o) const {
  const Graph graph = state_->source(o)(o.plan.batch);
  if (graph.outputs.empty()) return false;
  const TensorType& output = graph[graph.outputs[0]].type;
  if (needs_dense_labels(o.plan.loss, output)) return true;
  for (const Field& field : data.fields())
    if (field.role == Role::label) {
      const std::int64_t each = without_batch(output.shape).elements(), have = field.sample.shape.elements();
      return is_float(field.sample.dtype) || (have > 1 && have == each);
    }
  return false;
}

void Model::check_data(const Dataset& data, const ModelOptions& o, const Preprocess& preprocess) const {
  Feed(data, targets_of(state_->source(o)(o.plan.batch), o), preprocess, o.seed).check_labels(o.plan.loss);
}

void Model::compile(const ModelOptions& options, Backends backends) {
  State& s = *state_;
  own_devices(options.plan.devices, options.world);
  Plan plan = plan_together(options.world, s.source(options), options.plan, backends, nullptr);
  const Graph graph = s.source(options)(options.plan.batch);
  const Initial initial = initialize(graph, options.init, options.seed);
  if (!initial.missing.empty() && options.plan.mode == PlanMode::inference)
    fail("model '", s.file.name(), "' has no values for ", list_some(initial.missing), ": train it first");
  s.session.reset();
  s.options = options;
  s.backends.assign(backends.begin(), backends.end());
  s.runners.clear();
  s.plans = {{{options.plan.mode, options.plan.batch}, 0}};
  s.notes.clear();
  s.step = 0;
  if (!initial.missing.empty())
    s.notes.push_back(concat("the template has no values for ", list_some(initial.missing), ": they start as he-normal"));
  if (!initial.constant.empty())
    s.notes.push_back(concat("all values are alike in ", list_some(initial.constant),
                             ": the model is an untrained template, initialise it with he-normal or glorot-uniform"));

  if (!graph.outputs.empty()) s.output = graph[graph.outputs[0]].type;
  s.scores = scores_of(graph);
  s.targets = targets_of(graph, options);
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

namespace {

// A batch's tensors as pointers in the targets' order, checked.
std::vector<std::byte*> pointers(std::span<const Tensor> tensors, std::span<const FeedTarget> targets, std::int64_t& batch) {
  if (tensors.size() != targets.size()) fail(ExitCode::data, "a batch of ", tensors.size(), " tensors for ", targets.size(), " inputs");
  std::vector<std::byte*> list;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const TensorType& got = tensors[i].type();
    if (i == 0) batch = got.shape.rank() ? got.shape[0] : 0;
    TensorType want = targets[i].sample;
    want.shape.dims.insert(want.shape.dims.begin(), batch);
    if (got != want) fail(ExitCode::data, "'", targets[i].name, "' given ", got, ", expected ", want);
    list.push_back(const_cast<std::byte*>(tensors[i].bytes().data()));
  }
  return list;
}

}  // namespace

StepReport Model::train_on_batch(std::span<const Tensor> inputs, double rate) {
  State& s = *state_;
  s.running();
  std::int64_t batch = 0;
  const std::vector<std::byte*> list = pointers(inputs, s.targets, batch);
  const std::size_t plan = s.plan_for(PlanMode::training, batch);
  ++s.step;
  s.run(plan, list, rate);
  return s.report(plan, rate);
}

std::vector<Tensor> Model::predict_on_batch(std::span<const Tensor> inputs) {
  State& s = *state_;
  s.running();
  std::int64_t batch = 0;
  const std::span<const FeedTarget> targets(s.targets.data(), s.targets.size() - (!s.targets.empty() && s.targets.back().label));
  std::vector<std::byte*> list = pointers(inputs, targets, batch);
  list.resize(s.targets.size());
  const std::size_t plan = s.plan_for(PlanMode::inference, batch);
  s.run(plan, list, 0);
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < s.runners[plan].storage.size(); ++i) {
    outputs.emplace_back(s.session->plan(plan).outputs[i].type);
    const auto to = outputs.back().write();
    std::copy_n(s.runners[plan].storage[i].begin(), to.size(), to.begin());
  }
  return outputs;
}

std::vector<NamedTensor> Model::parameters() const {
  return state_->running().parameters();
}
void Model::set_parameters(std::span<const NamedTensor> values) {
  Session& session = state_->running();
  session.set_parameters(share(state_->options.world, {values.begin(), values.end()}));
}

void Model::save(const std::filesystem::path& path, const SaveOptions& options) const {
  std::vector<ModelFile::Weight> weights;
  for (NamedTensor& p : parameters()) weights.push_back({std::move(p.name), std::move(p.tensor)});
  state_->file.write(path, std::move(weights), options);
}

}  // namespace tandem
