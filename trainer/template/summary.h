// A model as a table: its nodes with output shapes and parameters; and what its tensors are to training.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "importer/model_file.h"
#include "planner/compile.h"

namespace tandem {

struct SummaryOptions {
  std::map<std::string, std::int64_t> dims;  // sizes of symbolic dimensions other than the batch
  std::vector<std::string> freeze, unfreeze;
  std::map<std::string, int> batch_axes;     // as ImportOptions has them
  std::map<std::string, Tensor> constants;
  std::int64_t max_loop_iterations = 0;     // ImportOptions::max_loop_iterations
};
struct SummaryRow {
  std::string node;
  std::string op;
  std::optional<TensorType> output;  // none: not known
  std::int64_t parameters = 0;       // counted where they are first used
  double flops = 0;                  // of one sample
};
struct SummaryTensor {
  TemplateTensor tensor;
  bool frozen = false;  // a weight or a statistic that --freeze keeps
};
struct Summary {
  std::string model;
  std::vector<SummaryRow> rows;
  std::int64_t parameters = 0;  // in all, running statistics included
  std::int64_t trainable = 0;   // without those that are frozen
  std::int64_t frozen = 0;      // of the weights
  std::int64_t adapters = 0, in_adapters = 0;  // adapted weights, and the values of their adapters
  std::int64_t bytes = 0;       // of the parameters
  double flops = 0;
  std::vector<SummaryTensor> tensors;  // every float tensor of the file
  std::vector<std::string> warnings;   // of what was read, and of what is frozen
  std::vector<Problem> problems;       // empty: the model can be used
};
// `names`: its patterns of names that are frozen.
Summary summarize(const Graph& graph, const std::vector<TemplateTensor>& tensors, const CompileOptions& names);
Summary outline(const std::string& model, const std::vector<OutlineNode>& nodes, const std::vector<TemplateTensor>& tensors,
                std::vector<Problem> problems, const CompileOptions& names);
std::string text_of(const Summary& summary);
std::string text_of_tensors(const Summary& summary);  // a table, a row a tensor

}  // namespace tandem
