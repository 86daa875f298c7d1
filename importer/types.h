// What the importer is asked and what it answers: options of reading, inputs, outlines and problems.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/template_tensor.h"

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

// Low-rank adapters (importer/lora/lora.h): what is asked of them.
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
  // the model ends at these values, or nodes, and is cut there (cut_model.h); empty: at its own outputs
  std::vector<std::string> outputs;
  // so many classes: the layer that makes the scores gets new weights (replace_head.h)
  std::optional<std::int64_t> head;
  std::string replace_head;                                 // the node that is meant, by name or output, where several are possible
  std::optional<LoraOptions> lora;
  // a loss that the file's training_info computes, and tandem knows no name for, becomes
  bool own_loss = false;
                                                            // an output of the graph, its labels an input
};

inline constexpr int no_samples = -1;  // in place of an axis

struct ImportOptions {
  // samples of every input that holds some; 0: as the file has it (symbolic: 1), outputs in its order, too
  std::int64_t batch = 1;
  std::map<std::string, std::int64_t> dims;          // sizes of other symbolic dimensions, by symbol or by "input:axis"
  // Graph inputs to be treated as known. Each of the input's shape, of one sample of it, which all others are like, or a single number,
  // which fills it.
  std::map<std::string, Tensor> constants;
  bool training = true;                              // weights become trainable
  std::int64_t max_loop_iterations = 0;             // of Loops whose end is computed from data and may lie anywhere; 0: these are refused
  // Running variances follow unbiased variances, n/(n − 1) times those of a batch of n values a channel; absent: where PyTorch made the
  // file.
  std::optional<bool> unbiased_variance{};
  DType float_type = DType::undefined;               // float64: the whole graph in double (gradient checks)
  bool keep_halves = false;                          // else what the file holds or computes in 16 bits is float32 in the graph
  std::int64_t fold_limit = std::int64_t{64} << 20;  // bytes one folded tensor may take
  std::map<std::string, int> batch_axes;             // by input: the axis that holds the samples, or no_samples; of others it is found out
  // a file that cannot be followed may be one sample without an axis for more, where `batch` is 1
  bool one_sample = true;

  bool operator==(const ImportOptions&) const = default;
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

}  // namespace tandem
