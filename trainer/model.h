// The C++ API: an ONNX file as a model that is compiled for devices, trained, evaluated, used and saved.
//
//   tandem::Model model = tandem::Model::load("lenet.onnx");
//   model.compile({.plan = {.batch = 128, .devices = tandem::parse_devices("cpu:0-1")}, .init = "he-normal"}, backends);
//   const tandem::Splits data = tandem::open_data("synthetic:digits", model.data_request());
//   model.fit(*data.train, {.epochs = 3, .learning_rate = 0.05});
//   std::cout << model.evaluate(*data.test).accuracy << "\n";
//   model.save("trained.onnx");
#pragma once
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/dataset.h"
#include "data/preparation.h"
#include "importer/model_file.h"
#include "planner/compile.h"
#include "runtime/session.h"
#include "trainer/devices.h"
#include "trainer/measure/class_table.h"
#include "trainer/schedule.h"
#include "trainer/summary.h"

namespace tandem {

inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

struct ModelOptions {
  CompileOptions plan;                       // mode, batch, devices, loss, optimizer, ...
  std::map<std::string, std::int64_t> dims;  // sizes of symbolic dimensions other than the batch
  // Dimensions of which each training batch takes the smallest size that holds its longest sample: their sizes, rising, as many of
  // each. A plan is made for every one. All else goes by the largest, as `dims` would give it.
  std::map<std::string, std::vector<std::int64_t>> buckets;
  std::int64_t max_loop_iterations = 0;     // ImportOptions::max_loop_iterations
  std::optional<bool> unbiased_variance;     // ImportOptions::unbiased_variance
  std::filesystem::path teacher;             // an ONNX file whose scores are learnt from, as plan.loss.distillation says; empty: none
  std::string init = "auto";                 // auto (keep, or draw the weights of an untrained template), keep, he-normal, glorot-uniform,
                                             // training-info (what the template's initialization computes; auto draws by it where there is
                                             // one)
  std::map<std::string, Tensor> states;      // first values of the optimizer's states, by name ("momentum/WEIGHT"); others begin at zero
  // the optimizer is that of the template's training_info (take_optimizer): save() writes its states there
  bool own_step = false;
  std::uint64_t seed = 1;                    // of initial values, order, augmentation and dropout
  World* world = nullptr;                    // the processes that share the devices; all of them call the model alike
  std::filesystem::path plans;               // rank 0's folder where the plans that are made are kept; empty: none
  bool resume = false;                       // take those kept there, where model, devices and options are the same
  std::map<std::string, int> batch_axes;     // ImportOptions::batch_axes
  // Values of inputs, the same in every batch: as ImportOptions::constants has them. What the data gives for inputs that hold no samples
  // stands apart: fit_constants puts it there, and the trained file does not say it.
  std::map<std::string, Tensor> constants, data_constants;
  std::vector<std::string> outputs;          // of an inference plan: values of the model that it gives in place of its outputs
  bool measures = false;                     // an inference plan that evaluates: outputs of inputs that no loss needs are left out
  std::vector<std::string> metrics{"auto"};  // that it gives; evaluate() makes another plan for others
};

struct StepReport {
  std::int64_t epoch = 0, step = 0;  // from 1; step counts through all epochs
  std::int64_t steps = 0;            // of the whole run, where that is known
  std::int64_t samples = 0;
  double loss = 0;
  double accuracy = not_measured;
  double counted = 0;  // what the accuracy is a share of: samples, or their places that have a class each and are not ignored
  // What the loss is divided by, each loss's own where there are several: the samples' or tokens' weights. A mean over steps weighs by
  // these.
  std::vector<double> weights;
  double learning_rate = 0;
  double loss_scale = not_measured;  // of this step, where the loss is scaled
  std::map<std::string, double> metrics;  // of several losses: "OUTPUT_loss", each without its weight in the total
  double seconds = 0;                // since the step before
};
struct EpochReport {
  std::int64_t epoch = 0, epochs = 0, step = 0;
  double loss = 0, accuracy = not_measured, val_loss = not_measured, val_accuracy = not_measured;
  double learning_rate = 0;
  double seconds = 0;  // of training, without validation
  double samples_per_second = 0;
  std::map<std::string, double> metrics;  // further ones by name, "f1" and of the validation "val_f1": records and curves show them
};
// Called from the thread that called fit.
struct Callbacks {
  std::function<void()>
      on_begin;  // before a step, and before a validation: until on_step, or on_epoch, the run waits for data and devices alone
  std::function<void(const StepReport&)> on_step;
  std::function<void(const EpochReport&)> on_epoch;
  std::function<void(std::int64_t done, std::int64_t all)> on_validation;  // samples, after every batch of a validation
  std::function<void(const std::string&)> on_warning;  // what went wrong though the run goes on, such as a file that cannot be written
  // Asked before the first step, after every step and between the kernels of a validation, by several threads: true, of any
  // rank, ends the run, which can be resumed. The metrics of a validation that was broken off stay empty until then. A step that was
  // begun by then (FitOptions::run_ahead) ends first.
  std::function<bool()> stop;
};

// Averages of the weights beside the weights; the model is compiled with OptimizerOptions::average. Epochs are measured with them.
struct Averaging {
  double ema = 0;      // decay of a moving average, moved after every step: 0 none
  bool swa = false;    // the mean of the weights at the ends of epochs
  double from = 0;     // epochs before it begins; until then the averages are the weights
  bool any() const { return ema > 0 || swa; }
};
// Ends a run where the measure that the best checkpoint is chosen by has not been better by more than `min_delta` for so many epochs.
struct EarlyStopping {
  std::int64_t patience = 0;  // 0: never
  double min_delta = 0;
};
// How the loss goes while the learning rate grows from step to step.
struct RateTestOptions {
  double least = 1e-7, most = 10;  // rates
  std::int64_t steps = 100;
  double smoothing = 0.9;          // of the loss: what of it is carried on
  double ends_at = 4;              // times the least smoothed loss: the rest is not tried
};
struct RateTest {
  std::vector<double> rates, losses, smoothed;
  double suggestion = not_measured;  // the rate at which the smoothed loss falls fastest; not finite: it never does
};

struct FitOptions {
  std::int64_t epochs = 1;  // 0: as many as `steps` take
  std::int64_t steps = 0;   // at most; 0: no limit
  std::optional<double> learning_rate;  // absent: the optimizer's default
  Schedule schedule;
  Preprocess preprocess;
  bool shuffle = true;
  const Dataset* validation = nullptr;  // measured after every epoch
  std::int64_t eval_batch = 0;          // 0: as in training
  std::filesystem::path run_dir;        // checkpoints, metrics.csv, curves.svg, plan.txt, config.json; empty: none. Rank 0's
  bool run_dir_held = false;            // the caller holds the folder by a RunLock
  Json config;                          // what to write to config.json
  std::string choices;                  // what was chosen without being asked for, and why: plan.txt ends with it
  bool resume = false;                  // go on from run_dir's last checkpoint
  std::int64_t checkpoint_steps = 0;    // also in between epochs; 0: after each epoch only
  // Compare the parameters of all replicas (devices, also of other ranks) every so many steps, and before each checkpoint;
  // fails (device) where they differ, naming device, step and parameter. 0: never.
  std::int64_t check_replicas = 1000;
  // Records, in run_dir.
  double checkpoint_seconds = 0;      // also so often; 0: not
  std::int64_t keep_checkpoints = 0;  // beside the last and the best so many of the latest, as step-N.checkpoint
  bool tensorboard = false;           // TensorBoard's event files
  bool histograms = false;            // in these, of all weights after every epoch
  bool check_nan = false;             // look at all weights after every step; seek the cause of what is not finite however far back it lies
  // On devices that work by themselves (GPUs) the next step is begun before this one's results are there, wherever nothing is to
  // look at the model in between: on_step comes while the next step computes, and may not ask for the model's values then. The
  // results are the same.
  bool run_ahead = true;
  Callbacks callbacks;

  // Batches that make one step, as one batch of all their samples would (not BatchNormalization, which sees each by itself). The
  // last step of an epoch may have fewer. Above 1 the model is compiled with OptimizerOptions::accumulate.
  std::int64_t accumulate = 1;
  Averaging averaging;
  EarlyStopping early_stopping;
  std::vector<std::string> metrics{"auto"};  // of validations: as EvaluateOptions::metrics
  // What the best checkpoint, early stopping and the plateau go by: [min:|max:]NAME of an epoch's report, as "val_f1" or "loss"; a
  // name alone is that of the validation where there is one. Empty: the validation's accuracy, or the least loss.
  std::string best;
};
struct History {
  std::vector<EpochReport> epochs;
  std::int64_t steps = 0;
  double samples_per_second = 0;  // of this process's training, without its first step
  double waiting_share = 0;       // of that training's time, in which a step waited for its data
  bool stopped = false;           // by Callbacks::stop
  bool stopped_early = false;     // by EarlyStopping
  std::int64_t kept = 0;          // step of the last checkpoint: this run's, or the one it went on from
  std::int64_t checkpoints = 0, failed = 0;  // of this run that were written, that could not be
  std::string failure;            // of the last that could not
};
struct Evaluation {
  double loss = not_measured, accuracy = not_measured;
  std::int64_t samples = 0;
  double samples_per_second = 0;
  bool stopped = false;  // by EvaluateOptions::stop: nothing was measured
  std::map<std::string, double> metrics;  // by name; of several losses "OUTPUT_loss", "OUTPUT_f1"
  std::map<std::string, ClassTable> tables;  // by output, "" of the only one: where there are classes
};
struct EvaluateOptions {
  std::int64_t batch = 0;  // 0: the compiled plan's
  Preprocess preprocess;
  std::vector<std::string> metrics{"auto"};  // auto takes those that people look at with this loss; empty: loss and accuracy
  std::function<void(std::int64_t done, std::int64_t all)> on_batch;
  std::function<bool()> stop;  // asked after every batch and between kernels, by several threads: true, of any rank, ends it
  std::vector<std::string> outputs;  // of predict: values of the model by name, such as features, in place of its outputs
};

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
  const ModelFile& file() const;
  // Of a model that cannot be used too: what is known of it, with what keeps it from being used.
  Summary summary(const SummaryOptions& options = {}) const;

  // Plans only: opens no device.
  Plan make_plan(const ModelOptions& options, Backends backends) const;
  // Makes the other plans that fit on `data`, its validation and the measure of `test` (null: none) need beside `first`, make_plan's
  // with these options, and lets them go: fails where the run would.
  void check_plans(const Plan& first, const ModelOptions& options, Backends backends, const Dataset& data, const Dataset* test,
                   const FitOptions& fit) const;
  // The graph of a training step, or the model as it was imported, as an ONNX file for a viewer.
  std::string training_graph(const ModelOptions& options) const;

  // Fails where these options cannot be used with this model, before anything is read, timed or opened.
  void check(const ModelOptions& options, Backends backends) const;
  static void check(const FitOptions& options);

  // Plans, opens the devices and sets first values; a second call keeps the values that the model has by then, whatever
  // options.init says. The backends must outlive the model. Fails (model) where an inference plan is asked for and values
  // are missing.
  void compile(const ModelOptions& options, Backends backends);
  const Plan& plan() const;                       // what compile made
  const std::vector<std::string>& notes() const;  // what a user should know of it
  std::int64_t predicted_peak_bytes() const;      // of the fullest device, over all plans made so far
  std::int64_t allocated_bytes() const;           // what that device's arenas take

  // Takes the loss, or the optimizer with its states and what it trains, of the template's own step (ModelFile::training_step). The
  // learning rate is the caller's to take. Fails (usage) where a loss that the template computes cannot be had on these devices.
  void take_loss(const TrainingStep& step, ModelOptions& options) const;
  void take_optimizer(const TrainingStep& step, ModelOptions& options) const;
  // The step that this model takes now, with its states, as SaveOptions::training writes it. Fails (usage) on what ONNX's words
  // do not say, naming it.
  TrainingStep training_step(double learning_rate) const;

  // What data must look like for this model, as compiled or with other options. Random data is made from it.
  DataRequest data_request() const;
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
  // Of several ranks, one may lack parts of parameters. All call this before one reads or saves them.
  void gather_parameters();

  std::vector<NamedTensor> parameters() const;
  void set_parameters(std::span<const NamedTensor> values);  // of several ranks, rank 0's
  // by the names of a checkpoint: "momentum/WEIGHT"; of several ranks, rank 0's
  void set_optimizer_state(std::span<const NamedTensor> values);
  // Makes `folder` one that fit goes on from by FitOptions::resume, where the last fit ended: a checkpoint and options.config.
  // `data` and `options` are that fit's. Fails (io) where it is there already or cannot be written.
  void keep(const std::filesystem::path& folder, const Dataset& data, const FitOptions& options);
  // The template with the present values (ModelFile::write). With `metadata` the file says how its data was prepared
  // (`tandem.*` in its metadata_props: normalize, loss, loss_on, class_axis, set, batch_axis), so that evaluating and further training can
  // go by it.
  void save(const std::filesystem::path& path, bool metadata = true, SaveOptions options = {}) const;
  void save_adapter(const std::filesystem::path& path) const;  // ModelFile::write_adapter

  struct State;  // the implementation's
 private:
  std::unique_ptr<State> state_;
};

}  // namespace tandem
