// Low-rank adapters (LoRA): two small matrices beside a weight, which alone are trained.
#pragma once
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "importer/model_file.h"
#include "tandem_onnx.pb.h"

namespace tandem {

// Every initializer that LoraOptions::targets names, or of which they name a reader (by the node's name or its PyTorch module), that is a float32 matrix and that nothing but MatMul and Gemm reads, as their
// second operand and all alike, gets `NAME.lora_A` [r, in], uniform within 1/sqrt(in), and `NAME.lora_B` [out, r], zeros. A Gemm in front of all
// nodes makes NAME.lora_W = NAME + alpha / r * B·A, laid out as NAME, and the readers read that. `except`: initializers left as they
// are. Fails (usage) where a pattern names no such matrix. `line` says what was done.
std::vector<LoraAdapter> add_adapters(onnx::ModelProto& model, const LoraOptions& options, const std::vector<std::string>& except, std::string& line);

// The model without them: nodes, initializers and readers as they were.
void remove_adapters(onnx::ModelProto& model, const std::vector<LoraAdapter>& adapters);

// weight += scale * B·A
void merge(const LoraAdapter& adapter, const Tensor& a, const Tensor& b, Tensor& weight);

}  // namespace tandem
