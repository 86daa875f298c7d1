// Kernels at the shapes of whole networks: rows of operators, and what they read. All that a backend offers for a row is run on a
// device and compared there with the first of our own kernels, else with the first (shapes.cpp); CPUs would take too long.
#pragma once
#include "tests/cuda/emulated.h"

namespace tandem::cuda {

// Noise between low and high, integers too. float64 stands for the row's type, undefined for an operand that is absent.
struct ShapeInput {
  TensorType type;
  double low = -1, high = 1;
  int output = -1, input = -1;  // of the forward operator, whose value it is
};
struct ShapeJob {
  std::string op;
  Attributes attributes;
  std::vector<ShapeInput> inputs;
  std::vector<TensorType> outputs;
  std::int64_t terms = 1;  // summed in an output element
  bool ties = false;       // where two numbers are alike, or one is near 0, kernels may differ: in an element of 10,000
};
struct ShapeRow {
  std::string name;
  std::vector<DType> types;
  ShapeJob forward;
  std::optional<ShapeJob> backward = {};
  std::int64_t repeats = 1;  // of the batch, behind a small one: results repeat, too. Kernels may decline such sizes
};

struct Compared {
  int kernels = 0;
};
// Fails the test where kernels differ or write what is no number.
Compared compare_at_shape(const Backend& backend, const ShapeRow& row, DType type);
// What the row takes at least, in bytes of the device.
std::int64_t bytes_of(const ShapeRow& row, DType type);

}  // namespace tandem::cuda
