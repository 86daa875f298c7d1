// From a graph to a plan: the planner's table of contents.
#include "planner/compile.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/memory.h"
#include "base/option.h"
#include "base/printable.h"
#include "planner/check_options.h"
#include "planner/check_sizes.h"
#include "planner/device_models.h"
#include "planner/loss/external_loss.h"
#include "planner/loss/labels.h"
#include "planner/lower_programs.h"
#include "planner/memory/assemble.h"
#include "planner/memory_limit.h"
#include "planner/offload_programs.h"
#include "planner/passes/run_passes.h"
#include "planner/pipeline/schedules.h"
#include "planner/place/by_rules.h"
#include "planner/place/find_phases.h"
#include "planner/plan/timeline.h"
#include "planner/programs.h"
#include "planner/rewrite/fusing.h"
#include "planner/rewrite/pass.h"
#include "planner/update/loss_scaling.h"
#include "planner/update/optimizer.h"
#include "planner/warnings.h"

namespace tandem {
namespace {

// An output of a plan's graph, as the host knows it: a model's own is found by its name.
HostOutput output_of(const Graph& graph, const GraphOutput& out) {
  switch (out.role) {
    case ValueRole::loss: return {.name = "loss", .role = out.role};
    case ValueRole::metric:
    case ValueRole::measure: return {.name = out.of, .role = out.role, .of = out.of};
    default: return {.name = out.of.empty() ? graph[out].name : out.of};
  }
}

// One compilation, in the order of its functions. `optional_fusions`: use forms of nodes that may or may not pay off. If absent, the
// compilation decides (by time, where kernels are timed) and stores its decision here.
class Compilation {
 public:
  Compilation(const GraphSource& source, const CompileOptions& options, Backends backends, const Plan* parameters_of,
              std::optional<bool>& optional_fusions)
      : source_(source),
        o_(of_micro_batch(options)),
        backends_(backends),
        parameters_of_(parameters_of),
        optional_fusions_(optional_fusions),
        training_(options.mode == PlanMode::training),
        external_(has_external_loss(options)),
        collective_(training_ && computing_devices(options).size() > 1) {}

  Plan run() {
    begin();
    make_graphs();
    find_units();
    choose_kernels();
    rows_.resize(outputs_.size());
    return assembled();
  }

 private:
  void begin() {
    check_options(source_, o_, backends_);
    plan_.mode = o_.mode;
    plan_.batch = o_.batch * o_.parallel.micro_batches;
    plan_.micro_batches = o_.parallel.micro_batches;
    plan_.precision = o_.precision;
    plan_.options = o_.kernel;
    plan_.options.tf32 = o_.precision == Precision::tf32;
    if (!training_) return;
    plan_.loss = o_.loss.on.empty() ? o_.loss.name : concat(o_.loss.name, " on ", o_.loss.on);
    if (external_) return;
    plan_.optimizer = to_string(o_.optimizer);
    if (const auto scaling = loss_scaling_of(o_)) plan_.optimizer += concat(", loss scale from ", scaling->start);
    losses_ = losses_of(source_, o_);
  }

  // Builds one graph for all devices and cuts it into programs. Where optional fusions are undecided, does so with and without them.
  void make_graphs() {
    model_ = source_(o_.batch);
    if (!training_ || external_) rows_ = output_rows(source_, model_, o_.batch);
    if (computing_devices(o_).size() > 1) placement_ = placement_of(source_, model_, rows_, o_, parameters_of_);
    slices_ = slices_of(o_, placement_);
    if (make_graph(o_, optional_fusions_.value_or(true)) && !optional_fusions_ && chooses_by_time(o_)) {
      CompileOptions unwatched = o_;  // one is shown
      unwatched.passes.after = {};
      unwatched.passes.not_fused = {};
      unwatched.passes.on_placement = {};
      make_graph(unwatched, false);
    }
  }

  // Returns whether some form was optional.
  bool make_graph(const CompileOptions& o, bool optional_fusions) {
    bool optional = false;
    PassContext context{.options = o, .samples = o.batch, .losses = training_ ? &losses_ : nullptr};
    context.placement = placement_;
    context.parameters_of = parameters_of_;
    context.fuses = [&, gains = gains_on(o, backends_)](const KernelRequest& request) {
      const Gain gain = gains(request);
      optional |= gain == Gain::optional;
      return gain == Gain::yes || (gain == Gain::optional && optional_fusions);
    };
    Graph whole = run_passes(passes_of(o.mode), model_, context);
    verify(whole);
    if (has_phases(o)) find_phases(whole, o.parallel.zero > 2, splits_backward(o.parallel.schedule.kind));
    if (graphs_.empty()) begin_with(whole, context);
    graphs_.push_back(programs_of(std::move(whole), o));
    return optional;
  }

  void begin_with(const Graph& graph, const PassContext& context) {
    plan_.model = model_.name;
    for (const GraphOutput& out : training_ ? graph.outputs : model_.outputs)
      outputs_.push_back(output_of(training_ ? graph : model_, out));
    for (std::size_t i = rows_.size(); external_ && i < outputs_.size(); ++i) {
      const GraphOutput& out = graph.outputs[i];  // the gradient of an input has the input's rows
      const bool rows = out.role == ValueRole::measure && graph[out].depends_on_batch;
      rows_.push_back(rows ? graph[out].type.shape[0] / o_.batch : 0);
    }
    if (training_) plan_.warnings = model_.warnings;
    plan_.warnings.insert(plan_.warnings.end(), context.warnings.begin(), context.warnings.end());
    plan_.transfers = context.transfers;
  }

  void find_units() {
    for (const DeviceSpec& d : o_.devices) {
      auto& tuner = tuners_[d.id.backend];
      if (!tuner)
        tuner = std::make_unique<Tuner>(find_backend(backends_, d.id.backend), chooses_by_time(o_), o_.tuning.cache, o_.tuning.retune,
                                        [this] { ask(); }, machine_is_quiet, o_.tuning.without);
    }
    models_ = models_of(o_, backends_, plan_.warnings);
    unit_of_.resize(o_.devices.size());
    for (std::size_t d = 0; d < unit_of_.size(); ++d)
      if (!kept_by(d)) find_unit(d, {});
    for (std::size_t d = 0; d < unit_of_.size(); ++d)
      if (const auto sender = kept_by(d)) find_unit(d, unit_of_[*sender]);
    for (const Programs& graphs : graphs_)
      for (const Unit& u : units_) check_sizes(graphs.graphs[u.graph], {u.backend, u.device}, u.model);
    plan_.options.threads = models_[0].threads;
  }

  // Whose activations the device keeps.
  std::optional<std::size_t> kept_by(std::size_t device) const {
    const auto& on = o_.memory.activations_on;
    const auto sender = std::ranges::find(on, static_cast<int>(device));
    return sender == on.end() ? std::nullopt : std::optional(static_cast<std::size_t>(sender - on.begin()));
  }

  void find_unit(std::size_t d, std::optional<std::size_t> keeps_for) {
    const DeviceId& id = o_.devices[d].id;
    const std::size_t graph = graphs_.front().of[d];  // which device does what is the same of all
    const auto same = std::find_if(units_.begin(), units_.end(), [&](const Unit& u) {
      return u.backend == id.backend && u.graph == graph && u.keeps_for == keeps_for && u.model.threads == models_[d].threads &&
             u.model.name == models_[d].name;
    });
    unit_of_[d] = static_cast<std::size_t>(same - units_.begin());
    if (same == units_.end()) units_.push_back({id.backend, graph, slices_[d].size, models_[d], id.index, keeps_for});
  }

  // For each graph and layout preference that is open; the estimated faster one is kept. A plan that shares another's parameters keeps
  // their layouts.
  void choose_kernels() {
    std::vector<LayoutPreference> preferences{LayoutPreference::blocked, LayoutPreference::channels_last};
    if (o_.layout)
      preferences = {*o_.layout};
    else if (parameters_of_)
      preferences = {parameters_of_->options.preference};
    for (const Programs& graphs : graphs_)
      for (const LayoutPreference preference : preferences) {
        KernelOptions kernel = plan_.options;
        kernel.preference = preference;
        LoweredPrograms programs = lower_programs(graphs, units_, kernel, tuners_, training_, parameters_of_);
        if (best_.graphs && programs.seconds >= best_.seconds) continue;
        best_ = std::move(programs);
        plan_.options.preference = preference;
      }
    if (graphs_.size() > 1) optional_fusions_ = best_.graphs == &graphs_.front();
    ask();
    for (const auto& program : best_.programs)
      for (const std::string& warning : program->warnings)
        if (std::find(plan_.warnings.begin(), plan_.warnings.end(), warning) == plan_.warnings.end()) plan_.warnings.push_back(warning);
  }

  // Order of updates, memory shared in place, then slices, sums, concats and offsets.
  Plan assembled() {
    if (has_phases(o_))
      for (const auto& program : best_.programs) arrange_phases(*program);
    if (training_) save_memory();
    assemble_programs(plan_, best_.programs);
    plan_.seconds = seconds_of(plan_);
    for (std::string& warning : warnings_of(plan_, o_, model_)) plan_.warnings.push_back(std::move(warning));
    for (const Labels& l : losses_)
      if (!l.assumed.empty()) plan_.warnings.push_back(l.assumed);
    warn_of_names();
    warn_of_times();
    return std::move(plan_);
  }

  // Activations that are computed again, or kept by other devices, in each program by itself. What is tried is one program of a plan of
  // all.
  void save_memory() {
    const bool elsewhere = training_ && !o_.memory.activations_on.empty() && (!o_.memory.budget || has_budget(o_));
    if (!elsewhere && !o_.memory.budget && o_.memory.recompute.empty()) return;
    Plan whole = planned(best_.programs);
    std::vector<ProgramToOffload> senders;
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (!elsewhere || !units_[u].keeps_for) senders.push_back(sender_of(u, whole));
    if (elsewhere) return offload_programs(plan_, best_.programs, senders, o_, [this](const UnitPrograms& p) { return planned(p); });
    std::vector<ProgramToRecompute> programs;
    for (const ProgramToOffload& s : senders) programs.push_back(s.program);
    plan_.recompute = recompute_programs(programs, o_);
  }

  Plan planned(const UnitPrograms& programs) const {
    UnitPrograms all;
    for (const auto& program : programs) all.push_back(std::make_unique<LoweredGraph>(*program));
    Plan plan = plan_;
    assemble_programs(plan, all);
    plan.seconds = seconds_of(plan);
    return plan;
  }

  // `whole`: a plan of all programs; exchanges that it does not have are added.
  ProgramToOffload sender_of(std::size_t u, Plan& whole) const {
    const auto device = static_cast<std::size_t>(std::ranges::find(unit_of_, u) - unit_of_.begin());
    ProgramToOffload sender{{best_.programs[u].get(), device, {}, {}}, {}, {}};
    ProgramToRecompute& p = sender.program;
    for (std::size_t i = 0; i < p.program->outputs.size(); ++i) {
      const std::size_t output = best_.graphs->outputs.empty() ? i : at(best_.graphs->outputs[best_.graphs->of[device]][i]);
      if (outputs_[output].role == ValueRole::loss) p.losses.push_back(i);
    }
    p.bytes_of = [this, &whole, device](LoweredGraph program) {
      finish(program);
      for (const Exchange& e : program.exchanges)
        if (std::ranges::find(whole.exchanges, e.name, &Exchange::name) == whole.exchanges.end()) whole.exchanges.push_back(e);
      const DeviceProgram own = assemble_program(whole, whole.devices[device].program, replica_of(device, program), o_);
      return ProgramBytes{own.peak_bytes(), own.arenas[static_cast<std::size_t>(ArenaKind::scratch)].bytes};
    };
    if (o_.memory.activations_on.empty()) return sender;
    for (std::size_t d = 0; d < unit_of_.size(); ++d) {
      const int keeper = o_.memory.activations_on[d];
      if (unit_of_[d] != u || keeper < 0) continue;
      sender.pairs.push_back({static_cast<int>(d), keeper});
      if (std::ranges::find(sender.keepers, unit_of_[at(keeper)]) == sender.keepers.end()) sender.keepers.push_back(unit_of_[at(keeper)]);
    }
    if (sender.pairs.empty()) return sender;
    const auto keeper = at(sender.pairs[0].keeper);
    const bool same_kind = o_.devices[device].id.backend == o_.devices[keeper].id.backend;
    sender.link.beside = backend(o_.devices[device].id.backend).stages_inputs();
    sender.link.seconds = [this, device, keeper, same_kind](std::int64_t bytes) {
      return seconds_to_send(bytes, models_[device], models_[keeper], same_kind);
    };
    return sender;
  }

  void finish(LoweredGraph& program) const {
    if (!collective_ && !has_phases(o_)) schedule_updates(program);
    share_in_place(program);
    if (o_.weight_gradients_beside && training_) put_weight_gradients_beside(program);
  }

  Replica replica_of(std::size_t d, const LoweredGraph& program) const {
    const bool stages_inputs = backend(o_.devices[d].id.backend).stages_inputs();
    Replica replica{o_.devices[d], models_[d], slices_[d].begin, slices_[d].size, &program, stages_inputs,
                    only_keeps(o_, static_cast<int>(d))};
    if (!best_.graphs->outputs.empty()) replica.outputs = best_.graphs->outputs[best_.graphs->of[d]];
    const std::size_t sender = only_keeps(o_, static_cast<int>(d)) ? *kept_by(d) : d;  // in whose order it does what it does
    if (has_phases(o_)) replica.schedule = stage_schedule(o_, placement_, static_cast<int>(sender));
    return replica;
  }

  // Fills the plan by these programs, by unit.
  void assemble_programs(Plan& plan, const UnitPrograms& programs) const {
    for (const auto& program : programs) finish(*program);
    std::vector<Replica> replicas;
    for (std::size_t d = 0; d < o_.devices.size(); ++d) replicas.push_back(replica_of(d, *programs[unit_of_[d]]));
    if (o_.parallel.micro_batches > 1 && placement_ && placement_->stages > 1) plan.schedule = to_string(o_.parallel.schedule);
    assemble(plan, replicas, outputs_, rows_, o_, parameters_of_);
  }

  // A plan that shares another's parameters, such as an evaluation's, has only some of its steps.
  void warn_of_names() {
    if (parameters_of_) return;
    for (const std::string& name : o_.tuning.without)
      if (!name.empty() && std::ranges::none_of(tuners_, [&](const auto& tuner) { return tuner.second->left_out(name); }))
        plan_.warnings.push_back(concat(option("without_kernels"), ": no kernel that this model could take has a name that begins with '",
                                        printable(name), "'"));
  }

  void warn_of_times() {
    for (const auto& [name, tuner] : tuners_) {
      for (const std::string& kernel : tuner->ended_processes())
        plan_.warnings.push_back(
            concat("kernel ", kernel, " is left out: a process ended while it was timed. ", option("retune"), " times it again"));
      if (const std::size_t disturbed = tuner->disturbed(); disturbed > 0)
        plan_.warnings.push_back(
            concat(disturbed, " of the ", tuner->used(), " kernel times (", name,
                   ") were measured while other programs used the cores: the choice of kernels and "
                   "the estimated step are rough. The next plan on a quiet machine measures them again, and may choose other kernels; ",
                   option("retune"), " measures all again now"));
    }
  }

  const Backend& backend(const std::string& name) const { return tuners_.at(name)->backend(); }
  void ask() const {
    if (o_.stop && o_.stop()) throw Stopped();
  }

  const GraphSource& source_;
  const CompileOptions o_;  // of a micro-batch
  const Backends backends_;
  const Plan* const parameters_of_;
  std::optional<bool>& optional_fusions_;
  const bool training_, external_, collective_;
  Plan plan_;
  Losses losses_;  // of training
  Graph model_;                                                  // of the whole batch
  std::optional<PlacementRequest> placement_;                    // where there are several devices
  std::vector<SliceOfBatch> slices_;                             // by device
  std::vector<Programs> graphs_;                                 // with optional fusions first
  std::vector<HostOutput> outputs_;                              // without their types
  std::vector<std::int64_t> rows_;                               // by output: how many are one sample's; 0: it is no rows
  Tuners tuners_;
  std::vector<DeviceModel> models_;                              // by device
  std::vector<Unit> units_;
  std::vector<std::size_t> unit_of_;                             // by device
  LoweredPrograms best_;
};

}  // namespace

Graph training_graph(const GraphSource& source, const CompileOptions& asked) {
  CompileOptions options = asked;
  options.mode = PlanMode::training;
  options = of_micro_batch(options);
  const Losses losses = has_external_loss(options) ? Losses() : losses_of(source, options);
  PassContext context{.options = options, .samples = options.batch, .losses = &losses};
  const Graph model = source(options.batch);
  if (computing_devices(options).size() > 1) context.placement = placement_of(source, model, {}, options, nullptr);
  Graph whole = run_passes(passes_of(options.mode), model, context);
  return context.placed() ? joined(programs_of(std::move(whole), options), options) : whole;
}

std::vector<std::int64_t> free_memory(const std::vector<DeviceSpec>& devices, DeviceRange own, Backends backends) {
  std::vector<std::int64_t> free(devices.size());
  for (std::size_t d = static_cast<std::size_t>(own.first); d < static_cast<std::size_t>(own.first + own.count); ++d)
    free[d] = find_backend(backends, devices[d].id.backend).free_memory(devices[d].id.index, devices_of_a_machine(devices));
  return free;
}

Plan compile(const GraphSource& source, const CompileOptions& o, Backends backends, const Plan* parameters_of) {
  std::optional<bool> optional_fusions;
  // A budget that is what fits is that of a plan without one.
  const auto compile_for = [&](const CompileOptions& options) {
    Plan plan = Compilation(source, options, backends, parameters_of, optional_fusions).run();
    CompileOptions within = options;
    if (!options.memory.budget || !options.memory.budget->fit) return plan;
    within.memory.budget->bytes = room_for(plan, options);
    return within.memory.budget->bytes.empty() ? plan : Compilation(source, within, backends, parameters_of, optional_fusions).run();
  };
  // A plan with parameters of its own needs memory that is free now.
  const auto limited = [&] {
    CompileOptions limits = o;
    if (parameters_of)
      limits.memory.free.clear();
    else if (limits.memory.free.empty())
      limits.memory.free = free_memory(o.devices, {0, static_cast<int>(o.devices.size())}, backends);
    return limits;
  };
  try {
    const bool by_memory = o.memory.budget || o.parallel.pipeline != 1;  // stages are cut by what fits
    Plan plan = within_memory([&] { return compile_for(by_memory ? limited() : o); }, "planning for a batch of ", o.batch);
    check_memory(plan, limited(), compile_for);
    verify(plan);
    return plan;
  } catch (const ValueTooLarge& e) {
    refuse_batch(concat(e.what(), ", for a batch of ", o.batch), limited(), compile_for);
  }
}

}  // namespace tandem
