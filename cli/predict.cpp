#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/file.h"
#include "cli/bad_samples.h"
#include "cli/inference.h"
#include "cli/planned_options.h"
#include "cli/predictions.h"
#include "cli/progress.h"
#include "cli/rank_flags.h"
#include "options/data_flags.h"
#include "options/device_flags.h"
#include "options/plan_file_flags.h"
#include "options/predict_flags.h"
#include "options/weight_flags.h"

namespace tandem {
namespace {

// The classes of the first result's columns: by the names that the model's data had; where it has none and the loss is one of
// classes, by number. Empty: the result is no classifier's.
std::vector<std::string> classes_of(const Invocation& call, const Model& model, const std::vector<NamedTensor>& results) {
  const Tensor& scores = results.at(0).tensor;
  if (!is_float(scores.dtype()) || scores.shape().rank() != 2 || scores.shape()[1] < 2) return {};
  const std::vector<std::string> names = model.data_request().class_names;
  if (std::ssize(names) == scores.shape()[1]) return names;
  const auto trained = model.file().metadata().find("tandem.loss");
  const std::string loss = call.arguments.given(predict_flags.loss)   ? call.arguments[predict_flags.loss]
                           : trained == model.file().metadata().end() ? ""
                                                                      : trained->second;
  std::vector<std::string> numbers;
  if (loss == "softmax-cross-entropy" || loss == "focal")
    for (std::int64_t c = 0; c < scores.shape()[1]; ++c) numbers.push_back(std::to_string(c));
  return numbers;
}

// The first samples, with the most probable class of each.
void tell_classes(const Invocation& call, const Dataset& data, const Tensor& scores, const std::vector<std::string>& classes) {
  constexpr std::int64_t most = 10;
  const Probabilities p = probabilities_of(scores);
  const std::int64_t samples = scores.shape()[0];
  for (std::int64_t i = 0; i < std::min(most, samples); ++i) {
    const auto row = std::span(p.values).subspan(static_cast<std::size_t>(i) * classes.size(), classes.size());
    if (std::isnan(row[0])) continue;  // it could not be decoded
    const auto best = std::max_element(row.begin(), row.end());
    call.say(fmt::format("{}: {} ({:.1f}%)", sample_name(data, i), classes[static_cast<std::size_t>(best - row.begin())], 100 * *best));
  }
  if (samples > most) call.say(concat("... and ", samples - most, " more"));
  if (p.how != "probabilities") call.say(concat("note: the output was read as ", p.how));
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
  const std::string output = call.arguments[predict_flags.output];
  if (is_first(world)) check_writable_file(output);
  auto [model, backends, run] = open_inference(call, world, Purpose::predict);
  const Dataset& data = *run.data.part;
  model.compile(run.options, backends.all());
  for (const std::string& note : model.notes()) call.say("note: " + note);
  const std::size_t reported = model.notes().size();
  Progress progress(call);
  EvaluateOptions measuring = run.measuring();
  measuring.on_batch = [&](std::int64_t done, std::int64_t all) { progress.samples(done, all); };
  const std::vector<NamedTensor> results = model.predict(data, measuring);
  progress.clear();
  tell_bad_samples(call, run.fit.preprocess, "has a row of NaN (-1 of whole numbers)", "have rows of NaN (-1 of whole numbers)");
  for (std::size_t i = reported; i < model.notes().size(); ++i) call.say("note: " + model.notes()[i]);
  for (const NamedTensor& r : results)
    if (const std::int64_t n = samples_with_nan(r.tensor, run.fit.preprocess.bad_samples == 0); n > 0)
      call.say(concat("warning: '", r.name, "' holds NaN in ", n, n == 1 ? " sample" : " samples", " of ", r.tensor.shape()[0]));
  const std::vector<std::string> classes = classes_of(call, model, results);
  if (is_first(world)) {
    const World::Busy busy(world);
    write_predictions(output, results, data, classes);
  }
  if (!output.ends_with(".npz") && results.size() > 1)
    call.say(concat("note: ", output, " holds the first of ", results.size(), " outputs; a .npz holds them all"));
  if (call.json()) {
    Json::Array outputs;
    for (const NamedTensor& r : results) outputs.push_back(Json::Object{{"name", r.name}, {"type", to_string(r.tensor.type())}});
    call.print(Json::Object{{"output", output}, {"outputs", std::move(outputs)}});
  } else {
    for (const NamedTensor& r : results) call.say(concat(output, ": ", r.name, ' ', r.tensor.type()));
    if (!classes.empty()) tell_classes(call, data, results[0].tensor, classes);
  }
  return 0;
}

int run(const Invocation& call) {
  const Arguments a = with_planned_options(call);
  a[model_file];
  a.require(data_flags.data);
  a.require(predict_flags.output);
  const std::string output = a[predict_flags.output];
  if (!is_predictions_file(output)) fail(ExitCode::usage, "--output ", output, ": expected a name that ends in .npy, .npz or .csv");
  return on_ranks({a, call.streams, call.environment}, predict);
}

}  // namespace

Command predict_command() {
  return {
      .name = "predict",
      .help = "write a model's outputs for data, as numpy arrays or as a table",
      .positionals = {model_file},
      .usage = "MODEL.onnx --data SPEC|FILE|FOLDER --output FILE.npy|FILE.npz|FILE.csv [options]",
      .examples =
          "  tandem predict trained.onnx --data images.npy --output scores.npy\n"
          "  tandem predict trained.onnx --data photo.jpg --output classes.csv    # or a folder of image files\n"
          "  tandem predict trained.onnx --data idx:data/mnist --split test --normalize 0.1307,0.3081 --output scores.npy\n"
          "  tandem predict models/lenet.onnx --data images.npy --outputs relu3 --output features.npy\n",
      .options = {&data_flags, &split_flags, &adapter_flags, &predict_flags, &timing_flags, &device_flags, &plan_file_flags, &rank_flags},
      .run = run,
      .uses_trained = true,
  };
}

}  // namespace tandem
