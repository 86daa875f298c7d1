// The C++ API: an ONNX file as a model that is compiled for devices, trained, evaluated, used and saved.
//
//   tandem::Model model = tandem::Model::load("lenet.onnx");
//   model.compile({.plan = {.batch = 128, .devices = tandem::parse_devices("cpu:0-1")}, .init = "he-normal"}, backends);
//   const tandem::Splits data = tandem::open_data("synthetic:digits", model.data_request());
//   model.fit(*data.train, {.epochs = 3, .learning_rate = 0.05});
//   std::cout << model.evaluate(*data.test).accuracy << "\n";
//   model.save("trained.onnx");
//
// It has three parts: the file with its weights and what follows of it for given options (source(), trainer/template/model_template.h);
// what compile() makes of that, plans and values (trainer/compiled_model.h, the implementation's); and what is done with these: training
// (trainer/fit), evaluation, predictions.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/session.h"
#include "trainer/devices.h"
#include "trainer/fit_options.h"
#include "trainer/template/model_template.h"

namespace tandem {

struct CompiledModel;

// A node, or all nodes and weights of a module ("layer1" of "layer1.conv.weight").
struct Layer {
  std::string name;
  std::vector<std::string> nodes, operators;  // in the graph's order
  std::vector<std::string> outputs;  // values that others, or the model's outputs, take of it
  std::vector<NamedTensor> weights;  // present values; of a template that is not compiled: those it has
};

class Model {
 public:
  // Fails (usage) where an option of `weights` names nothing, with the nearest name.
  static Model load(const std::filesystem::path& path, const WeightOptions& weights = {});
  explicit Model(ModelFile file);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  const ModelTemplate& source() const { return *source_; }
  const ModelFile& file() const { return source_->file(); }

  // Makes the other plans that fit on `data`, its validation and the measure of `test` (null: none) need beside `first`, make_plan's
  // with these options, and lets them go: fails where the run would.
  void check_plans(const Plan& first, const ModelOptions& options, Backends backends, const Dataset& data, const Dataset* test,
                   const FitOptions& fit) const;

  // Plans, opens the devices and sets first values; a second call keeps the values that the model has by then, whatever
  // options.init says. The backends must outlive the model. Fails (model) where an inference plan is asked for and values
  // are missing.
  void compile(const ModelOptions& options, Backends backends);
  const Plan& plan() const;                       // what compile made
  const std::vector<std::string>& notes() const;  // what a user should know of it
  std::int64_t predicted_peak_bytes() const;      // of the fullest device, over all plans made so far
  std::int64_t allocated_bytes() const;           // what that device's arenas take

  // The step that this model takes now, with its states, as SaveOptions::training writes it. Fails (usage) on what ONNX's words
  // do not say, naming it.
  TrainingStep training_step(double learning_rate) const;

  // What data must look like for this model, as compiled or with other options, with the names of classes that the last training's had.
  DataRequest data_request() const;
  DataRequest data_request(const ModelOptions& options) const;

  static void check(const FitOptions& options);  // fails (usage) where nothing can be trained so
  // compile and fit throw Stopped where CompileOptions::stop ended the planning.
  History fit(const Dataset& data, const FitOptions& options);
  // Trains for a while with growing rates, then puts everything back: weights, states and step number are those before.
  RateTest test_rates(const Dataset& data, const FitOptions& options, const RateTestOptions& test = {});
  Evaluation evaluate(const Dataset& data, const EvaluateOptions& options = {});
  std::vector<NamedTensor> predict(const Dataset& data, const EvaluateOptions& options = {});  // one tensor an output; stopped: none
  // Of the value that the loss is computed on: probabilities (softmax or sigmoid of scores, unless the model has taken it), and
  // the class of each place: the largest, or of one element 1 where it is probable. Fail (usage) where the loss has no classes.
  Tensor predict_proba(const Dataset& data, const EvaluateOptions& options = {});
  Tensor predict_classes(const Dataset& data, const EvaluateOptions& options = {});  // int64

  // By the name of a node, of a value that it makes, or of a module. Fails (usage) where nothing goes by it, naming the nearest. What the
  // layer gives is predict's, by EvaluateOptions::outputs.
  Layer get_layer(const std::string& name) const;
  // What the model is compiled for: {"model", "inputs", "outputs", "loss", "optimizer", "batch", "devices", "precision", "layers"} and, of
  // the last fit, "fit".
  Json get_config() const;

  // One batch, values as the model takes them: inputs in the model's order, then the loss's labels.
  StepReport train_on_batch(std::span<const Tensor> inputs, double learning_rate);
  Evaluation test_on_batch(std::span<const Tensor> inputs, const std::vector<std::string>& metrics = {"auto"});
  // as EvaluateOptions::outputs
  std::vector<Tensor> predict_on_batch(std::span<const Tensor> inputs, const std::vector<std::string>& outputs = {});
  // The gradients of the loss over this batch with respect to trainable parameters, by name, in their template form; those of
  // CompileOptions::keep_gradients, or of all. Changes nothing. Planned when a batch size first asks for it; that plan has weights of its
  // own.
  std::vector<NamedTensor> gradients(std::span<const Tensor> inputs);

  // Exchanges the weights with their averages: what is evaluated or saved then are these. False where none are kept.
  bool swap_averages();
  // Of several ranks, one may lack parts of parameters. All call this; rank 0 does `work`, which may read, save and keep them: one at a
  // time is whole on a rank.
  void together(const std::function<void()>& work) const;
  // The same for what any rank reads: all are whole in the memory of each until the next step.
  void gather_parameters();

  std::vector<NamedTensor> parameters() const;
  Tensor parameter(const std::string& name) const;  // fails (model) where there is none
  void set_parameters(std::span<const NamedTensor> values);  // of several ranks, rank 0's
  // by the names of a checkpoint: "momentum/WEIGHT"; of several ranks, rank 0's
  void set_optimizer_state(std::span<const NamedTensor> values);
  // Takes the weights, and the averages of them, of a run's checkpoint, of this very model. All ranks call it. Where their values lie in
  // parts and all see the file, each reads what its devices need; else rank 0 gives the values to the others. Fails (io, data) on all.
  void take_checkpoint(const std::filesystem::path& file);
  // Makes `folder` one that fit goes on from by FitOptions::resume, where the last fit ended: a checkpoint and options.config.
  // `data` and `options` are that fit's. Fails (io) where it is there already or cannot be written.
  void keep(const std::filesystem::path& folder, const Dataset& data, const FitOptions& options);
  // The template with the present values (ModelFile::write). With `metadata` the file says how its data was prepared
  // (`tandem.*` in its metadata_props: normalize, loss, loss_on, class_axis, set, batch_axis), so that evaluating and further training can
  // go by it.
  void save(const std::filesystem::path& path, bool metadata = true, SaveOptions options = {}) const;
  void save_adapter(const std::filesystem::path& path) const;  // ModelFile::write_adapter

 private:
  std::unique_ptr<const ModelTemplate> source_;
  std::unique_ptr<CompiledModel> compiled_;
};

}  // namespace tandem
