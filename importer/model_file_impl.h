// What a ModelFile keeps.
#pragma once
#include "importer/build_graph.h"
#include "importer/flat_model.h"
#include "importer/limits.h"
#include "importer/lora.h"
#include "importer/model_file.h"
#include "importer/tensor_data.h"

namespace tandem {

struct ModelFile::Impl {
  Impl(std::string bytes, ExternalData data, std::filesystem::path file, const WeightOptions& weights);

  std::filesystem::path path;  // empty: parsed from memory
  ExternalData external;
  onnx::ModelProto proto;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> head;
  Lora lora;
  FlatModel flat;
  std::vector<DataForm> forms;  // of the initializers whose values were taken out of the proto; else none
};

}  // namespace tandem
