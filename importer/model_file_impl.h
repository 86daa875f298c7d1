// What a ModelFile keeps.
#pragma once
#include "importer/build/build_graph.h"
#include "importer/flat/flat_model.h"
#include "importer/graph_memo.h"
#include "importer/lora/lora.h"
#include "importer/message/limits.h"
#include "importer/message/tensor_data.h"
#include "importer/model_file.h"
#include "importer/training/training_info.h"
#include "tandem_onnx.pb.h"

namespace tandem {

struct ModelFile::Impl {
  // `bytes`: of the file that the message was read from
  Impl(onnx::ModelProto message, std::int64_t bytes, ExternalData data, std::filesystem::path file, const WeightOptions& weights);

  std::filesystem::path path;  // empty: parsed from memory
  ExternalData external;
  onnx::ModelProto proto;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> head;
  Lora lora;
  std::optional<TrainingStep> step;  // of training_info
  std::string step_problem;          // why there is none, where the file brings one
  AddedLoss loss;                    // what of its loss stands in `proto` now
  FlatModel flat;
  std::vector<DataForm> forms;  // of the initializers whose values were taken out of the proto; else none
  std::map<std::string, Tensor> unread;  // of these, values that `flat` does not hold
  GraphMemo graphs;             // nothing of the above changes any more

  Graph graph(const ImportOptions& options) const;  // made anew
  std::vector<std::string> node_names() const;      // of `proto`'s graph, as `flat` has them
};

}  // namespace tandem
