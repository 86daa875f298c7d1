#include <fmt/format.h>

#include <cmath>

#include "cli/command.h"
#include "cli/model_options.h"

namespace tandem {
namespace {

int run(const Invocation& call) {
  const Arguments& a = call.arguments;
  const std::string& path = a.positional("model");
  a.require("data");
  ModelOptions options = model_options(call, PlanMode::inference);
  Model model = Model::load(path);
  const BackendSet backends = BackendSet::load(parse_devices(a.text("devices")));
  backends.check(options.plan.devices, true);
  const Splits splits = open_data(a.text("data"), model.data_request(options));
  const Dataset& data = split_of(splits, a.text("split"));
  options.plan.dense_labels = model.dense_labels(data, options);
  model.compile(options, backends.all());
  for (const std::string& note : model.notes()) call.say("note: " + note);
  const Evaluation e = model.evaluate(data, {.preprocess = preprocess(a)});
  if (call.json()) {
    call.print(Json::Object{{"data", data.name()},
                            {"samples", e.samples},
                            {"loss", e.loss},
                            {"accuracy", e.accuracy},
                            {"samples_per_second", e.samples_per_second}});
    return 0;
  }
  std::string text = fmt::format("{}: {} samples, loss {:.4f}", data.name(), e.samples, e.loss);
  if (std::isfinite(e.accuracy)) text += fmt::format(", accuracy {:.2f}%", 100 * e.accuracy);
  call.write(text + "\n");
  return 0;
}

}  // namespace

Command evaluate_command() {
  return {
      .name = "evaluate",
      .help = "measure a model's loss and accuracy on data",
      .positionals = {"model"},
      .usage = "MODEL.onnx --data SPEC [options]",
      .examples =
          "  tandem evaluate trained.onnx --data idx:data/mnist --normalize 0.1307,0.3081\n"
          "  tandem evaluate trained.onnx --data npz:data.npz --split train --json\n",
      .options = join({data_rows(),
                       {
                           {"split", "NAME", "", "train, validation or test (default: test where there is one)"},
                           {"loss", "NAME", "softmax-cross-entropy", "softmax-cross-entropy, binary-cross-entropy, mse, l1 or output"},
                           {"autotune", "", "off", "time kernels and choose the fastest"},
                       },
                       device_rows()}),
      .run = run,
  };
}

}  // namespace tandem
