// Low-rank adapters (LoRA, Hu et al. 2021; as Hugging Face's PEFT computes them): two small matrices beside a weight, which alone are
// trained.
//
//   y = x · W + alpha / r · (x · A) · B
//
// The weight itself is neither changed nor copied: a product by A and one by B stand beside the one by W. An embedding picks rows of A; a
// convolution has one of its own geometry to r channels and one of 1 × 1 behind that.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "importer/lora/lora_sites.h"
#include "importer/message/onnx_messages.h"
#include "importer/types.h"

namespace tandem {

inline constexpr const char* lora_scale = "lora.scale";  // the value that holds alpha / r, of shape [1]

// The adapters of a model, and what of its message is theirs.
struct Lora {
  struct Site {
    std::string base, result;  // what the weight's reader gives, and the name that it had: now the sum's
  };
  std::vector<LoraAdapter> adapters;
  std::vector<AdaptableWeight> weights;  // of each
  std::vector<Site> sites;
  std::set<std::string> added;  // values that added nodes give, but for the sums of `sites`
};

// Adds what `options` ask for; to a model that takes adapters as inputs, in their place. A begins uniform within 1/√fan-in and B at zero;
// of an embedding A at zero and B with a deviation of 1; all
// as in PEFT. `except`: weights that get none. Fails (usage) where a pattern names no weight that can have one, or an adapter file does
// not fit the model. `line` says what was done.
Lora add_adapters(onnx::ModelProto& model, const LoraOptions& options, const std::vector<std::string>& except, std::string& line);

// The model without them: nodes, initializers and names as they were.
void remove_adapters(onnx::ModelProto& model, const Lora& lora);

// A model that takes adapters as inputs, as the next makes it, becomes the model without any; others stay as they are.
void take_off_inputs(onnx::ModelProto& model);

// The model with A, B and lora.scale as graph inputs that have initializers: zeros, and the scale. The rank is a symbol.
void adapters_to_inputs(onnx::ModelProto& model, const Lora& lora);

void add_initializer(onnx::GraphProto& graph, const std::string& name, const Tensor& value);

// weight += scale · A · B, in the file's layout of the weight.
void merge(const LoraAdapter& adapter, const AdaptableWeight& place, const Tensor& a, const Tensor& b, Tensor& weight);

}  // namespace tandem
