// What a plan is made of and for: the model, as graphs of any batch size, and what is asked.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/device_configuration.h"
#include "graph/graph.h"
#include "kernels/device.h"
#include "planner/pipeline/schedules.h"
#include "planner/plan/plan.h"

namespace tandem {

// Makes the model's graph for a number of samples (the importer's work; every call gives the same parameters).
using GraphSource = std::function<Graph(std::int64_t batch)>;

struct DeviceSpec {
  DeviceId id;
  double weight = 1;  // share of the batch; 0: no samples, still takes part in the collectives
  int logical = 0;    // of several on one device: which. Two of one number are devices of two machines
};

// Parameters that are updated otherwise than the rest: the first group with a pattern that names one has it.
struct UpdateGroup {
  std::vector<std::string> patterns;   // of parameters' names, or of what stands behind their last '.' or '/' ("bias")
  std::optional<double> weight_decay;  // absent: the optimizer's
  double rate = 1;                     // times the learning rate
  double from = 0;                     // epochs before they move
  bool operator==(const UpdateGroup&) const = default;
};

struct OptimizerOptions {
  std::string name = "sgd";  // of optimizer_names()
  double momentum = 0;       // sgd, rmsprop, lars, muon
  bool nesterov = false;     // sgd, muon
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999;  // adam and its kin
  double rho = 0.9;          // rmsprop, adadelta
  double epsilon = 1e-8;
  double dampening = 0;      // sgd: what of a gradient does not go into the momentum
  bool amsgrad = false;      // adam, adamw
  bool epsilon_hat = false;  // adam, adamw: epsilon is added before the root is corrected, as ONNX's Adam and Keras's have it
  std::int64_t steps_before = 0;  // that the states have taken already; -1: adam's first step is not corrected
  bool centered = false;     // rmsprop: the variance in place of the mean square
  bool decoupled = false;    // nadam, radam: weight decay as AdamW's
  double rate_decay = 0;     // adagrad: the rate is divided by 1 + rate_decay·(t − 1)
  double trust = 0.001;      // lars: its coefficient
  std::vector<UpdateGroup> groups;
  bool decay_vectors = true;  // biases, scales of normalizations: whatever has one axis; false: no weight decay
  double clip_norm = 0;       // largest norm of all gradients together; 0: any
  double clip_value = 0;      // gradients are cut to ± this
  double clip_parameter_norm = 0;  // largest norm of each parameter's gradient
  bool average = false;       // averages of the parameters are kept (StepState::average)
  bool operator==(const OptimizerOptions&) const = default;
};
// The named optimizer with the field's defaults. Keras's and PyTorch's names are taken too ("AdamW", "torch.optim.RMSprop").
// Fails (usage) on an unknown name, naming the nearest.
OptimizerOptions optimizer_defaults(std::string_view name);
double default_learning_rate(const OptimizerOptions& options);  // the field's
std::vector<std::string> optimizer_names();
// Whether the optimizer goes by a number of OptimizerOptions: "momentum", "beta1", ...
bool optimizer_takes(const OptimizerOptions& options, std::string_view option);

// Scales the loss before it is differentiated, so that small gradients do not vanish in float16: the scale doubles after
// `interval` steps whose gradients are all finite; a step where one is not is skipped and halves it.
struct LossScaling {
  double start = 65536;  // 0: none
  std::int64_t interval = 2000;
};

// How the devices share the work: a mesh of replicas, each with a slice of the batch, and in each replica devices that share its layers.
struct Parallelism {
  std::int64_t data = 0;    // replicas; 0: as many as the devices give
  std::int64_t tensor = 1;  // devices of a replica, neighbours in the list of devices
  // Stages, each of which has a part of the model: the list of devices in equal runs, of which each is such a mesh. 0: as many as the
  // other factors leave.
  std::int64_t pipeline = 1;
  // ZeRO's stage. From 1 on parameters, gradients and optimizer states lie in parts over the replicas; from 3 on parameters are gathered
  // for the forward and for the backward pass apart.
  int zero = 0;
  // A parameter or input whose name matches the pattern is split along that axis of its own, over that axis of the mesh.
  struct Split {
    std::string pattern;
    std::string mesh_axis;  // "data" or "tensor"
    int axis = 0;
    bool operator==(const Split&) const = default;
  };
  std::vector<Split> splits{};
  // A batch is worked through in so many parts, one behind the other: each holds activations of its own samples alone.
  std::int64_t micro_batches = 1;
  int weights_on = -1;  // the device, as an index into CompileOptions::devices, on which trained parameters and states live; -1: on each
  int merge_on = -1;    // the device to which the replicas' outputs go and which computes the loss of the whole batch; -1: each its share
  // Further such devices, as of other processes: each parameter lives on one of all of them, which have about as many bytes each.
  std::vector<int> weights_on_too{};
  bool has_weights(int device) const {
    const bool too = std::find(weights_on_too.begin(), weights_on_too.end(), device) != weights_on_too.end();
    return weights_on >= 0 && (device == weights_on || too);
  }
  // Nodes and parameters that the pattern names, or that belong to a module that it names, are put on these devices. The first such rule
  // counts; what no rule names lies with its operands (planner/place/by_rules.h). Mesh and factors are then those of each such group.
  struct Place {
    std::string pattern;
    std::vector<int> devices;  // numbers of CompileOptions::devices, ascending
    bool of_file = false;      // the model's file says it, perhaps of what is not computed
    bool operator==(const Place&) const = default;
  };
  std::vector<Place> places{};
  PipelineSchedule schedule{};  // the order in which stages do micro-batches
  // What each part of the model has, in their order: patterns as those of places, separated by commas. "rest": what no other names.
  // Empty: parts are cut by estimated times (planner/pipeline/cuts.h).
  std::vector<std::string> stages{};
  bool operator==(const Parallelism&) const = default;
};

// Where values shall live, as far as somebody has said so; the operators' rules say the rest. Labels and samples' weights, which the
// loss adds, lie by their samples as the model's inputs do.
struct PlacementRequest {
  std::vector<DeviceGroup> groups;                               // devices are numbers of CompileOptions::devices
  // Of a pipeline: group g has part g of the model, and the devices of stage g % stages; no value goes to an earlier group. 0: none.
  int stages = 0;
  std::map<std::string, int, std::less<>> nodes;                 // an ONNX node's group, by name; other nodes work where their operands are
  // parameters' groups, by name; others live where they are read
  std::map<std::string, int, std::less<>> parameters{};
  // the model's inputs, parameters and outputs by name, by their group's mesh axes; others are whole
  std::map<std::string, std::vector<Part>, std::less<>> values;
  // Mesh axes over which parameters are split as it is found out (planner/place/choose_parts.h), unless something was said of one.
  std::optional<std::size_t> layers_along{}, parameters_along{};
  bool gather_again = false;  // parameters in parts are gathered for the backward pass anew, and not held whole until then
  // The positions along `parameters_along` of which one holds all of a parameter; none: each holds a part.
  std::vector<std::size_t> homes{};
  // The position along the samples' axis to which what the loss reads goes, and which computes it; absent: each has its samples' loss.
  std::optional<std::size_t> merged{};
};

// An input of floats that is given as bytes: the element of a byte is its entry of the table.
struct GivenBytes {
  // from the axes as they are given to the model's, both with the batch first (Transpose's); empty: as the model has them
  Ints perm;
  std::int64_t axis = 1;     // of the model's input, along which the table has a row for each, unless one is that of all
  std::vector<float> table;  // 256 a row
  bool operator==(const GivenBytes&) const = default;
};
// What is given in place of that: the same axes, in their order.
TensorType given_type(const GivenBytes& bytes, const Shape& model);

// A graph as a pass left it.
struct PassResult {
  std::int64_t samples;   // the part of the batch that it is for
  int number;             // in order; 0: what the passes begin with
  std::string_view name;  // of the pass
  const Graph& graph;
  double seconds = 0;       // that it took
  std::string_view why;     // there is such a pass
};

// Two neighbours that a pass would have made one node.
struct NotFused {
  const Node &first, &second;
  std::string why;
};

// What labels of one of several outputs look like.
struct LabelForm {
  bool dense = false;
  std::optional<int> class_axis;
  std::optional<std::int64_t> label_length;
};

// What a student learns of a teacher besides its labels (Hinton et al., "Distilling the Knowledge in a Neural Network", 2015):
// weight · T² · Σ p log(p / q) over classes + (1 - weight) · loss, p = softmax(teacher / T), q = softmax(student / T), the mean over
// samples and places, by neither's weights.
struct Distillation {
  double temperature = 2;  // T
  double weight = 0.5;
};
// Whoever gives the model's graph has put the teacher's scores there: an activation of the role teacher, whose `of` is empty.

// What the model is trained for, and measured by.
struct LossOptions {
  std::string name = "softmax-cross-entropy";  // planner/loss/losses.h: a name, or OUTPUT=NAME*WEIGHT,... of several outputs
  bool assumed = false;                    // nobody chose `name`: of one number for each sample another one is meant, which the labels tell
  std::string on;                          // the model's value that the loss is computed on; empty: its first output
  std::optional<int> class_axis;           // of that value; absent: a softmax's, else 1
  bool dense_labels = false;               // labels have the output's shape instead of class indices
  std::optional<std::int64_t> label_length;  // of rows of labels (ctc), as the data has them; absent: half of the places
  std::map<std::string, LabelForm, std::less<>> label_forms;  // the same three of several outputs, by their names
  double smoothing = 0;                    // of softmax- and binary-cross-entropy: so much of a label is shared out evenly
  std::optional<std::int64_t> ignore_index;  // a class index that does not count: the loss is the mean over the others
  bool shift_labels = false;               // labels are one ahead: place t's is that which is given for t+1 (the trainer shifts them)
  std::vector<double> class_weights;       // of each class; the loss is divided by the weights' sum, as in PyTorch
  std::optional<bool> sample_weights;      // each sample counts by its weight, an input of its own; absent: where data has some
  std::optional<Distillation> distillation;  // training
  bool accuracy = true;                    // training: also count correct predictions, where the loss classifies
  std::optional<LossScaling> scaling;      // training; absent: with fp16 as it stands above, in other precisions none
};

// Which of the model's parameters are trained.
struct TrainedOptions {
  std::vector<std::string> tensors;   // names that the patterns below may mean besides those of the graph's values
  std::vector<std::string> freeze;    // glob patterns of parameter names, not updated
  std::vector<std::string> unfreeze;  // glob patterns: wins over freeze
};

// How the kernels' times are known.
struct TuningOptions {
  bool autotune = false;  // time kernels on the device, unless they are to be deterministic; the cost table otherwise
  bool retune = false;    // time those kernels too that the cache has times of; the shorter ones stay
  std::string cache;      // file; empty: none is kept
  std::vector<std::string> without;  // kernels whose names begin so are left out of plans
};

// How much memory a plan of training may take. Activations that would not fit are computed again for the backward pass.
struct MemoryBudget {
  bool fit = false;                 // what there is on each device
  std::optional<double> share;      // of the activations that would be kept without a budget: above 0, at most 1
  std::vector<std::int64_t> bytes;  // of all that is on a device: one for all, or one a device
  bool operator==(const MemoryBudget&) const = default;
};

// Where values lie, and what of them is exchanged at once.
struct MemoryOptions {
  std::vector<std::int64_t> free;  // bytes on each of CompileOptions::devices; empty: they are asked
  std::vector<std::int64_t> most;  // bytes that the plan may put on each device: one for all, or one a device; empty: what there is
  std::optional<MemoryBudget> budget;  // training
  // Training, in place of a budget: what ONNX nodes make that are named by these patterns, or whose modules are, is computed again.
  std::vector<std::string> recompute;
  // Training, by device: the one that keeps its activations from the forward to the backward pass; -1: none. Empty: no device sends any.
  // A device that is named here and has no weight computes nothing, unless weights live on it.
  std::vector<int> activations_on;
  std::int64_t bucket_bytes = 25 << 20;
  std::int64_t first_bucket_bytes = 1 << 20;
  std::string order;               // for tests: size, lifetime, size*lifetime; empty: the best
};

// Of the planner's passes.
struct PassOptions {
  std::function<void(const PassResult&)> after;
  std::function<void(const NotFused&)> not_fused;  // before `after` of the pass
  bool verify = false;               // check behind each pass what it promises, too
  std::vector<std::string> without;  // names of passes that are left out: to find the one that is at fault
  std::function<void(const std::string& line)> on_placement;  // a line for each node of the plan's graph: where it works, what moves for it
};

// Messages name a field of a group by both words (option loss_on: loss.on) unless its own tells all (option freeze).
struct CompileOptions {
  PlanMode mode = PlanMode::training;
  std::int64_t batch = 32;                 // global
  std::vector<DeviceSpec> devices;
  LossOptions loss;
  OptimizerOptions optimizer;
  TrainedOptions trained;
  Precision precision = Precision::fp32;
  bool synchronize_batch_norm = false;
  KernelOptions kernel;                    // deterministic, winograd; threads, tf32 and preference are the planner's to set
  std::optional<LayoutPreference> layout;  // absent: whichever is estimated faster
  bool weight_gradients_beside = false;    // training on one GPU: on a stream of their own
  TuningOptions tuning;
  MemoryOptions memory;
  Parallelism parallel;                       // how the devices share the work
  std::optional<DeviceConfiguration> configuration;  // the file's (IR 11), in place of what `parallel` says
  // further names that rules of places may mean nodes by: the modules that a node belongs to, by the node's name
  std::map<std::string, std::vector<std::string>, std::less<>> modules;
  bool gather = true;                         // whether what cannot be computed by parts is gathered; else it is an error
  std::optional<PlacementRequest> placement;  // where values live, in place of what `parallel` says
  PassOptions passes;
  std::function<bool()> stop;              // asked between kernels, often: true ends compile() with Stopped
  std::vector<std::string> keep_gradients; // training: parameter names whose gradients become outputs "gradient/NAME"
  std::map<std::string, GivenBytes, std::less<>> given_bytes;  // by input
};

// Times differ from run to run, and with them the kernels chosen, whose sums are rounded in other places.
inline bool chooses_by_time(const CompileOptions& o) { return o.tuning.autotune && !o.kernel.deterministic; }

// Whether other devices' activations are all that the device is for, and the devices of which that is not so, ascending.
bool only_keeps(const CompileOptions& options, int device);
std::vector<int> computing_devices(const CompileOptions& options);
// Puts the next CPU device there in the list, without samples or a limit of its memory. What is said by a device's number is said anew.
void insert_cpu_device(CompileOptions& options, int place);

// Rows of a batch per device by weight: floor or ceiling of the exact share, sum = batch (largest remainder first,
// the earlier device first among equals). Fails (usage) where no weight is positive or one is negative.
std::vector<std::int64_t> slice_sizes(std::int64_t batch, std::span<const double> weights);

// A batch in equal parts. `last` rows that fill no part are in parts of their own, each of as many as divide a part: these stand there
// equally often, so that means over the part, a normalization's too, are theirs (planner/micro_batches.h).
struct MicroBatches {
  std::int64_t count = 1, rows = 0, last = 0;
  std::int64_t batch() const { return count * rows; }  // with the rows that are repeated
};
// The parts of at most `most` rows, and at least half as many, that have the fewest rows in all.
MicroBatches micro_batches_of(std::int64_t batch, std::int64_t most);

}  // namespace tandem
