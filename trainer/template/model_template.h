// An ONNX file with its weights, and all that follows of it for given options before a device is opened: graphs, losses, plans, and what
// data must look like. Nothing of it changes when a model is trained.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/preparation.h"
#include "importer/model_file.h"
#include "planner/compile.h"
#include "trainer/template/model_options.h"
#include "trainer/template/summary.h"

namespace tandem {

class GraphFile;
struct Labels;
struct PlanKey;

class ModelTemplate {
 public:
  explicit ModelTemplate(ModelFile file) : file_(std::move(file)) {}
  ModelTemplate(const ModelTemplate&) = delete;  // the functions that graphs() gives refer to it
  ModelTemplate& operator=(const ModelTemplate&) = delete;
  ~ModelTemplate();

  const ModelFile& file() const { return file_; }
  // Of a model that cannot be used too: what is known of it, with what keeps it from being used.
  Summary summary(const SummaryOptions& options = {}) const;
  // Fails where these options cannot be used with this model, before anything is read, timed or opened.
  void check(const ModelOptions& options, Backends backends) const;
  // The first plan of these options, that of options.plan_file where there is one.
  Plan make_plan(const ModelOptions& options, Backends backends) const;
  // The graph of a training step, or the model as it was imported, as an ONNX file for a viewer.
  std::string training_graph(const ModelOptions& options) const;

  // Takes the loss, or the optimizer with its states and what it trains, of the template's own step (ModelFile::training_step). The
  // learning rate is the caller's to take. Fails (usage) where a loss that the template computes cannot be had on these devices.
  void take_loss(const TrainingStep& step, ModelOptions& options) const;
  void take_optimizer(const TrainingStep& step, ModelOptions& options) const;

  // What data must look like for this model. Random data is made from it.
  DataRequest data_request(const ModelOptions& options) const;
  // What data is asked for where sizes of the model's inputs are open; none: all are known. Of the data, opened so, fit_dims takes them.
  std::optional<DataRequest> dims_request(const ModelOptions& options) const;
  void fit_dims(ModelOptions& options, const Dataset& data) const;
  // Takes the values of inputs that hold no samples. Fails (data) where an input has none, or another than it is set to.
  void fit_constants(ModelOptions& options, const Dataset& data) const;
  // Takes over where the file puts nodes: their metadata tandem.device, as rules behind options.plan.parallel.places, and a device
  // configuration (IR 11) where options.plan says nothing of the devices: `configuration` by name, empty: the only one for as many devices,
  // none: nothing of all this. Returns what was taken, or left aside and why, in sentences. Fails (model) at a fault of the file,
  // naming node, tensor and field, (usage) where it names devices that are not there.
  std::vector<std::string> fit_placement(ModelOptions& options, const std::string& configuration = "") const;
  // What a plan made with these options says of devices, as a configuration that fit_placement takes. Fails (usage) where none can say it.
  DeviceConfiguration configuration_of(const Plan& plan, const ModelOptions& options) const;
  // Where nobody chose the loss (options.plan.loss.assumed) and the model gives one number for each sample or place: sets the loss as the
  // model has it, a sigmoid or not. Returns what was assumed, for the user; empty: nothing.
  std::string assume_loss(ModelOptions& options) const;
  std::string assume_loss(ModelOptions& options, const Dataset& data) const;  // by the labels too, once the other has found that it is so
  // Sets what is open of options.plan's loss (by assume_loss), dense_labels and class_axis as this data's labels have it. Returns what had
  // to be assumed, for the user; empty: nothing.
  std::string fit_labels(ModelOptions& options, const Dataset& data) const;
  // Sets options.plan's given_bytes: inputs whose samples are bytes in this data, so prepared, are given as such, and become the model's
  // numbers on the device, the same to the bit. Other data, or other preparation, is given as numbers by plans made when first asked for.
  void fit_inputs(ModelOptions& options, const Dataset& data, const Preprocess& preprocess) const;
  // "balanced" (samples / (classes * samples of the class), as scikit-learn), numbers separated by commas, or a file of one
  // number a line, as LossOptions::class_weights. Options as fit_labels left them. Fails (usage, data).
  std::vector<double> class_weights(std::string_view text, const ModelOptions& options, const Dataset& data) const;
  // Fails (data) where a model trained with these options could not take this data, before anything is compiled. Returns what was
  // found of it that the user should know, such as how many samples each bucket has; empty: nothing.
  std::string check_data(const Dataset& data, const ModelOptions& options, const Preprocess& preprocess) const;

  // For the implementation: what plans are made of. A bucket is one of ModelOptions::buckets, 0 the largest.
  //
  // The graph for each batch size: with `outputs` the model with these values in place of its outputs, else what the options' mode says;
  // a training's ends in the losses of files.
  GraphSource graphs(const ModelOptions& options, std::size_t bucket = 0, const std::vector<std::string>& outputs = {}) const;
  GraphSource graphs(const ModelOptions& options, const PlanKey& key, const std::vector<Labels>& losses) const;  // of a plan of that key
  // The same of options that are in a bucket: the model alone, with all its inputs; with losses and teacher of other files.
  GraphSource plain_graphs(const ModelOptions& options, const std::vector<std::string>& outputs = {}) const;
  GraphSource graphs_with_losses(const ModelOptions& options) const;
  // Fails (usage) on a value that is not there, naming the nearest.
  std::vector<Labels> losses_for(const ModelOptions& options, std::size_t bucket = 0) const;
  // The same for what needs no loss: an inference plan of a model that has none gives none.
  std::vector<Labels> losses_if_any(const ModelOptions& options, std::size_t bucket = 0) const;
  // By term; none: no file computes it.
  std::vector<std::optional<GraphFile>> loss_files(const ModelOptions& options, const Graph& graph) const;
  CompileOptions plan_options(const ModelOptions& options) const;  // with the names of the template's tensors
  CompileOptions plan_options(const ModelOptions& options, const PlanKey& key) const;
  void check_buckets(const ModelOptions& options) const;  // fails (usage) where they cannot share their weights
  const ModelFile& other_file(const std::string& path) const;  // a loss, a metric, a teacher: read when first asked for
  const std::map<std::string, ModelFile>& other_files() const { return others_; }  // that were asked for, by path

 private:
  void add_teacher(Graph& graph, const ModelOptions& options, std::int64_t batch) const;
  const ModelFile file_;
  mutable std::map<std::string, ModelFile> others_;
};

}  // namespace tandem
