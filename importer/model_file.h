// An ONNX file as a template: read safely, checked whole, turned into graphs for any batch size, written back.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/template_tensor.h"
#include "importer/training_step.h"

namespace tandem {

// One thing that keeps a model from being used.
struct Problem {
  std::string node;  // name, or "#12" where it has none; empty: the model itself
  std::string op;    // "ai.onnx::LSTM"
  std::int64_t opset = 0;
  std::string reason;
};
std::string to_string(const Problem& problem);

// A dimension of a model's input as the file gives it.
struct ModelDim {
  std::int64_t size = -1;  // -1: symbolic or absent
  std::string symbol;
};
struct ModelInput {
  std::string name;
  DType dtype = DType::undefined;
  std::vector<ModelDim> dims;
  bool shape_known = true;
};

// Low-rank adapters (importer/lora.h): what is asked of them.
struct LoraOptions {
  std::int64_t rank = 8;
  double alpha = 8;
  std::vector<std::string> targets;  // weights by name with * and ?, also by the nodes that read them; empty: all matrices of products
  std::vector<std::string> except;   // these get none
  std::uint64_t seed = 1;
  std::filesystem::path from;        // an adapter file: its adapters, values, ranks and scale; all above but `except` is left as it is
};
// One of them. A and B are laid out as the products read them: of a matrix [in, r] and [r, out], of a table [rows, r] and [r, columns],
// of a convolution's filters [r, C, ...] and [M, r, 1, ...].
struct LoraAdapter {
  std::string weight, a, b;
  std::int64_t rank = 0;
  double scale = 1;        // alpha / rank
  bool quantized = false;  // the weight is held in integers: nothing can be merged into it
};

// What a user says of a template's float tensors, by name with * and ?; the rules of docs/weights.md judge the others.
struct WeightOptions {
  std::vector<std::string> trainable;
  std::vector<std::string> constant;
  std::vector<std::string> untie;                           // each operand that reads such an initializer gets one of its own; empty: those
                                                            // that an exporter merged, {"none"}: none
  std::vector<std::pair<std::string, std::string>> tie;     // A, B: the second follows the first, transposed where shapes say so
  std::vector<std::string> outputs;                         // the model ends at these values, or nodes, and is cut there (cut_model.h); empty: at its own outputs
  std::optional<std::int64_t> head;                         // so many classes: the layer that makes the scores gets new weights (replace_head.h)
  std::string replace_head;                                 // the node that is meant, by name or output, where several are possible
  std::optional<LoraOptions> lora;
  bool own_loss = false;                                    // a loss that the file's training_info computes, and tandem knows no name for, becomes
                                                            // an output of the graph, its labels an input
};

inline constexpr int no_samples = -1;  // in place of an axis

struct ImportOptions {
  std::int64_t batch = 1;                            // samples of every input that holds some; 0: as the file has it (symbolic: 1), outputs in its order, too
  std::map<std::string, std::int64_t> dims;          // sizes of other symbolic dimensions, by symbol or by "input:axis"
  // Graph inputs to be treated as known. Each of the input's shape, of one sample of it, which all others are like, or a single number,
  // which fills it.
  std::map<std::string, Tensor> constants;
  bool training = true;                              // weights become trainable
  std::int64_t max_turns = 0;                        // of Loops whose end is computed from data and may lie anywhere; 0: these are refused
  // Running variances follow unbiased variances, n/(n − 1) times those of a batch of n values a channel; absent: where PyTorch made the file.
  std::optional<bool> unbiased_variance{};
  DType float_type = DType::undefined;               // float64: the whole graph in double (gradient checks)
  bool keep_halves = false;                          // else what the file holds or computes in 16 bits is float32 in the graph
  std::int64_t fold_limit = std::int64_t{64} << 20;  // bytes one folded tensor may take
  std::map<std::string, int> batch_axes;             // by input: the axis that holds the samples, or no_samples; of others it is found out
  bool one_sample = true;                            // a file that cannot be followed may be one sample without an axis for more, where `batch` is 1
};

// How an input is read.
struct InputForm {
  std::string name;
  int rank = 0;
  int batch_axis = no_samples;
  std::map<int, std::string> open;  // axes whose size neither the options nor the weights tell, and what ImportOptions::dims calls them

  // Adds those sizes, as an array has them whose samples are along axis 0.
  void take_sizes(const Shape& samples_first, std::map<std::string, std::int64_t>& dims) const;
};

// A node as the file has it, functions inlined.
struct OutlineNode {
  std::string name, op;
  std::optional<TensorType> output;  // the first; none: the node, or one before it, could not be built
  std::vector<std::string> reads;    // names of float tensors that the file holds
};

struct SaveOptions {
  std::optional<std::map<std::string, std::string>> metadata;  // what the file's metadata_props are to be; absent: the template's
  // External data in files of the template's own names and not in one named after the output: only plain names (no
  // folder, no leading dot), which the file's author chose and not you.
  bool keep_external_layout = false;
  std::optional<TrainingStep> training;                     // written as training_info, in place of the template's; absent: that stays
  // Of the template's own training_info that was followed: its states now, and the steps since. They are values of it, as weights are.
  std::map<std::string, Tensor> training_states;
  std::int64_t training_steps = 0;
  bool overwrite = false;                                   // external data may replace any regular file of that name
  std::int64_t inline_bytes = (std::int64_t{1} << 31) - 1;  // a larger model keeps its weights in external data
  bool adapters_as_inputs = false;                          // adapters are inputs of the model, zero where nothing is fed; else they are merged
};

class ModelFile {
 public:
  // Fails (io) where the file cannot be read, (model) where it is no ONNX model or breaks a safety limit.
  // Fails (usage) where the options contradict the model.
  static ModelFile read(const std::filesystem::path& path, const WeightOptions& weights = {});
  // folder: where external data lies; empty: none allowed
  static ModelFile parse(std::string bytes, const std::filesystem::path& folder, const WeightOptions& weights = {});
  ~ModelFile();
  ModelFile(ModelFile&&) noexcept;
  ModelFile& operator=(ModelFile&&) noexcept;

  const std::string& name() const;  // graph name
  std::int64_t opset() const;       // of ai.onnx
  std::int64_t ir_version() const;
  std::string producer() const;
  const std::map<std::string, std::string>& metadata() const;  // metadata_props; of equal keys the first
  std::vector<ModelInput> inputs() const;  // without initializers
  std::vector<std::string> outputs() const;
  const std::vector<std::string>& head() const;  // weight and bias that WeightOptions::head made anew; empty: nothing
  const std::vector<LoraAdapter>& adapters() const;  // WeightOptions::lora's
  const std::vector<TemplateTensor>& tensors() const;  // every float tensor, in the file's order

  // The training step that the file brings along in training_info; none: it brings none. Fails (model) where it is another than
  // tandem plans, naming the node.
  std::optional<TrainingStep> training_step() const;
  // What its initializations compute, as a model without inputs whose outputs are named after the tensors that they are first
  // values of; none: it has none.
  std::optional<ModelFile> initialization() const;

  // What tells two templates apart but for their weights: a hash of all else in the file.
  std::string fingerprint() const;

  // The graph for one batch size. Its inputs and outputs hold the samples along axis 0, wherever the file has them. Parameter
  // names are the initializers' names (or, for weights made by Constant or ConstantOfShape nodes, that node's output name).
  // Fails (model) with all problems in one message.
  Graph graph(const ImportOptions& options) const;
  std::vector<InputForm> input_forms(const ImportOptions& options) const;
  std::vector<Problem> problems(const ImportOptions& options) const;  // the same problems as a list; empty: importable
  std::vector<OutlineNode> outline(const ImportOptions& options) const;  // what is known of the nodes, importable or not

  // The template with these values in place of its weights, all else as it was: names, order, opset, metadata and
  // unknown fields. Values not named keep the template's. Written to a temporary name, then renamed: a failure (io)
  // leaves an existing file whole. What the template keeps in external data goes into one file named after the output
  // (`PATH.data`; see SaveOptions), and so do the weights of a model that is too large for one file. Untied initializers are
  // written too, tied ones with their leader's values. Fails (model) where a value has another type or names nothing, or
  // where a weight has neither; (usage) where a file of external data is there already and is not that of the model which
  // `path` holds now.
  struct Weight {
    std::string name;
    Tensor tensor;
  };
  void write(const std::filesystem::path& path, std::vector<Weight> weights, const SaveOptions& options = {}) const;
  // The adapters alone, in ONNX Runtime's format (importer/adapter_file.h): parameters NAME.lora_A and NAME.lora_B of each adapted
  // weight, in its type, and lora.scale, alpha / r. They are named as the inputs of the model that SaveOptions::adapters_as_inputs gives.
  void write_adapter(const std::filesystem::path& path, const std::vector<Weight>& weights) const;
  // Fails as write would, as far as that can be known without the weights: names that are taken, a folder that cannot be
  // written to (one that is not there is taken for one that will be made), external data of the template that cannot be read
  // any more. Returns about how many bytes write will take.
  std::int64_t check_write(const std::filesystem::path& path, const SaveOptions& options = {}) const;

  struct Impl;

 private:
  explicit ModelFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Any graph as an ONNX file for a viewer: internal operators stand in the domain "tandem".
std::string onnx_of(const Graph& graph);

}  // namespace tandem
