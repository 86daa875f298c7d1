#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/progress.h"
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
  const Dataset* validation = nullptr;      // measured after each epoch: the test part where there is no other
  const Dataset* test = nullptr;
};

RunData open_run_data(const Arguments& a, const DataRequest& request) {
  RunData data{.splits = open_data(a.text("data"), request)};
  data.train = data.splits.train.get();
  if (!data.train) fail(ExitCode::data, a.text("data"), " has no training part");
  data.validation = data.splits.validation.get();
  data.test = data.splits.test.get();
  if (const double share = a.number("validation-split"); share > 0) {
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
  config.insert(config.end(), resolved.object().begin(), resolved.object().end());
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

Json step_event(const StepReport& r) {
  return Json::Object{{"event", "step"}, {"step", r.step}, {"epoch", r.epoch}, {"loss", r.loss}, {"accuracy", r.accuracy},
                      {"learning_rate", r.learning_rate}, {"seconds", r.seconds},
                      {"samples_per_second", static_cast<double>(r.samples) / r.seconds}};
}

Json epoch_event(const EpochReport& r) {
  return Json::Object{{"event", "epoch"}, {"epoch", r.epoch}, {"step", r.step}, {"loss", r.loss}, {"accuracy", r.accuracy},
                      {"val_loss", r.val_loss}, {"val_accuracy", r.val_accuracy}, {"learning_rate", r.learning_rate},
                      {"seconds", r.seconds}, {"samples_per_second", r.samples_per_second}};
}

Json plan_event(const Plan& plan, std::int64_t bytes) {
  Json::Array devices;
  for (const DevicePlan& d : plan.devices)
    devices.push_back(Json::Object{{"device", to_string(d.device)}, {"samples", d.slice_size}, {"peak_bytes", d.peak_bytes()}, {"steps", d.steps.size()}});
  return Json::Object{{"event", "plan"}, {"model", plan.model}, {"batch_size", plan.batch}, {"predicted_peak_bytes", bytes},
                      {"predicted_step_seconds", plan.seconds}, {"devices", std::move(devices)}, {"hash", hash_of(plan)}};
}

int run(const Invocation& call) {
  const Arguments& a = call.arguments;
  const std::string& path = a.positional("model");
  a.require("data");
  ModelOptions options = model_options(call, PlanMode::training);
  options.init = a.text("init");
  options.seed = static_cast<std::uint64_t>(a.integer("seed"));
  if (a.text("keep") != "last" && a.text("keep") != "best") fail(ExitCode::usage, "--keep ", a.text("keep"), ": expected last or best");
  const bool dry = a.on("dry-run");
  if (!dry) check_outputs(a);

  Model model = Model::load(path);
  const BackendSet backends = BackendSet::load();
  backends.check(options.plan.devices, !dry);
  const RunData data = open_run_data(a, model.data_request(options));
  const FitOptions given = fit_options(a, data);
  options.plan.dense_labels = options.plan.dense_labels || model.dense_labels(*data.train, options);
  if (!a.text("also-training-graph").empty() && !dry) write_atomically(a.text("also-training-graph"), model.training_graph(options));
  if (dry) {
    options.plan.autotune = false;
    const Plan plan = model.make_plan(options, backends.all());
    std::int64_t most = 0;
    for (const DevicePlan& d : plan.devices) most = std::max(most, d.peak_bytes());
    if (call.json()) call.print(plan_event(plan, most));
    else call.write(text_of_plan(plan, false));
    return 0;
  }

  const Interrupt interrupt;
  if (options.plan.autotune) call.say("planning (kernels are timed; times are kept for the next run)");
  model.compile(options, backends.all());
  if (call.json()) call.print(plan_event(model.plan(), model.predicted_peak_bytes()));
  call.say(text_of_plan(model.plan(), false));
  for (const std::string& note : model.notes()) call.say("note: " + note);

  FitOptions fit = given;
  const std::int64_t batches = (data.train->size() + options.plan.batch - 1) / options.plan.batch;
  Progress progress(call, batches);
  fit.callbacks.on_step = [&](const StepReport& r) {
    if (call.json()) call.print(step_event(r));
    progress.step(r);
  };
  fit.callbacks.on_epoch = [&](const EpochReport& r) {
    if (call.json()) call.print(epoch_event(r));
    progress.epoch(r);
  };
  fit.callbacks.stop = [&] { return interrupt.signal() != 0; };
  call.say(fmt::format("training on {} samples of {}", data.train->size(), data.train->name()));
  const History history = [&] {
    try {
      return model.fit(*data.train, fit);
    } catch (...) {
      progress.clear();
      throw;
    }
  }();
  progress.clear();

  const bool kept = !fit.run_dir.empty();
  if (history.stopped && kept) {
    call.say(fmt::format("stopped after step {}; go on with --resume --run-dir {}", history.steps, fit.run_dir.string()));
    return static_cast<int>(ExitCode::resumable);
  }
  if (a.text("keep") == "best" && std::filesystem::exists(fit.run_dir / "best.checkpoint"))
    model.set_parameters(read_checkpoint(fit.run_dir / "best.checkpoint").weights);
  model.save(a.text("output"));
  if (history.stopped) {
    call.say(fmt::format("stopped after step {}; the weights so far are in {}", history.steps, a.text("output")));
    return signal_exit + interrupt.signal();
  }

  const EpochReport last = history.epochs.empty() ? EpochReport{} : history.epochs.back();
  Evaluation test{.loss = last.val_loss, .accuracy = last.val_accuracy, .samples = data.validation ? data.validation->size() : 0};
  if (data.test && (data.test != data.validation || a.text("keep") == "best"))
    test = model.evaluate(*data.test, {.batch = fit.eval_batch, .preprocess = fit.preprocess});
  if (call.json()) {
    call.print(Json::Object{{"event", "done"}, {"step", history.steps}, {"epoch", last.epoch}, {"loss", last.loss}, {"accuracy", last.accuracy},
                            {"val_loss", last.val_loss}, {"val_accuracy", last.val_accuracy}, {"test_loss", test.loss}, {"test_accuracy", test.accuracy},
                            {"samples_per_second", history.samples_per_second}, {"peak_bytes", model.allocated_bytes()},
                            {"predicted_peak_bytes", model.predicted_peak_bytes()}, {"output", a.text("output")}});
    return 0;
  }
  std::string result = fmt::format("trained {} steps, {:.0f} samples/s, loss {:.4f}", history.steps, history.samples_per_second, last.loss);
  if (std::isfinite(test.loss)) result += fmt::format("\nheld-out data ({} samples): loss {:.4f}", test.samples, test.loss);
  if (std::isfinite(test.accuracy)) result += fmt::format(", accuracy {:.2f}%", 100 * test.accuracy);
  call.write(result + fmt::format("\nwrote {}\n", a.text("output")));
  return 0;
}

}  // namespace

Command train_command() {
  return {
      .name = "train",
      .help = "train a model and write it back as ONNX",
      .positionals = {"model"},
      .usage = "MODEL.onnx --data SPEC [options]",
      .examples = "  tandem train models/lenet.onnx --data idx:data/mnist --normalize 0.1307,0.3081 --init he-normal \\\n"
                  "    --lr 0.05 --momentum 0.9 --epochs 5 --batch-size 128 --devices cpu:0-1 --run-dir runs/mnist\n"
                  "  tandem train models/lenet.onnx --data synthetic:digits --init he-normal --epochs 3 --lr-schedule cosine,warmup=0.5\n"
                  "  tandem train models/lenet.onnx --data idx:data/mnist --run-dir runs/mnist --resume\n"
                  "  tandem train models/resnet50.onnx --data random --steps 10 --batch-size 8 --dry-run\n",
      .options = join({data_rows(),
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
                           {"run-dir", "DIR", "", "keep checkpoints, metrics.csv, curves.svg, plan.txt and config.json there"},
                           {"resume", "", "off", "go on from --run-dir's last checkpoint"},
                           {"overwrite", "", "off", "start anew in a --run-dir that holds a run"},
                           {"checkpoint-steps", "N", "0", "write a checkpoint every N steps too (0: after epochs only)"},
                           {"keep", "NAME", "last", "which weights to write: last, or best by validation"},
                           {"output", "FILE", "trained.onnx", "the trained model"},
                           {"also-training-graph", "FILE", "", "write the training graph as ONNX, for a viewer"},
                           {"autotune", "", "on", "time kernels and choose the fastest"},
                           {"dry-run", "", "off", "check everything and show the plan, train nothing"},
                       },
                       device_rows()}),
      .run = run,
  };
}

}  // namespace tandem
