// What compile makes of a template: the first plan, its session, first values, and what a user should know of these.
#include <algorithm>

#include "base/memory.h"
#include "base/option.h"
#include "importer/build/settle_batch_normalization.h"
#include "planner/check_options.h"
#include "trainer/compiled_model.h"
#include "trainer/devices.h"
#include "trainer/loss_measures.h"
#include "trainer/share.h"
#include "trainer/template/given_plan.h"
#include "trainer/template/graph_file.h"
#include "trainer/template/input_options.h"
#include "trainer/template/teacher.h"

namespace tandem {
namespace {

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

void refuse_open_inputs(const Graph& graph, const std::string& model) {
  if (const auto open = without_samples(graph); !open.empty())
    fail(ExitCode::usage, "model '", model, "': its input '", graph[open[0]].name, "' ", graph[open[0]].type,
         " holds no samples and has no value: ", option("set"), " ", graph[open[0]].name, "=VALUE gives one");
}

// What a file that is trained by these options says of how its data was prepared; fit adds what the data says.
PreparationWords words_of(const ModelOptions& o) {
  const LossOptions& loss = o.plan.loss;
  PreparationWords words{{"loss", loss.name}};
  if (!loss.on.empty()) words["loss_on"] = loss.on;
  if (loss.class_axis) words["class_axis"] = std::to_string(*loss.class_axis);
  if (loss.ignore_index) words["ignore_index"] = std::to_string(*loss.ignore_index);
  if (loss.shift_labels) words["shift_labels"] = "on";
  if (const std::string text = text_of_constants(o.constants); !text.empty()) words["set"] = text;
  if (const std::string text = text_of_axes(o.batch_axes); !text.empty()) words["batch_axis"] = text;
  return words;
}

}  // namespace

void CompiledModel::compile(const ModelOptions& wished, Backends on) {
  own_devices(wished.plan.devices, wished.world);
  std::optional<Plan> given = given_plan(wished);
  const ModelOptions asked = given ? followed(wished, *given) : wished;
  refuse_external_loss(asked.plan);
  source.check_buckets(asked);
  Losses wanted = source.losses_if_any(asked);
  check_initialization(asked.init);
  const bool keeps = !asked.plans.empty() && (!asked.world || asked.world->rank() == 0);
  KeptPlans kept = keeps ? KeptPlans(asked.plans, asked.resume) : KeptPlans();
  const Graph graph = source.graphs(asked)(asked.micro_batch());
  refuse_open_inputs(graph, source.file().name());
  const bool inference = asked.plan.mode == PlanMode::inference;
  const PlanKey key = first_key(asked, wanted);
  std::string anew;
  if (!asked.world || asked.world->rank() == 0) {
    const World::Busy busy(asked.world);
    given = fitting(std::move(given), source, asked, key, wanted, on, anew);
  }
  Plan plan = plan_together(asked.world, kept, source.graphs(asked, key, wanted), source.plan_options(asked), on, nullptr,
                            given ? &*given : nullptr);
  Initial values = first_values(source.file(), graph, asked, on);
  if (session) keep_values(values, session->parameters());
  if (!values.missing.empty() && inference)
    fail("model '", source.file().name(), "' has no values for ", list_some(values.missing), ": train it first");

  initial = !session;
  forget();
  options = asked;
  backends.assign(on.begin(), on.end());
  kept_plans = std::move(kept);
  losses = std::move(wanted);
  by_batch = inference && normalizes_by_batch(graph);
  last.preparation = words_of(asked);
  if (!anew.empty()) notes.push_back(std::move(anew));
  note_values(values);
  note_files(graph);
  if (inference)
    for (std::string& note : training_mode_notes(graph)) notes.push_back(std::move(note));
  settle_forms(graph);
  source.file().release_graphs();
  source.file().release_values();
  release_free_memory();  // of importing and planning
  session = std::make_unique<Session>(std::move(plan), backends, options.world);
  for (const auto& [list, role] : {std::pair{&values.values, ValueRole::plain}, {&values.teacher, ValueRole::teacher}})
    for (NamedTensor& value : *list) session->set_parameters(share(options.world, {std::exchange(value, {})}), role);
  source.file().release_values();  // constants that the plan holds
  start_states();
  start_averages();
  plans = {{key, 0}};
  prepare_runner(0, key);
}

void CompiledModel::forget() {
  session.reset();
  runners.clear();
  plans.clear();
  file_sessions.clear();
  gradient_sessions.clear();
  notes.clear();
  step = 0;
}

void CompiledModel::note_values(const Initial& values) {
  const auto note = [&](const auto&... parts) { notes.push_back(concat(parts...)); };
  if (kept_plans.made_anew())
    note(options.plans.string(), " keeps no plan for this model with these devices and options: it is planned anew, ",
         "and results may differ in their last bits from those of a run without the break");
  if (!values.missing.empty())
    note("the template has no values for ", list_some(values.missing), ": they start as he-normal (", option("init"), " names another)");
  if (!values.chosen.empty())
    note("the template holds no trained weights: they start as ", values.chosen, " (", option("init"), " names another, ", option("init"),
         " keep takes the template's)");
  if (!values.constant.empty())
    note("all values are equal in ", list_some(values.constant), ", and gradient descent keeps them equal: ", option("init"),
         " he-normal or glorot-uniform draws random ones");
}

// What losses and a teacher of other files are given of the model.
void CompiledModel::note_files(const Graph& graph) {
  for (const auto& loss : source.loss_files(options, graph))
    if (loss) notes.push_back("loss " + loss->text());
  if (options.teacher.empty() || options.plan.mode == PlanMode::inference) return;
  const std::string path = options.teacher.string();
  const std::string text = Teacher(path, source.other_file(path), graph).text(graph[student_value(graph, options.plan)].name);
  if (!text.empty()) notes.push_back("teacher " + text);
}

void CompiledModel::settle_forms(const Graph& graph) {
  targets = targets_of(graph, losses, options.plan);
  bucket_forms.clear();
  for (std::size_t bucket = 0; bucket < bucket_count(options); ++bucket) {
    const Losses at = bucket == 0 ? losses : source.losses_if_any(options, bucket);
    const auto classes = std::find_if(at.begin(), at.end(), [](const Labels& l) { return l.axis >= 0; });
    bucket_forms.push_back({.shapes = {}, .positions = classes == at.end() ? 1 : classes->positions(), .losses = at});
    for (const FeedTarget& target :
         bucket == 0 ? targets : targets_of(source.graphs(options, bucket)(options.micro_batch()), at, options.plan))
      bucket_forms.back().shapes.push_back(target.sample.shape);
  }
}

std::int64_t CompiledModel::predicted_peak_bytes() const {
  const Session& opened = running();
  std::int64_t most = 0;
  for (std::size_t d = 0; d < opened.plan(0).devices.size(); ++d) {
    // Constants are each plan's own; a plan that needs more of another arena than those before it takes a new one.
    std::map<ArenaKind, std::int64_t> largest;
    std::int64_t sum = 0;
    for (std::size_t p = 0; p < runners.size(); ++p)
      for (const Arena& arena : opened.plan(p).program_of(d).arenas) {
        std::int64_t& there = largest[arena.kind];
        if (arena.kind != ArenaKind::constants && arena.bytes <= there) continue;
        sum += arena.bytes;
        there = arena.bytes;
      }
    most = std::max(most, sum);
  }
  return most;
}

std::int64_t CompiledModel::allocated_bytes() const {
  std::int64_t most = 0;
  for (int d = 0; d < running().devices(); ++d) most = std::max(most, session->allocated_bytes(d));
  return most;
}

}  // namespace tandem
