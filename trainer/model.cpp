#include "trainer/model.h"

#include <algorithm>
#include <set>

#include "base/memory.h"
#include "base/option.h"
#include "base/pattern.h"
#include "base/spec.h"
#include "importer/build/settle_batch_normalization.h"
#include "planner/check_options.h"
#include "trainer/feed/decodable.h"
#include "trainer/feed/index_range.h"
#include "trainer/initialize.h"
#include "trainer/input_options.h"
#include "trainer/loss_measures.h"
#include "trainer/model_state.h"
#include "trainer/share.h"
#include "trainer/teacher.h"

namespace tandem {
namespace {

Shape without_batch(const Shape& s) {
  return s.rank() == 0 ? s : Shape(std::vector<std::int64_t>(s.begin() + 1, s.end()));
}

// What a model takes of each sample: its inputs, then the labels and weights that its losses take.
std::vector<FeedTarget> targets_of(const Graph& graph, const Losses& losses, const CompileOptions& o) {
  std::vector<FeedTarget> targets;
  for (const ValueId in : graph.inputs) {
    const Value& value = graph[in];
    if (value.role != ValueRole::plain || !value.depends_on_batch) continue;
    targets.push_back({.name = value.name,
                       .sample = {value.type.dtype, without_batch(value.type.shape)},
                       .indices = index_range(graph, in),
                       .nan = is_float(value.type.dtype) && takes_nan(graph, in)});
  }
  bool weighted = false;
  for (const Labels& l : losses) {
    weighted = weighted || l.weighted;
    if (!l.sample) continue;
    FeedTarget target{.name = l.input(),
                      .sample = *l.sample,
                      .label = true,
                      .indices = {.count = l.classes, .ignored = l.ignore},
                      .loss = l.loss,
                      .of = l.output};
    if (o.loss.shift_labels && l.axis >= 0) target.ahead = l.ignore;
    if (const auto in = l.of_file() ? graph.find(ValueRole::label, l.output) : std::nullopt) target.indices = index_range(graph, *in);
    targets.push_back(std::move(target));
  }
  if (weighted) targets.push_back(weights_target());
  return targets;
}

// Inputs that hold no samples.
std::vector<ValueId> without_samples(const Graph& graph) {
  std::vector<ValueId> list;
  for (const ValueId in : graph.inputs)
    if (const Value& v = graph[in]; v.role == ValueRole::plain && !v.depends_on_batch) list.push_back(in);
  return list;
}

// Data that is only measured need not have the weights that the training's had.
Losses unweighted(Losses losses, const Dataset& data) {
  const auto fields = data.fields();
  if (std::none_of(fields.begin(), fields.end(), [](const Field& f) { return f.role == Role::weight; }))
    for (Labels& l : losses) l.weighted = false;
  return losses;
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

}  // namespace

Model Model::load(const std::filesystem::path& path, const WeightOptions& weights) {
  ModelFile file = ModelFile::read(path, weights);
  std::vector<std::string> names;
  for (const TemplateTensor& t : file.tensors()) names.push_back(t.name);
  for (const auto& [field, patterns] : {std::pair{"trainable", &weights.trainable}, {"constant", &weights.constant}})
    for (const std::string& pattern : *patterns)
      if (std::none_of(names.begin(), names.end(), [&, &p = pattern](const std::string& name) { return matches_any(name, {p}); })) {
        const std::string near = nearest(pattern, names);
        fail(ExitCode::usage, option(field), " '", pattern, "': model '", file.name(), "' holds no float tensor of that name",
             near.empty() ? concat(": ", function("ModelFile::tensors()"), " lists them") : concat(", did you mean '", near, "'?"));
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
  const ImportOptions import{.batch = 1,
                             .dims = options.dims,
                             .constants = options.constants,
                             .max_loop_iterations = options.max_loop_iterations,
                             .batch_axes = options.batch_axes};
  CompileOptions names{.trained = {.freeze = options.freeze, .unfreeze = options.unfreeze}};
  for (const TemplateTensor& t : file.tensors()) names.trained.tensors.push_back(t.name);
  freeze_base(file, names.trained.freeze, names.trained.unfreeze);
  std::vector<Problem> problems = file.problems(import);
  if (!problems.empty()) return outline(file.name(), file.outline(import), file.tensors(), std::move(problems), names);
  Summary summary = summarize(file.graph(import), file.tensors(), names);
  summary.adapters = static_cast<std::int64_t>(file.adapters().size());
  for (const TemplateTensor& t : file.tensors())
    for (const LoraAdapter& adapter : file.adapters())
      if (t.name == adapter.a || t.name == adapter.b) summary.in_adapters += t.type.shape.elements();
  return summary;
}

Plan Model::make_plan(const ModelOptions& o, Backends backends) const {
  state_->check_buckets(o);
  return tandem::compile(state_->source(o), state_->plan_options(o), backends);
}

void Model::check_plans(const Plan& first, const ModelOptions& o, Backends backends, const Dataset& data, const Dataset* test,
                        const FitOptions& fit) const {
  const State& s = *state_;
  const Losses losses = s.losses_if_any(o);
  const Graph graph = s.source(o)(o.plan.batch);
  const auto gives_bytes = [&](const Dataset& from) {
    return Feed(from, targets_of(graph, unweighted(losses, from), o.plan), fit.preprocess, o.seed).give_bytes(o.plan.given_bytes);
  };
  std::vector<PlanKey> keys = keys_of_training(data.size(), o.plan.batch, gives_bytes(data), bucket_count(o));
  for (const Dataset* measured : {fit.validation, test}) {
    if (!measured || measured->size() == 0) continue;
    const std::vector<PlanKey> more = keys_of_measuring(measured->size(), fit.eval_batch > 0 ? fit.eval_batch : o.plan.batch,
                                                        gives_bytes(*measured), losses, evaluation_of(losses, fit.metrics));
    keys.insert(keys.end(), more.begin(), more.end());
  }
  std::set<PlanKey> made{{.mode = o.plan.mode, .batch = o.plan.batch, .bytes = !o.plan.given_bytes.empty()}};
  for (const PlanKey& key : keys)
    if (made.insert(key).second) tandem::compile(s.source(o, key, losses), s.plan_options(o, key), backends, &first);
}

std::string Model::training_graph(const ModelOptions& o) const {
  if (o.plan.mode == PlanMode::inference) return onnx_of(state_->source(o)(o.plan.batch));
  return onnx_of(tandem::training_graph(state_->source(o), state_->plan_options(o)));
}

DataRequest Model::data_request() const {
  state_->running();  // fails where nothing was compiled
  return data_request(state_->options);
}

DataRequest Model::data_request(const ModelOptions& o) const {
  DataRequest request{
      .seed = o.seed, .class_names = state_->class_names(), .means = state_->means(), .training = o.plan.mode == PlanMode::training};
  const Graph graph = state_->source(o)(o.plan.batch);
  for (const FeedTarget& target : targets_of(graph, {}, o.plan))
    request.inputs.push_back({.name = target.name, .sample = target.sample, .indices = target.indices});
  for (const ValueId in : without_samples(graph))
    request.constants.push_back({.name = graph[in].name, .sample = graph[in].type, .indices = index_range(graph, in)});
  const Losses losses = state_->losses_if_any(o);
  if (losses.empty() || !losses[0].sample) return request;
  const Labels& labels = losses[0];
  request.label = *labels.sample;
  request.classes = labels.classes;
  request.label_pad = labels.ignore;
  request.label_rows = labels.positions();
  return request;
}

std::optional<DataRequest> Model::dims_request(const ModelOptions& o) const {
  DataRequest request{.seed = o.seed, .class_names = {}, .means = {}, .training = o.plan.mode == PlanMode::training};
  bool open = false;
  for (const InputForm& input : file().input_forms(import_options(o, o.plan.batch, false))) {
    (input.batch_axis >= 0 ? request.inputs : request.constants).push_back({.name = input.name, .sample = {}});
    open = open || !input.open.empty();
  }
  return open ? std::optional(request) : std::nullopt;
}

void Model::fit_dims(ModelOptions& o, const Dataset& data) const {
  const auto fields = data.fields();
  const std::map<std::string, Tensor> constants = data.constants();
  const std::vector<InputForm> inputs = file().input_forms(import_options(o, o.plan.batch, false));
  const auto alone = std::ranges::count_if(inputs, [](const InputForm& i) { return i.batch_axis >= 0; }) == 1;
  for (const InputForm& input : inputs) {
    Shape shape;
    if (input.batch_axis >= 0) {
      const auto fits = [&](const Field& f) { return f.role == Role::input && !f.encoded && (f.name == input.name || alone); };
      const auto field = std::ranges::find_if(fields, fits);
      if (field == fields.end()) continue;
      shape = field->sample.shape;
      shape.dims.insert(shape.dims.begin(), o.plan.batch);
    } else if (const auto known = constants.find(input.name); known != constants.end()) {
      shape = known->second.shape();
    }
    input.take_sizes(shape, o.dims);
  }
}

void Model::fit_constants(ModelOptions& o, const Dataset& data) const {
  const std::map<std::string, Tensor> given = data.constants();
  for (const auto& [name, value] : o.data_constants) {
    const auto it = given.find(name);
    if (it == given.end() || it->second == value) continue;
    fail(ExitCode::data, data.name(), ": the value of the model's input '", name,
         "' is another than that of the training data; it holds no samples and is the same for all parts");
  }
  const Graph graph = state_->source(o)(o.plan.batch);
  for (const ValueId in : without_samples(graph)) {
    const auto it = given.find(graph[in].name);
    if (it == given.end())
      fail(ExitCode::data, data.name(), " has no value for the model's input '", graph[in].name, "' ", graph[in].type,
           ", which holds no samples: an array of its shape (npz, npy) or ", option("set"), " ", graph[in].name, "=VALUE gives one");
    o.data_constants.insert_or_assign(it->first, it->second);
  }
}

std::string Model::fit_labels(ModelOptions& o, const Dataset& data) const {
  const auto fields = data.fields();
  if (!o.plan.loss.sample_weights)
    o.plan.loss.sample_weights = std::any_of(fields.begin(), fields.end(), [](const Field& f) { return f.role == Role::weight; });
  std::string assumed = assume_loss(o, data);
  ModelOptions plain = o;  // whether labels are indices, which other options want, is found out here
  plain.plan.loss.ignore_index.reset();
  plain.plan.loss.shift_labels = false;
  plain.plan.loss.class_weights.clear();
  const Losses losses = state_->losses_for(plain);  // names what is wrong
  const bool one = losses.size() == 1;
  std::vector<CompileOptions> forms = options_of_losses(o.plan);
  const auto add = [&](const std::string& more) { assumed += concat(assumed.empty() || more.empty() ? "" : "; ", more); };
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (data.follows_request()) {
      add(o.plan.mode == PlanMode::training ? "" : losses[i].assumed);  // a plan for training says it itself
      continue;
    }
    const auto with = [&](bool named) {
      return std::find_if(fields.begin(), fields.end(),
                          [&](const Field& f) { return f.role == Role::label && (!named || f.name == losses[i].output); });
    };
    const auto field = one || with(true) == fields.end() ? with(false) : with(true);
    CompileOptions& form = one ? o.plan : forms[i];
    if (field == fields.end())
      form.loss.dense_labels = form.loss.dense_labels || (losses[i].sample && is_float(losses[i].sample->dtype));
    else
      add(tandem::fit_labels(state_->source(o), form, field->sample));
    if (!one) o.plan.loss.label_forms[losses[i].output] = {form.loss.dense_labels, form.loss.class_axis, form.loss.label_length};
  }
  return assumed;
}

std::string Model::check_data(const Dataset& data, const ModelOptions& o, const Preprocess& preprocess) const {
  check_image_files(data, preprocess);
  const auto targets = [&](std::size_t bucket) {
    return targets_of(state_->source(o, bucket)(o.plan.batch), unweighted(state_->losses_for(o, bucket), data), o.plan);
  };
  Feed feed(data, targets(0), preprocess, o.seed);
  feed.check_values(o.plan.loss.name);
  std::vector<std::vector<Shape>> shapes;
  for (std::size_t bucket = 0; bucket < bucket_count(o); ++bucket) {
    shapes.emplace_back();
    for (const FeedTarget& target : targets(bucket)) shapes.back().push_back(target.sample.shape);
  }
  const std::string text = Buckets(feed, std::move(shapes)).text();
  return feed.assumed().empty() || text.empty() ? feed.assumed() + text : concat(feed.assumed(), "; ", text);
}

void Model::fit_inputs(ModelOptions& o, const Dataset& data, const Preprocess& preprocess) const {
  o.plan.given_bytes.clear();
  const bool some = std::ranges::any_of(data.fields(), [](const Field& f) { return f.encoded || f.sample.dtype == DType::uint8; });
  if (!some || bucket_count(o) > 1) return;  // no graph is made for nothing
  Feed feed(data, targets_of(state_->source(o)(o.plan.batch), unweighted(state_->losses_if_any(o), data), o.plan), preprocess, o.seed);
  // by the model's axes
  const auto placed = [&](const std::string& name) { return o.plan.placement && o.plan.placement->values.contains(name); };
  for (std::size_t t = 0; t < feed.targets().size(); ++t)
    if (auto bytes = feed.as_bytes(t); bytes && !placed(feed.targets()[t].name))
      o.plan.given_bytes.emplace(feed.targets()[t].name, std::move(*bytes));
}

void Model::check(const ModelOptions& o, Backends backends) const {
  check_initialization(o.init);
  state_->check_buckets(o);
  if (!file().adapters().empty() && o.init != "auto" && o.init != "keep")
    fail(ExitCode::usage, option("init"), " ", o.init, " draws weights anew that ", option("lora"),
         " would build upon: leave one of them out");
  tandem::check_options(state_->source(o), state_->plan_options(o), backends);
  state_->losses_if_any(o);
}

void Model::compile(const ModelOptions& options, Backends backends) {
  State& s = *state_;
  own_devices(options.plan.devices, options.world);
  s.check_buckets(options);
  Losses losses = s.losses_if_any(options);
  check_initialization(options.init);
  const bool keeps = !options.plans.empty() && (!options.world || options.world->rank() == 0);
  KeptPlans kept = keeps ? KeptPlans(options.plans, options.resume) : KeptPlans();
  const Graph graph = s.source(options)(options.plan.batch);
  if (const auto open = without_samples(graph); !open.empty())
    fail(ExitCode::usage, "model '", s.file.name(), "': its input '", graph[open[0]].name, "' ", graph[open[0]].type,
         " holds no samples and has no value: ", option("set"), " ", graph[open[0]].name, "=VALUE gives one");
  const bool inference = options.plan.mode == PlanMode::inference;
  PlanKey key{.mode = options.plan.mode, .batch = options.plan.batch, .bytes = !options.plan.given_bytes.empty()};
  if (inference && options.measures) key.evaluation = evaluation_of(losses, options.metrics);
  Plan plan = plan_together(options.world, kept, s.source(options, key, losses), s.plan_options(options), backends, nullptr);
  Initial initial = s.first_values(graph, options, backends);
  s.initial = !s.session;
  if (s.session) keep_values(initial, parameters());
  if (!initial.missing.empty() && inference)
    fail("model '", s.file.name(), "' has no values for ", list_some(initial.missing), ": train it first");
  s.session.reset();
  s.options = options;
  s.backends.assign(backends.begin(), backends.end());
  s.runners.clear();
  s.plans = {{key, 0}};
  s.file_sessions.clear();
  s.gradient_sessions.clear();
  s.kept_plans = std::move(kept);
  s.notes.clear();
  s.step = 0;
  if (s.kept_plans.made_anew())
    s.notes.push_back(concat(options.plans.string(), " keeps no plan for this model with these devices and options: it is planned anew, "
                             "and results may differ in their last bits from those of a run without the break"));
  if (!initial.missing.empty())
    s.notes.push_back(concat("the template has no values for ", list_some(initial.missing), ": they start as he-normal (", option("init"),
                             " names another)"));
  if (!initial.chosen.empty())
    s.notes.push_back(concat("the template holds no trained weights: they start as ", initial.chosen, " (", option("init"),
                             " names another, ", option("init"), " keep takes the template's)"));
  if (!initial.constant.empty())
    s.notes.push_back(concat("all values are alike in ", list_some(initial.constant),
                             ": no training tells such weights apart (", option("init"), " he-normal or glorot-uniform draws them)"));

  s.preparation = {{"loss", options.plan.loss.name}};
  if (!options.plan.loss.on.empty()) s.preparation["loss_on"] = options.plan.loss.on;
  if (options.plan.loss.class_axis) s.preparation["class_axis"] = std::to_string(*options.plan.loss.class_axis);
  if (options.plan.loss.ignore_index) s.preparation["ignore_index"] = std::to_string(*options.plan.loss.ignore_index);
  if (options.plan.loss.shift_labels) s.preparation["shift_labels"] = "on";
  if (const std::string text = text_of_constants(options.constants); !text.empty()) s.preparation["set"] = text;
  if (const std::string text = text_of_axes(options.batch_axes); !text.empty()) s.preparation["batch_axis"] = text;
  for (const auto& loss : s.loss_files(options, graph))
    if (loss) s.notes.push_back("loss " + loss->text());
  if (!options.teacher.empty() && !inference)
    if (const std::string text = Teacher(options.teacher.string(), s.other_file(options.teacher.string()), graph)
                                     .text(graph[student_value(graph, options.plan)].name);
        !text.empty())
      s.notes.push_back("teacher " + text);
  s.by_batch = inference && normalizes_by_batch(graph);
  if (inference)
    for (std::string& note : training_mode_notes(graph)) s.notes.push_back(std::move(note));
  s.losses = std::move(losses);
  s.targets = targets_of(graph, s.losses, options.plan);
  s.bucket_forms.clear();
  for (std::size_t bucket = 0; bucket < bucket_count(options); ++bucket) {
    const Losses at = bucket == 0 ? s.losses : s.losses_if_any(options, bucket);
    const auto classes = std::find_if(at.begin(), at.end(), [](const Labels& l) { return l.axis >= 0; });
    s.bucket_forms.push_back({.shapes = {}, .positions = classes == at.end() ? 1 : classes->positions(), .losses = at});
    for (const FeedTarget& target : bucket == 0 ? s.targets : targets_of(s.source(options, bucket)(options.plan.batch), at, options.plan))
      s.bucket_forms.back().shapes.push_back(target.sample.shape);
  }
  s.file.release_graphs();
  release_free_memory();  // of importing and planning
  s.session = std::make_unique<Session>(std::move(plan), s.backends, options.world);
  s.session->set_parameters(share(options.world, initial.values));
  s.session->set_parameters(share(options.world, initial.teacher), ValueRole::teacher);
  s.start_states();
  s.start_averages();
  s.prepare_runner(0, key);
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
      for (const Arena& arena : session.plan(p).program_of(d).arenas) {
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

void Model::gather_parameters() { state_->running().gather_parameters(); }
std::vector<NamedTensor> Model::parameters() const {
  return state_->running().parameters();
}
void Model::set_parameters(std::span<const NamedTensor> values) {
  Session& session = state_->running();
  state_->initial = false;
  session.set_parameters(share(state_->options.world, {values.begin(), values.end()}));
}
void Model::set_optimizer_state(std::span<const NamedTensor> values) {
  state_->running().set_parameters(share(state_->options.world, {values.begin(), values.end()}), ValueRole::optimizer_state);
}

}  // namespace tandem
