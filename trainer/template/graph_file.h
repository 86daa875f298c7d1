// Losses and metrics that ONNX files compute: what their inputs are of a model, and their graphs.
//
// An input of such a file is, by its name, the first of these that there is:
//   1. the model's output of that name;
//   2. the labels, where it is called label, labels, target, targets, y, y_true, t, truth or ground_truth;
//   3. the samples' weights, where it is called weight, weights, sample_weight or sample_weights;
//   4. the output that the loss stands on (the model's first, unless said otherwise), where it is the only one left;
//   5. the model's value of that name, its inputs among them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "importer/model_file.h"
#include "planner/options.h"

namespace tandem {

struct FileInput {
  enum class Of { value, labels, weights };
  std::string name;   // of the file
  Of of = Of::value;
  std::string value;  // of the model
};

// A file beside a model. Both outlive it.
class GraphFile {
 public:
  // `on`: the output that the loss stands on. Fails (usage) where an input is nothing of the model, naming what it may be.
  GraphFile(std::string path, const ModelFile& file, const Graph& model, const std::string& on);
  const std::string& path() const { return path_; }
  const std::vector<FileInput>& inputs() const { return inputs_; }
  const FileInput* of(FileInput::Of kind) const;  // the first; null: none
  // The file's graph for the samples of `model`, whose values say what size its symbolic dimensions have; others may be given.
  // Fails (usage) where a value has another type than the input that it is for.
  Graph graph(const Graph& model, std::int64_t samples, const std::map<std::string, std::int64_t>& dims) const;
  // Puts it behind the model, with inputs for labels (by this name) and weights of samples where it takes some. Gives its first output
  // back. `in_steps`: the samples are a part of a step's. Where all of them weigh 0 the part has no share of the step's mean, and a file
  // that gives one number is given weights of 1: it may divide by them.
  ValueId attach(Graph& model, std::int64_t samples, const std::map<std::string, std::int64_t>& dims, const std::string& labels,
                 const std::string& prefix, bool in_steps = false) const;
  // "my_loss.onnx: its input 'pred' is the model's 'y', 'target' the labels"
  std::string text() const;

 private:
  std::string path_;
  const ModelFile& file_;
  std::vector<FileInput> inputs_;
};

bool is_graph_file(std::string_view name);  // of a loss or a metric: whether it names a file

}  // namespace tandem
