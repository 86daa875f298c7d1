// Which weights of a model can have low-rank adapters, and where they are read.
#pragma once
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "importer/message/onnx_messages.h"

namespace tandem {

enum class LoraForm {
  matrix,     // second operand of MatMul or Gemm, [in, out]; MatMulNBits's blocks
  embedding,  // table of Gather, [rows, columns]
  filter,     // of Conv with one group, [M, C, ...]
};

// On the way from where the file holds a weight to where it is read: a transposition, or another shape of the same elements.
struct LayoutStep {
  std::vector<int> permutation;  // empty: a new shape
  Shape before;
  bool operator==(const LayoutStep&) const = default;
};

// A weight that products, look-ups or convolutions alone read, all of them alike: directly, or through Transpose, Reshape, Cast, Identity,
// QuantizeLinear or DequantizeLinear.
struct AdaptableWeight {
  std::string name;  // an initializer, or the output of a Constant node
  LoraForm form = LoraForm::matrix;
  Shape shape;                       // as it is read
  DType type = DType::undefined;     // as it is read: the adapter's
  bool quantized = false;            // integers, in the file or on the way
  std::vector<LayoutStep> steps;
  std::vector<int> readers;          // nodes of the model's graph
  std::vector<std::string> names;    // of the readers and of the modules that they are of
};

// What an adapter of rank r of such a weight looks like.
struct AdapterShapes {
  std::int64_t in, out;  // of the weight as a matrix
  Shape a, b;
};
AdapterShapes adapter_shapes(const AdaptableWeight& weight, std::int64_t r);

std::vector<AdaptableWeight> adaptable_weights(const onnx::GraphProto& graph);

}  // namespace tandem
