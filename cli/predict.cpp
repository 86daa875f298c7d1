#include <algorithm>
#include <cmath>

#include "cli/image_options.h"
#include "cli/inference.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/tune_options.h"
#include "trainer/data/npy.h"
#include "trainer/data/zip.h"
#include "trainer/file.h"

namespace tandem {
namespace {

void write_results(const std::string& output, const std::vector<NamedTensor>& results) {
  if (output.ends_with(".npy")) return write_atomically(output, npy_of(results.at(0).tensor));
  AtomicFile file(output);
  ZipWriter zip([&](std::string_view bytes) { file.append(bytes); });
  for (const NamedTensor& r : results) zip.add(r.name + ".npy", npy_of(r.tensor));
  zip.finish();
  file.commit();
}

// How many samples of a result hold NaN; `whole_rows`: also those of NaN alone, which else stand for what could not be decoded.
std::int64_t samples_with_nan(const Tensor& t, bool whole_rows) {
  if (!is_float(t.dtype()) || is_16_bit(t.dtype()) || t.shape().rank() == 0 || t.elements() == 0) return 0;
  std::int64_t samples = 0;
  visit_float(t.dtype(), [&]<class T>() {
    const auto values = t.values<T>();
    const std::size_t each = values.size() / static_cast<std::size_t>(t.shape()[0]);
    for (std::size_t at = 0; at < values.size(); at += each) {
      const auto row = values.subspan(at, each);
      const auto found = std::ranges::count_if(row, [](T v) { return std::isnan(v); });
      samples += found > 0 && (whole_rows || found < std::ssize(row));
    }
  });
  return samples;
}

// Only rank 0 writes.
int predict(const Invocation& call, World* world) {
  const std::string& output = call.arguments.text("output");
  if (is_first(world)) check_writable_file(output);
  auto [options, model, backends, splits, data] = open_inference(call, world, false);
  Preprocess preparation = preprocess(call, model);
  settle_preparation(call, *data, model.data_request(options), preparation);
  model.fit_inputs(options, *data, preparation);
  model.compile(options, backends.all());
  for (const std::string& note : model.notes()) call.say("note: " + note);
  const std::size_t told = model.notes().size();
  Progress progress(call);
  const std::vector<NamedTensor> results = model.predict(
      *data, {.preprocess = preparation,
              .on_batch = [&](std::int64_t done, std::int64_t all) { progress.samples(done, all); }});
  progress.clear();
  tell_bad_samples(call, preparation, "has a row of NaN (-1 of whole numbers)", "have rows of NaN (-1 of whole numbers)");
  for (std::size_t i = told; i < model.notes().size(); ++i) call.say("note: " + model.notes()[i]);
  for (const NamedTensor& r : results)
    if (const std::int64_t n = samples_with_nan(r.tensor, preparation.bad_samples == 0); n > 0)
      call.say(concat("warning: '", r.name, "' holds NaN in ", n, n == 1 ? " sample" : " samples", " of ", r.tensor.shape()[0]));
  if (is_first(world)) {
    const World::Busy busy(world);
    write_results(output, results);
  }
  if (output.ends_with(".npy") && results.size() > 1)
    call.say(concat("note: ", output, " holds the first of ", results.size(), " outputs; a .npz holds them all"));
  if (call.json()) {
    Json::Array outputs;
    for (const NamedTensor& r : results) outputs.push_back(Json::Object{{"name", r.name}, {"type", to_string(r.tensor.type())}});
    call.print(Json::Object{{"output", output}, {"outputs", std::move(outputs)}});
  } else {
    for (const NamedTensor& r : results) call.say(concat(output, ": ", r.name, ' ', r.tensor.type()));
    tell_classes(call, model, *data, results);
  }
  return 0;
}

int run(const Invocation& call) {
  const Arguments& a = call.arguments;
  a.positional("model");
  a.require("data");
  a.require("output");
  const std::string& output = a.text("output");
  if (!output.ends_with(".npy") && !output.ends_with(".npz"))
    fail(ExitCode::usage, "--output ", output, ": expected a name that ends in .npy or .npz");
  return on_ranks(call, predict);
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
          "  tandem predict trained.onnx --data idx:data/mnist --split test --normalize 0.1307,0.3081 --output scores.npy\n"
          "  tandem predict models/lenet.onnx --data images.npy --outputs relu3 --output features.npy\n",
      .options = join({data_rows(),
                       split_rows(),
                       {
                           adapter_row(),
                           {"output", "FILE", "", "FILE.npy for the first output, FILE.npz for all"},
                           {"outputs", "VALUES", "", "write these values of the model, such as features, by name and separated by commas (default: its outputs)"},
                           {"loss", "NAME", "softmax-cross-entropy", "what labels mean for the data set; they are not used"},
                           {"autotune", "", "off", "time kernels and choose the fastest"},
                       },
                       device_rows(),
                       rank_rows()}),
      .run = run,
      .uses_trained = true,
  };
}

}  // namespace tandem
