// `tandem train`: plans, trains, and writes the model, with what a signal or a full disk leaves of that.
#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <thread>

#include "base/spec.h"
#include "base/units.h"
#include "cli/bad_samples.h"
#include "cli/choices.h"
#include "cli/chosen_devices.h"
#include "cli/command.h"
#include "cli/find_rate.h"
#include "cli/interrupt.h"
#include "cli/mpi_ranks.h"
#include "cli/planned_options.h"
#include "cli/profile.h"
#include "cli/progress.h"
#include "cli/rank_flags.h"
#include "cli/ranks.h"
#include "cli/run_place.h"
#include "cli/step_watch.h"
#include "cli/table.h"
#include "cli/train_end.h"
#include "cli/train_events.h"
#include "cli/train_job.h"
#include "cli/train_outputs.h"
#include "options/data_flags.h"
#include "options/device_flags.h"
#include "options/loss_flags.h"
#include "options/plan_file_flags.h"
#include "options/model_options.h"
#include "options/optimizer_flags.h"
#include "options/train_flags.h"
#include "options/weight_flags.h"
#include "planner/memory_limit.h"
#include "planner/plan/plan_file.h"
#include "trainer/records/run_lock.h"

namespace tandem {
namespace {

constexpr double long_step = 60;  // seconds: whoever waits for it is told

// Where nobody asked for a batch it is one that fits: `plan` is made again with micro-batches of the power of two below what does.
void with_a_batch_that_fits(const Invocation& call, Prepared& job, const World* world, const std::function<void()>& plan) {
  try {
    plan();
  } catch (const BatchTooLarge& e) {
    if (call.arguments.given(device_flags.batch_size) || world) throw;
    const std::int64_t parts = job.options.plan.parallel.micro_batches;
    job.options.plan.batch = parts * static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(e.fits / parts)));
    const std::int64_t batch = job.options.plan.batch / call.arguments[optimizer_flags.accumulate];
    call.say(concat("note: ", e.what(), "; the batch size is ", batch, " (--batch-size overrules it)"));
    set_in_config(job.fit, device_flags.batch_size, batch);
    plan();
  }
}

std::vector<Choice> choices(const Invocation& call, const Model& model, const Prepared& job) {
  return choices_of(call.arguments, model, job);
}

void show_choices(const Invocation& call, const Model& model, const Prepared& job) {
  const std::string table = call.json() ? "" : text_of(choices(call, model, job), output_columns(call.streams, call.environment));
  if (!table.empty()) call.say(table);
}

// The opening of a run: three lines, and the plan's warnings; with --verbose the whole plan and the table of choices.
void show_opening(const Invocation& call, const Model& model, Prepared& job) {
  const std::vector<Choice> chosen = choices(call, model, job);
  if (!chosen.empty()) job.fit.choices = text_of(chosen, 120) + '\n';
  if (call.arguments[output_flags.verbose]) {
    if (!call.quiet()) call.streams.err << text_of_plan(model.plan(), false) << std::endl;
    for (const std::string& note : model.notes()) call.say("note: " + note);
    show_choices(call, model, job);
    return;
  }
  call.say(line_of_plan(model.plan()));
  std::string names;
  for (const Choice& c : chosen) names += concat(names.empty() ? "" : ", ", c.what, ' ', c.value);
  if (!names.empty()) call.say("chosen: " + names);
  const std::string folder = job.fit.run_dir.string();
  call.say(concat("the plan, the reason of each choice and the option that overrules it: ",
                  folder.empty() ? "" : concat(folder, "/plan.txt, or "), "--verbose"));
  for (const std::string& warning : model.plan().warnings) call.say("warning: " + warning);
  for (const std::string& note : model.notes()) call.say("note: " + note);
}

int show_plan(const Invocation& call, const Model& model, Prepared& job, const BackendSet& backends) {
  ModelOptions& options = job.options;
  options.plan.tuning.autotune = false;
  for (const std::string& note : backends.notes(options.plan.devices)) call.say("note: " + note);
  Plan plan;
  with_a_batch_that_fits(call, job, nullptr, [&] { plan = model.source().make_plan(options, backends.all()); });
  model.check_plans(plan, options, backends.all(), *job.data.train, job.data.test, job.fit);
  check_room(call.arguments, model, plan);
  show_choices(call, model, job);
  if (call.json())
    call.print(plan_event(plan, choices(call, model, job)));
  else
    call.write(text_of_plan(plan, false));
  return 0;
}

// What a signal will do, said when it comes: on a line of its own, also where a bar is drawn. A silent rank says nothing.
std::string answer_to_signal(const Invocation& call, std::string_view what) {
  return call.quiet() || !call.streams.err.rdbuf() ? "" : concat(call.streams.err_terminal ? "\n" : "", what, "\n");
}

// While rank 0 plans, the others wait for it and would not hear their own signal: a thread tells the ranks of it.
class PlanningWatch {
 public:
  PlanningWatch(const Interrupt& interrupt, World* world) {
    if (world && !is_first(world))
      thread_ = std::jthread([&interrupt, world](std::stop_token done) {
        while (!done.stop_requested() && interrupt.signal() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        if (!done.stop_requested()) world->stop(StoppedBySignal(interrupt.signal()).what());
      });
  }

 private:
  std::jthread thread_;
};

History fit(const Invocation& call, Model& model, Prepared& job, Interrupt& interrupt) {
  const std::int64_t batch = job.options.plan.batch;
  Progress progress(call, (job.data.train->size() + batch - 1) / batch,
                    call.arguments.given(metric_flags.metrics) ? call.arguments[metric_flags.metrics] : std::vector<std::string>{});
  const std::string folder = job.fit.run_dir.string(), grace = call.arguments.text(train_flags.grace);
  StepWatch watch(call, interrupt, folder, call.arguments[train_flags.grace]);
  job.fit.report_seconds = 0.2;
  job.fit.callbacks.on_begin = [&] { watch.begin(); };
  job.fit.callbacks.on_step = [&](const StepReport& r) {
    watch.end();
    if (call.json()) call.print(step_event(r));
    progress.step(r);
  };
  job.fit.callbacks.on_epoch = [&](const EpochReport& r) {
    watch.end();
    if (call.json()) call.print(epoch_event(r));
    progress.epoch(r);
  };
  if (const std::string file = call.arguments[record_flags.profile]; !file.empty())
    job.fit.callbacks.on_profile = [&call, &progress, file](const Plan& plan, const std::vector<Timeline>& measured) {
      progress.clear();
      try {
        report_profile(call, file, plan, measured);
      } catch (const Error& e) {
        call.warn(concat("no profile is kept: ", e.what()));
      }
    };
  job.fit.callbacks.on_validation = [&](std::int64_t done, std::int64_t all) { progress.validation(done, all); };
  const std::string answer = answer_to_signal(
      call, concat("stopping after this step or batch of validation: ",
                   folder.empty() ? concat("the weights so far go to ", unfinished(call.arguments[output_flags.output]))
                                  : concat("a checkpoint goes to ", folder),
                   "; after ", grace, " s in the same step the run ends with what it has kept; a second signal ends at once, without it"));
  job.fit.callbacks.on_warning = [&](const std::string& warning) {
    progress.clear();
    call.warn(warning);
  };
  std::atomic<bool> begun = false;
  job.fit.callbacks.stop = [&] {
    if (!begun.exchange(true)) interrupt.announce(answer, Interrupt::End::saved);  // asked for the first time, all is planned
    return watch.asked();
  };
  if (const double step = model.plan().seconds; step > long_step)
    call.say(concat("note: a step takes about ", text_of_seconds(step), " by estimate: after a signal the run waits ", grace,
                    " s for its end (--grace)"));
  call.say(fmt::format("training on {} samples of {}", job.data.train->size(), job.data.train->name()));
  return model.fit(*job.data.train, job.fit);
}

// --find-lr in place of a training.
int test_rates(const Invocation& call, Model& model, Prepared& job, Interrupt& interrupt, bool first) {
  interrupt.announce(answer_to_signal(call, "stopping the test of learning rates"), Interrupt::End::saved);
  job.fit.callbacks.stop = [&interrupt] { return interrupt.signal() != 0; };
  find_rate(call, model, *job.data.train, job.fit, first);
  return interrupt.signal() != 0 ? signal_exit + interrupt.signal() : 0;
}

void plan_run(const Invocation& call, Model& model, Prepared& job, const BackendSet& backends, Interrupt& interrupt, World* world) {
  const Arguments& a = call.arguments;
  job.options.plan.stop = [&interrupt, world] { return interrupt.signal() != 0 || (world && world->stopped()); };
  if (chooses_by_time(job.options.plan)) call.say("planning (kernels are timed; times are kept for the next run)");
  {
    const PlanningWatch watch(interrupt, world);
    with_a_batch_that_fits(call, job, world, [&] { model.compile(job.options, backends.all()); });
  }
  if (is_first(world)) {
    check_room(a, model, model.plan());
    if (a[output_flags.export_training_info]) check_training_info(a, model, job.fit.learning_rate.value_or(0));
    if (const std::string graph = a[output_flags.also_training_graph]; !graph.empty())
      write_training_graph(call, graph, model.source().training_graph(job.options));
  }
  if (call.json()) call.print(plan_event(model.plan(), choices(call, model, job)));
  show_opening(call, model, job);
}

int train_until_stopped(const Invocation& call, Model& model, Prepared& job, const BackendSet& backends, Interrupt& interrupt,
                        World* world) {
  const Arguments& a = call.arguments;
  const std::string output = a[output_flags.output];
  plan_run(call, model, job, backends, interrupt, world);
  if (!a[rate_flags.find_lr].empty()) return test_rates(call, model, job, interrupt, is_first(world));
  const History history = fit(call, model, job, interrupt);
  tell_bad_samples(call, job.fit.preprocess);
  if (history.stopped) return stopped(call, model, history, job, interrupt, world);
  const std::string answer =
      answer_to_signal(call, concat("stopping: ", output, " will be whole, what follows is left out; a second signal ends at once"));
  interrupt.announce(answer, Interrupt::End::saved);
  const std::vector<std::string> written = write_trained(call, model, job, history, world);
  interrupt.announce(answer, Interrupt::End::soon);
  return tell_result(call, model, job, history, written, interrupt);
}

// `world`: the other ranks, which do the same, or null. Only rank 0 writes.
int train(const Invocation& asked, World* world) {
  const bool dry = asked.arguments[output_flags.dry_run];
  RunPlace place(asked, world, dry);
  const Arguments& a = place.arguments();
  const Invocation call{a, asked.streams, asked.environment};
  Interrupt interrupt;
  interrupt.announce(answer_to_signal(call, "stopped before training: nothing was written"), Interrupt::End::at_once);
  const RunLock lock = is_first(world) ? check_outputs(call, world, dry) : RunLock();
  if (place.begin_anew_without_checkpoint(world))
    call.say(concat("note: ", a[record_flags.run_dir], " holds no checkpoint yet: the run starts anew"));
  WeightOptions weights = weight_options(a);
  weights.own_loss = !a.given(loss_flags.loss);
  if (weights.lora) weights.lora->seed = static_cast<std::uint64_t>(a[train_flags.seed]);
  Model model = load_model(a[model_file], world, weights);
  if (is_first(world) && !a[output_flags.output].empty()) check_export(a, model);
  const BackendSet backends = BackendSet::load(parse_devices(a[device_flags.devices]));
  Prepared job = prepare_training(call, model, backends, world);
  if (dry) return show_plan(call, model, job, backends);
  agree_on(world, facts_of(call, model, job.data, world), job.options.plan.devices, backends);
  place.say(call);
  const bool by_mpi = world && is_started_by_mpi(call);
  if (by_mpi) tell_words_at_once(*world, job.fit.run_dir);
  interrupt.announce(answer_to_signal(call, "stopping the planning: nothing is written"), Interrupt::End::soon);
  try {
    return train_until_stopped(call, model, job, backends, interrupt, world);
  } catch (const Stopped&) {
    if (interrupt.signal() == 0 && world) world->any(true);  // another rank has ended: fails, saying which
    throw StoppedBySignal(interrupt.signal());
  } catch (const Error& e) {
    // What mpirun sends when a rank has ended is no wish to stop.
    if (e.code() == ExitCode::communication && interrupt.signal() != 0 && !by_mpi) throw StoppedBySignal(interrupt.signal());
    throw;
  }
}

int run(const Invocation& asked) {
  const Arguments a = with_planned_options(asked);
  const Invocation call{a, asked.streams, asked.environment};
  if (const std::string run = a[record_flags.run_dir]; a[record_flags.resume] && !run.empty() && !a.has(model_file))
    fail(ExitCode::usage, run, " holds no run to resume (its config.json would name the model)");
  a[model_file];
  a.require(data_flags.data);
  if (!a[output_flags.dry_run]) a.require(output_flags.output);
  a[train_flags.grace], a[output_flags.keep];  // read now: a slip is told before anything is done
  const std::int64_t restarts = a[record_flags.restart];
  if (restarts > 0 && a[rank_flags.processes].value_or(1) == 1)
    fail(ExitCode::usage, "--restart ", restarts,
         " needs --processes, whose ranks it starts again (for other launchers: docs/clusters.md)");
  if (const std::string run = a[record_flags.run_dir]; restarts > 0 && (run.empty() || run == "none"))
    fail(ExitCode::usage, "--restart ", restarts, " needs --run-dir, the folder whose checkpoint the ranks go on from");
  if (!a[output_flags.dry_run]) return on_ranks(call, train, {.restarts = restarts, .one_for_each_gpu = true});
  const Arguments filled = with_devices(call, a[rank_flags.processes].value_or(1), true);
  return train({filled, call.streams, call.environment}, nullptr);
}

}  // namespace

Command train_command() {
  return {
      .name = "train",
      .help = "train a model and write it back as ONNX",
      .positionals = {model_file},
      .usage = "MODEL.onnx --data SPEC [options]",
      .examples =
          "  tandem train models/lenet.onnx --data idx:data/mnist --normalize 0.1307,0.3081 --init he-normal \\\n"
          "    --lr 0.02 --momentum 0.9 --epochs 5 --batch-size 128 --devices cpu:0-1 --run-dir runs/mnist\n"
          "  tandem train models/lenet.onnx --data synthetic:digits --init he-normal --epochs 3 --lr-schedule cosine,warmup=0.5\n"
          "  tandem train --run-dir runs/mnist --resume --epochs 8\n"
          "  tandem train models/resnet50.onnx --data random --steps 10 --batch-size 8 --dry-run\n"
          "  tandem train models/lenet.onnx --data synthetic:digits --init he-normal --devices cpu:0-3 --processes 4\n"
          "  mpirun -np 4 tandem train models/lenet.onnx --data synthetic:digits --init he-normal --devices cpu:0-3\n",
      .notes =
          "signals:\n"
          "  Ctrl-C, SIGTERM, SIGHUP (the terminal was closed), SIGUSR1, SIGUSR2 (Slurm's --signal=USR1@60) and SIGXCPU end a run after\n"
          "  its step or within its validation: a checkpoint is written and the exit code is 75 (--resume goes on from there); without a\n"
          "  run's folder the weights so far go beside the output. A step that does not end in time (--grace) is given up: the exit code\n"
          "  is 75, too, and the run goes on from its last checkpoint. A second Ctrl-C or SIGTERM ends at once.\n",
      .options = {&data_flags, &loss_flags, &target_flags, &metric_flags, &optimizer_flags, &rate_flags, &train_flags, &output_flags,
                  &record_flags, &weight_flags, &tune_flags, &adapter_flags, &device_flags, &placement_flags,
                  &plan_file_flags, &rank_flags},
      .run = run,
  };
}

}  // namespace tandem
