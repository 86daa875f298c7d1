// What became of the parameters and buffers that the calls of PyTorch's exporter take, by its notes (importer/message/signature.h). ONNX
// Script's optimizer fuses batch normalizations into the layers before them, leaves biases of zeros out, and keeps one of several tensors
// that are equal: then a node's call names what the file does not hold.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "importer/flat/flat_model.h"

namespace tandem {

// An operand that reads another parameter's tensor; `owner`: the parameter or buffer that its call takes there, as calls name it; empty:
// not known which.
struct Foreign {
  Symbol tensor;
  const FlatNode* reader = nullptr;
  int input = 0;
  std::string owner;
};

struct CallParameters {
  std::vector<Foreign> merged;
  std::vector<std::string> normalizations;  // modules whose normalization is part of a layer: "layer1.0.bn2"
  std::vector<std::string> left_out;        // parameters, by their own names
  std::set<int> shared;                     // symbols of tensors that all calls which read them take for the same parameters
};
CallParameters call_parameters(const FlatModel& model);

}  // namespace tandem
