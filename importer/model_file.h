// An ONNX file as a template: read safely, checked whole, turned into graphs for any batch size, written back.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

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

struct ImportOptions {
  std::int64_t batch = 1;                            // axis 0 of every input that has a batch; 0: as the file has it (symbolic: 1)
  std::map<std::string, std::int64_t> dims;          // sizes of other symbolic dimensions, by symbol or by "input:axis"
  std::map<std::string, Tensor> constants;           // graph inputs to be treated as known
  bool training = true;                              // floats used as weights become trainable
  DType float_type = DType::undefined;               // float64: the whole graph in double (gradient checks)
  std::int64_t fold_limit = std::int64_t{64} << 20;  // bytes one folded tensor may take
};

struct SaveOptions {
  // External data in files of the template's own names and not in one named after the output: only plain names (no
  // folder, no leading dot), which the file's author chose and not you.
  bool keep_external_layout = false;
  bool overwrite = false;                                 // external data may replace any regular file of that name
  std::int64_t inline_bytes = (std::int64_t{1} << 31) - 1;  // a larger model keeps its weights in external data
};

class ModelFile {
 public:
  // Fails (io) where the file cannot be read, (model) where it is no ONNX model or breaks a safety limit.
  static ModelFile read(const std::filesystem::path& path);
  static ModelFile parse(std::string bytes, const std::filesystem::path& folder);  // folder: where external data lies; empty: none allowed
  ~ModelFile();
  ModelFile(ModelFile&&) noexcept;
  ModelFile& operator=(ModelFile&&) noexcept;

  const std::string& name() const;  // graph name
  std::int64_t opset() const;       // of ai.onnx
  std::int64_t ir_version() const;
  std::string producer() const;
  std::vector<ModelInput> inputs() const;  // without initializers
  std::vector<std::string> outputs() const;

  // What tells two templates apart but for their weights: a hash of all else in the file.
  std::string fingerprint() const;

  // The graph for one batch size. Parameter names are the initializers' names (or, for weights made by Constant or
  // ConstantOfShape nodes, that node's output name). Fails (model) with all problems in one message.
  Graph graph(const ImportOptions& options) const;
  std::vector<Problem> problems(const ImportOptions& options) const;  // the same problems as a list; empty: importable

  // The template with these values in place of its weights, all else as it was: names, order, opset, metadata and
  // unknown fields. Values not named keep the template's. Written to a temporary name, then renamed: a failure (io)
  // leaves an existing file whole. What the template keeps in external data goes into one file named after the output
  // (`PATH.data`; see SaveOptions), and so do the weights of a model that is too large for one file. Fails (model) where
  // a value has another type or names nothing, or where a weight has neither; (usage) where a file of external data is
  // there already and is not that of the model which `path` holds now.
  struct Weight {
    std::string name;
    Tensor tensor;
  };
  void write(const std::filesystem::path& path, std::vector<Weight> weights, const SaveOptions& options = {}) const;
  // Fails as write would, as far as that can be known without the weights: names that are taken, a folder that cannot be
  // written to, external data of the template that cannot be read any more.
  void check_write(const std::filesystem::path& path, const SaveOptions& options = {}) const;

  struct Impl;

 private:
  explicit ModelFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Any graph as an ONNX file for a viewer: internal operators stand in the domain "tandem".
std::string onnx_of(const Graph& graph);

}  // namespace tandem
