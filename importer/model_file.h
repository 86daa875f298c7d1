// An ONNX file as a template: read safely, checked whole, turned into graphs for any batch size, written back.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/device_configuration.h"
#include "importer/message/training_step.h"
#include "importer/types.h"

namespace tandem {

struct SaveOptions {
  std::optional<std::map<std::string, std::string>> metadata;  // what the file's metadata_props are to be; absent: the template's
  // External data in files of the template's own names and not in one named after the output: only plain names (no
  // folder, no leading dot), which the file's author chose and not you.
  bool keep_external_layout = false;
  std::optional<TrainingStep> training;                     // written as training_info, in place of the template's; absent: that stays
  // Of the template's own training_info that was followed: its states now, and the steps since. They are values of it, as weights are.
  std::map<std::string, Tensor> training_states;
  std::int64_t training_steps = 0;
  std::optional<DeviceConfiguration> configuration;         // written in place of one of its name
  bool overwrite = false;                                   // external data may replace any regular file of that name
  std::int64_t inline_bytes = (std::int64_t{1} << 31) - 1;  // a larger model keeps its weights in external data
  // adapters are inputs of the model, zero where nothing is fed; else they are merged
  bool adapters_as_inputs = false;
};

class ModelFile {
 public:
  // Fails (io) where the file cannot be read, (model) where it is no ONNX model or breaks a safety limit.
  // Fails (usage) where the options contradict the model.
  static ModelFile read(const std::filesystem::path& path, const WeightOptions& weights = {});
  // folder: where external data lies; empty: none allowed
  static ModelFile parse(const std::string& bytes, const std::filesystem::path& folder, const WeightOptions& weights = {});
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

  // What nodes' metadata says of them, by name as a graph's nodes have it in `origin`.
  std::map<std::string, NodeNotes> node_notes() const;
  // The device configurations of the file (IR 11), by the same names; axes are those of the file. Fails (model) at a fault, which no
  // checker of ONNX tells: naming node, tensor and field.
  std::vector<DeviceConfiguration> configurations() const;

  // What tells two templates apart but for their weights: a hash of all else in the file.
  std::string fingerprint() const;

  // The graph for one batch size. Its inputs and outputs hold the samples along axis 0, wherever the file has them. Parameter
  // names are the initializers' names (or, for weights made by Constant or ConstantOfShape nodes, that node's output name).
  // Fails (model) with all problems in one message. The graphs asked for last are kept: asking again is cheap.
  Graph graph(const ImportOptions& options) const;
  void release_graphs() const;  // forgets kept graphs whose values take over a MiB that the file does not hold, and keeps no more of them
  void release_values() const;  // those of its large weights leave the memory; who asks for them reads them from the file again
  std::int64_t graphs_built() const;  // so far; one that was kept is not built again
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
  // The same, asked for one by one as they are written: of an output without external data twice where it does not fit one file.
  struct WeightSource {
    std::vector<std::pair<std::string, TensorType>> weights;
    std::function<Tensor(const std::string&)> read;  // of the type said
  };
  void write_from(const WeightSource& weights, const std::filesystem::path& path, const SaveOptions& options = {}) const;
  void write(const std::filesystem::path& path, std::vector<Weight> weights, const SaveOptions& options = {}) const;
  // The adapters alone, in ONNX Runtime's format (importer/message/adapter_file.h): parameters NAME.lora_A and NAME.lora_B of each adapted
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
