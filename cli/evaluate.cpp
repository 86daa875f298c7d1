#include <fmt/format.h>

#include <cmath>

#include "cli/bad_samples.h"
#include "cli/evaluation_text.h"
#include "cli/inference.h"
#include "cli/planned_options.h"
#include "cli/progress.h"
#include "cli/rank_flags.h"
#include "options/data_flags.h"
#include "options/device_flags.h"
#include "options/loss_flags.h"
#include "options/plan_file_flags.h"
#include "options/weight_flags.h"
#include "trainer/records/evaluation_json.h"

namespace tandem {
namespace {

int evaluate(const Invocation& call, World* world) {
  auto [model, backends, run] = open_inference(call, world, Purpose::evaluate);
  const Dataset& data = *run.data.part;
  model.compile(run.options, backends.all());
  for (const std::string& note : model.notes()) call.say("note: " + note);
  Progress progress(call);
  EvaluateOptions measuring = run.measuring();
  measuring.on_batch = [&](std::int64_t done, std::int64_t all) { progress.samples(done, all); };
  const Evaluation e = model.evaluate(data, measuring);
  progress.clear();
  tell_bad_samples(call, run.fit.preprocess);
  const auto ended = [&] {
    if (std::isfinite(e.loss)) return 0;
    call.say(concat("error: the loss is ", std::isnan(e.loss) ? "not a number" : "infinite",
                    ": look for weights or outputs that are not finite"));
    return static_cast<int>(ExitCode::diverged);
  };
  if (call.json()) {
    call.print(Json::Object{{"data", data.name()},
                            {"samples", e.samples},
                            {"loss", e.loss},
                            {"accuracy", e.accuracy},
                            {"samples_per_second", e.samples_per_second},
                            {"metrics", json_of(e).at("metrics")},
                            {"tables", json_of(e).at("tables")}});
    return ended();
  }
  std::string text = fmt::format("{}: {} samples, loss {:.4f}", data.name(), e.samples, e.loss);
  if (std::isfinite(e.accuracy)) text += fmt::format(", accuracy {:.2f}%", 100 * e.accuracy);
  call.write(text + "\n" + text_of(e, run.fit.metrics));
  return ended();
}

int run(const Invocation& call) {
  const Arguments a = with_planned_options(call);
  a[model_file];
  a.require(data_flags.data);
  return on_ranks({a, call.streams, call.environment}, evaluate);
}

}  // namespace

Command evaluate_command() {
  return {
      .name = "evaluate",
      .help = "measure a model's loss, accuracy and other metrics on data",
      .positionals = {model_file},
      .usage = "MODEL.onnx --data SPEC [options]",
      .examples =
          "  tandem evaluate trained.onnx --data idx:data/mnist --normalize 0.1307,0.3081\n"
          "  tandem evaluate trained.onnx --data npz:data.npz --split train --json\n"
          "  tandem evaluate trained.onnx --data idx:data/mnist --metrics f1,top5,per-class,confusion\n"
          "  tandem evaluate --config runs/mnist/config.json    # what that run wrote, on its data\n"
          "  tandem evaluate trained.onnx --data idx:data/mnist --devices cpu:0-3 --processes 2\n",
      .options = {&data_flags, &split_flags, &adapter_flags, &loss_flags, &metric_flags, &timing_flags, &device_flags, &plan_file_flags,
                  &rank_flags},
      .run = run,
      .uses_trained = true,
  };
}

}  // namespace tandem
