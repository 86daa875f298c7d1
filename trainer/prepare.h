// What prepares a run: what its options leave open is taken from the file and from the data, in the order in which one follows from
// the other, and all is checked before a device is opened.
//
//   tandem::Model model = tandem::Model::load("lenet.onnx");
//   tandem::RunOptions options{.data = "idx:data/mnist"};
//   options.model.plan = {.batch = 64, .devices = tandem::parse_devices("cpu")};
//   const tandem::Prepared run = tandem::prepare(model, std::move(options), backends);
//   model.compile(run.options, backends);
//   model.fit(*run.data.train, run.fit);
//   std::cout << model.evaluate(*run.data.test, run.measuring()).accuracy << "\n";
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "data/dataset.h"
#include "trainer/model.h"

namespace tandem {

// plan: a training is planned, and nothing is run; what takes a while of the data is left out.
enum class Purpose { train, plan, evaluate, predict };

struct RunOptions {
  Purpose purpose = Purpose::train;  // sets model.plan.mode and model.measures
  ModelOptions model;
  FitOptions fit;               // its preprocess and metrics are those of evaluate and predict, too
  std::string data;             // what open_data reads
  Splits splits;                // or data sets that are there already; plan and predict may do without any
  std::string split;            // evaluate, predict: train, validation or test; empty: the first of test, validation, train that there is
  double validation_split = 0;  // train: share of the training part that is held out by model.seed, and measured after each epoch
  std::string class_weights;    // Model::class_weights reads it
  SliceBy slices = SliceBy::given;  // of model.plan.devices
  std::string configuration;    // which of the file's device configurations; empty: that which fits; none: the file places nothing
  // Fields that keep their values although these are the defaults, by the names that messages have ("loss", "normalize", "optimizer").
  // Fields with other values keep them anyway; those that are left are taken from the file or the data.
  std::set<std::string, std::less<>> chosen;
  // Changes the optimizer of the file's own training step (training_info) where that is taken. Where this is set, `chosen` alone says that
  // model.plan.optimizer is wanted in its place.
  std::function<void(OptimizerOptions&)> adjust_own_optimizer;
  std::function<void(const std::string&)> on_note;     // what was assumed or found, a sentence each
  std::function<void(const std::string&)> on_warning;  // what was asked for and will not be
};

// The parts of the data that a run uses.
struct RunData {
  Splits splits;
  std::unique_ptr<Dataset> kept, held_out;  // of the training part, with RunOptions::validation_split
  const Dataset* train = nullptr;
  const Dataset* validation = nullptr;  // measured after each epoch: the test part where there is no other
  const Dataset* test = nullptr;
  const Dataset* part = nullptr;  // evaluate, predict: the part asked for
};

struct Prepared {
  ModelOptions options;  // of compile
  FitOptions fit;        // of fit, on data.train
  RunData data;
  std::optional<TrainingStep> own_step;  // the file's, where its loss, its optimizer or both were taken

  EvaluateOptions measuring() const { return {.batch = fit.eval_batch, .preprocess = fit.preprocess, .metrics = fit.metrics}; }
};

// Fails (usage, model, data, io) as the parts of the API do that it asks.
Prepared prepare(const Model& model, RunOptions options, Backends backends);

}  // namespace tandem
