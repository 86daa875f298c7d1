#include "cli/command.h"
#include "cli/model_options.h"
#include "trainer/data/npy.h"
#include "trainer/data/zip.h"
#include "trainer/file.h"

namespace tandem {
namespace {

int run(const Invocation& call) {
  const Arguments& a = call.arguments;
  const std::string& path = a.positional("model");
  a.require("data");
  a.require("output");
  const std::string& output = a.text("output");
  if (!output.ends_with(".npy") && !output.ends_with(".npz"))
    fail(ExitCode::usage, "--output ", output, ": expected a name that ends in .npy or .npz");
  check_writable_file(output);
  const ModelOptions options = model_options(call, PlanMode::inference);
  Model model = Model::load(path);
  const BackendSet backends = BackendSet::load(parse_devices(a.text("devices")));
  backends.check(options.plan.devices, true);
  const DataRequest request = model.data_request(options);
  const bool array = a.text("data").ends_with(".npy");
  Splits splits;
  if (array)
    splits.test = open_npy(a.text("data"), request);
  else
    splits = open_data(a.text("data"), request);
  model.compile(options, backends.all());
  for (const std::string& note : model.notes()) call.say("note: " + note);
  const std::vector<NamedTensor> results = model.predict(split_of(splits, array ? "" : a.text("split")), {.preprocess = preprocess(a)});

  if (output.ends_with(".npy")) {
    write_atomically(output, npy_of(results.at(0).tensor));
    if (results.size() > 1) call.say(concat("note: ", output, " holds the first of ", results.size(), " outputs; a .npz holds them all"));
  } else {
    FileWriter file(output);
    ZipWriter zip([&](std::string_view bytes) { file.write(bytes); });
    for (const NamedTensor& r : results) zip.add(r.name + ".npy", npy_of(r.tensor));
    zip.finish();
    file.commit();
  }
  if (call.json()) {
    Json::Array outputs;
    for (const NamedTensor& r : results) outputs.push_back(Json::Object{{"name", r.name}, {"type", to_string(r.tensor.type())}});
    call.print(Json::Object{{"output", output}, {"outputs", std::move(outputs)}});
  } else {
    for (const NamedTensor& r : results) call.say(concat(output, ": ", r.name, ' ', r.tensor.type()));
  }
  return 0;
}

}  // namespace

Command predict_command() {
  return {
      .name = "predict",
      .help = "write a model's outputs for data as numpy arrays",
      .positionals = {"model"},
      .usage = "MODEL.onnx --data SPEC|FILE.npy --output FILE.npy [options]",
      .examples =
          "  tandem predict trained.onnx --data images.npy --output scores.npy\n"
          "  tandem predict trained.onnx --data idx:data/mnist --split test --normalize 0.1307,0.3081 --output scores.npy\n",
      .options = join({data_rows(),
                       {
                           {"output", "FILE", "", "FILE.npy for the first output, FILE.npz for all"},
                           {"split", "NAME", "", "train, validation or test (default: test where there is one)"},
                           {"loss", "NAME", "softmax-cross-entropy", "what labels mean for the data set; they are not used"},
                           {"autotune", "", "off", "time kernels and choose the fastest"},
                       },
                       device_rows()}),
      .run = run,
  };
}

}  // namespace tandem
