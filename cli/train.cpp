#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/train_events.h"
#include "planner/plan/plan_file.h"
#include "trainer/checkpoint.h"
#include "trainer/file.h"
#include "trainer/spec.h"

namespace tandem {
namespace {

constexpr int signal_exit = 128;  // plus the signal's number

// The parts of the data that a run uses.
struct RunData {
  Splits splits;
  std::unique_ptr<Dataset> kept, held_out;  // of the training part, with --validation-split
  const Dataset* train = nullptr;
  const Dataset* validation = nullptr;  // measured after each epoch: the test part where there is no other
  const Dataset* test = nullptr;
};

RunData open_run_data(const Arguments& a, const DataRequest& request) {
  RunData data{.splits = open_data(a.text("data"), request)};
  data.train = data.splits.train.get();
  if (!data.train) fail(ExitCode::data, a.text("data"), " has no training part");
  data.validation = data.splits.validation.get();
  data.test = data.splits.test.get();
  if (const double share = a.number("validation-split"); share != 0) {
    std::tie(data.kept, data.held_out) = hold_out(*data.train, share, request.seed);
    data.train = data.kept.get();
    data.validation = data.held_out.get();
  }
  if (!data.validation) data.validation = data.test;
  return data;
}

FitOptions fit_options(const Arguments& a, const RunData& data) {
  FitOptions o;
  o.steps = a.integer("steps");
  o.epochs = a.given("steps") && !a.given("epochs") ? 0 : a.integer("epochs");
  o.learning_rate = a.number("lr");
  o.schedule = parse_schedule(a.text("lr-schedule"));
  o.preprocess = preprocess(a);
  parse_augment(o.preprocess, a.text("augment"));
  o.shuffle = a.on("shuffle");
  o.validation = data.validation;
  o.eval_batch = a.integer("eval-batch-size");
  o.run_dir = a.text("run-dir");
  o.resume = a.on("resume");
  o.checkpoint_steps = a.integer("checkpoint-steps");
  Json::Object config{{"command", "train"}};
  const Json resolved = a.resolved();
  for (const auto& [key, value] : resolved.object()) config.emplace_back(key, key == "epochs" ? Json(o.epochs) : value);
  o.config = std::move(config);
  return o;
}

// Every file that will be written can be: found out before anything is trained.
void check_outputs(const Arguments& a) {
  check_writable_file(a.text("output"));
  if (!a.text("also-training-graph").empty()) check_writable_file(a.text("also-training-graph"));
  const std::filesystem::path run = a.text("run-dir");
  if (run.empty()) {
    for (const char* option : {"resume", "overwrite"})
      if (a.on(option)) fail(ExitCode::usage, "--", option, " needs --run-dir");
    if (a.text("keep") == "best") fail(ExitCode::usage, "--keep best needs --run-dir, where the best checkpoint is kept");
    return;
  }
  make_writable_folder(run);
  const bool there = std::filesystem::exists(run / "last.checkpoint");
  if (a.on("resume") && !there) fail(ExitCode::usage, run.string(), " holds no checkpoint to resume");
  if (!a.on("resume") && !a.on("overwrite") && there)
    fail(ExitCode::usage, run.string(), " holds a run: --resume goes on with it, --overwrite starts anew");
}

// What the commands' flags come to, before any device is opened.
struct Job {
  ModelOptions options;
  FitOptions fit;
  RunData data;
};

Job prepare(const Invocation& call, const Model& model, const BackendSet& backends, World* world) {
  const Arguments& a = call.arguments;
  const World::Busy busy(world);
  Job job;
  job.options = model_options(call, PlanMode::training);
  job.options.init = a.text("init");
  job.options.seed = static_cast<std::uint64_t>(a.integer("seed"));
  job.options.world = world;
  if (!a.text("run-dir").empty()) job.options.plans = std::filesystem::path(a.text("run-dir")) / "plans";
  job.options.resume = a.on("resume");
  const std::vector<DeviceSpec>& devices = job.options.plan.devices;
  backends.check(a.on("dry-run") ? devices : own_devices(devices, world), !a.on("dry-run"));
  job.data = open_run_data(a, model.data_request(job.options));
  job.fit = fit_options(a, job.data);
  job.options.plan.dense_labels = job.options.plan.dense_labels || model.dense_labels(*job.data.train, job.options);
  for (const Dataset* data : {job.data.train, job.data.validation, job.data.test})
    if (data && data->size() > 0) model.check_data(*data, job.options, job.fit.preprocess);
  return job;
}

// What every rank must have found alike.
std::vector<World::Fact> facts_of(const RunData& data) {
  const auto size = [](const Dataset* d) { return text_of(d ? d->size() : 0); };
  return {{"training samples", size(data.train)}, {"validation samples", size(data.validation)}, {"test samples", size(data.test)}};
}

int show_plan(const Invocation& call, const Model& model, ModelOptions options, const BackendSet& backends) {
  options.plan.autotune = false;
  for (const std::string& note : backends.notes(options.plan.devices)) call.say("note: " + note);
  const Plan plan = model.make_plan(options, backends.all());
  if (call.json())
    call.print(plan_event(plan));
  else
    call.write(text_of_plan(plan, false));
  return 0;
}

History fit(const Invocation& call, Model& model, Job& job, const Interrupt& interrupt) {
  const std::int64_t batch = job.options.plan.batch;
  Progress progress(call, (job.data.train->size() + batch - 1) / batch);
  job.fit.callbacks.on_step = [&](const StepReport& r) {
    if (call.json()) call.print(step_event(r));
    progress.step(r);
  };
  job.fit.callbacks.on_epoch = [&](const EpochReport& r) {
    if (call.json()) call.print(epoch_event(r));
    progress.epoch(r);
  };
  job.fit.callbacks.stop = [&] { return interrupt.signal() != 0; };
  call.say(fmt::format("training on {} samples of {}", job.data.train->size(), job.data.train->name()));
  return model.fit(*job.data.train, job.fit);
}

// What the weights that were written give on data that was not trained on: the last epoch has measured that, or not.
Evaluation held_out(const Arguments& a, Model& model, const Job& job, const EpochReport& last) {
  const Dataset *const validation = job.data.validation, *const data = job.data.test ? job.data.test : validation;
  if (!data || data->size() == 0) return {};
  if (data == validation && a.text("keep") == "last" && std::isfinite(last.val_loss))
    return {.loss = last.val_loss, .accuracy = last.val_accuracy, .samples = data->size()};
  return model.evaluate(*data, {.batch = job.fit.eval_batch, .preprocess = job.fit.preprocess});
}

// The weights of the best checkpoint, if one was kept; only rank 0 has the run's folder.
void take_best(Model& model, const std::filesystem::path& file, World* world) {
  const bool here = is_first(world) && std::filesystem::exists(file);
  if (world ? world->any(here) : here) model.set_parameters(here ? read_checkpoint(file).weights : std::vector<NamedTensor>{});
}

// `world`: the other ranks, which do the same, or null. Only rank 0 writes.
int train(const Invocation& call, World* world) {
  const Arguments& a = call.arguments;
  const bool first = is_first(world), dry = a.on("dry-run");
  if (!dry && first) check_outputs(a);
  Model model = load_model(a.positional("model"), world);
  const BackendSet backends = BackendSet::load(parse_devices(a.text("devices")));
  Job job = prepare(call, model, backends, world);
  if (dry) return show_plan(call, model, job.options, backends);
  agree_on(world, facts_of(job.data), job.options.plan.devices, backends);

  const Interrupt interrupt;
  const std::string &output = a.text("output"), &graph = a.text("also-training-graph");
  if (!graph.empty() && first) write_atomically(graph, model.training_graph(job.options));
  if (chooses_by_time(job.options.plan)) call.say("planning (kernels are timed; times are kept for the next run)");
  model.compile(job.options, backends.all());
  if (call.json()) call.print(plan_event(model.plan()));
  call.say(text_of_plan(model.plan(), false));
  for (const std::string& note : model.notes()) call.say("note: " + note);

  const History history = fit(call, model, job, interrupt);
  const std::filesystem::path& folder = job.fit.run_dir;
  if (history.stopped && !folder.empty()) {
    call.say(fmt::format("stopped after step {}; go on with --resume --run-dir {}", history.steps, folder.string()));
    return static_cast<int>(ExitCode::resumable);
  }
  if (a.text("keep") == "best") take_best(model, folder / "best.checkpoint", world);
  if (first) {
    const World::Busy busy(world);
    model.save(output);
  }
  if (history.stopped) {
    call.say(fmt::format("stopped after step {}; the weights so far are in {}", history.steps, output));
    return signal_exit + (interrupt.signal() != 0 ? interrupt.signal() : SIGINT);  // or another rank's
  }

  const EpochReport last = history.epochs.empty() ? EpochReport{.loss = not_measured} : history.epochs.back();
  const Evaluation test = held_out(a, model, job, last);
  if (call.json()) {
    call.print(done_event(model, history, last, test, output));
    return 0;
  }
  std::string result = fmt::format("trained {} {}", history.steps, history.steps == 1 ? "step" : "steps");
  if (history.samples_per_second > 0) result += fmt::format(", {:.0f} samples/s", history.samples_per_second);
  if (std::isfinite(last.loss)) result += fmt::format(", loss {:.4f}", last.loss);
  if (std::isfinite(test.loss)) result += fmt::format("\nheld-out data ({} samples): loss {:.4f}", test.samples, test.loss);
  if (std::isfinite(test.accuracy)) result += fmt::format(", accuracy {:.2f}%", 100 * test.accuracy);
  call.write(result + fmt::format("\nwrote {}\n", output));
  return 0;
}

int run(const Invocation& call) {
  const Arguments& a = call.arguments;
  if (const std::string& run = a.text("run-dir"); a.on("resume") && !run.empty() && !a.has_positional("model"))
    fail(ExitCode::usage, run, " holds no run to resume (its config.json would name the model)");
  a.positional("model");
  a.require("data");
  if (!a.on("dry-run")) a.require("output");
  if (a.text("keep") != "last" && a.text("keep") != "best") fail(ExitCode::usage, "--keep ", a.text("keep"), ": expected last or best");
  return a.on("dry-run") ? train(call, nullptr) : on_ranks(call, train);
}

}  // namespace

Command train_command() {
  return {
      .name = "train",
      .help = "train a model and write it back as ONNX",
      .positionals = {"model"},
      .usage = "MODEL.onnx --data SPEC [options]",
      .examples =
          "  tandem train models/lenet.onnx --data idx:data/mnist --normalize 0.1307,0.3081 --init he-normal \\\n"
          "    --lr 0.02 --momentum 0.9 --epochs 5 --batch-size 128 --devices cpu:0-1 --run-dir runs/mnist\n"
          "  tandem train models/lenet.onnx --data synthetic:digits --init he-normal --epochs 3 --lr-schedule cosine,warmup=0.5\n"
          "  tandem train --run-dir runs/mnist --resume --epochs 8\n"
          "  tandem train models/resnet50.onnx --data random --steps 10 --batch-size 8 --dry-run\n"
          "  tandem train models/lenet.onnx --data synthetic:digits --init he-normal --devices cpu:0-3 --processes 4\n"
          "  mpirun -np 4 tandem train models/lenet.onnx --data synthetic:digits --init he-normal --devices cpu:0-3 --address node1:29500\n",
      .options = join(
          {data_rows(),
           training_rows(),
           {
               {"lr", "X", "0.01", "learning rate"},
               {"lr-schedule", "SPEC", "constant", "constant, step[,every=10][,factor=0.1] or cosine[,final=0]; with [,warmup=EPOCHS]"},
               {"epochs", "N", "1", "times through the data (with --steps alone: as many as those take)"},
               {"steps", "N", "0", "stop after so many steps (0: no limit)"},
               {"validation-split", "SHARE", "0", "hold out this share of the training data and measure it after each epoch"},
               {"augment", "LIST", "", "crop[=PIXELS] (pad 4, then crop at random) and flip"},
               {"shuffle", "", "on", "shuffle the data anew for every epoch"},
               {"init", "NAME", "keep", "first weights: keep (the template's), he-normal or glorot-uniform"},
               {"seed", "N", "1", "of weights, order, augmentation and dropout"},
               {"eval-batch-size", "N", "0", "batch of evaluations (0: as in training)"},
               {"run-dir", "DIR", "", "keep checkpoints, metrics.csv, curves.svg, plan.txt, the plans and config.json there"},
               {"resume", "", "off", "go on from --run-dir's last checkpoint, with the options of that run where none are given and with its plans"},
               {"overwrite", "", "off", "start anew in a --run-dir that holds a run"},
               {"checkpoint-steps", "N", "0", "write a checkpoint every N steps too (0: after epochs only)"},
               {"keep", "NAME", "last", "which weights to write: last, or best by validation"},
               {"output", "FILE", "trained.onnx", "the trained model"},
               {"also-training-graph", "FILE", "", "write the training graph as ONNX, for a viewer"},
               {"autotune", "", "on", "time kernels and choose the fastest (not with --deterministic)"},
               {"dry-run", "", "off", "check everything and show the plan, train nothing"},
           },
           device_rows(),
           rank_rows()}),
      .run = run,
  };
}

}  // namespace tandem
