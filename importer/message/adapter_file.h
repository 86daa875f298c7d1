// ONNX Runtime's file of adapters (.onnx_adapter), which onnxruntime.LoraAdapter and AdapterFormat, and ORT GenAI read: a FlatBuffer of
// one schema (onnxruntime/lora/adapter_format/adapter_schema.fbs):
//
//   table Parameter { name: string; dims: [int64]; data_type: int32; raw_data: [uint8] (force_align: 8); }
//   table Adapter { format_version: int; adapter_version: int; model_version: int; parameters: [Parameter]; }
//   file_identifier "TORT"; root_type Adapter;
//
// Numbers are little-endian, data types ONNX's. Two tables are read and written here: a library with its compiler of schemas would be
// more to build than this is to read.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "graph/tensor.h"

namespace tandem {

struct AdapterParameter {
  std::string name;
  Tensor tensor;
};

std::string adapter_bytes(const std::vector<AdapterParameter>& parameters);
// Fails (model) where the bytes are no such file, or one of a later format.
std::vector<AdapterParameter> parse_adapter(std::string_view bytes);
std::vector<AdapterParameter> read_adapter(const std::filesystem::path& path);  // fails (io) also where it cannot be read

}  // namespace tandem
