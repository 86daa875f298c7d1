// The float tensors that a model holds, of which find_weights says what each is: initializers, and nodes that give a tensor of their own.
#pragma once
#include <optional>
#include <vector>

#include "importer/flat/flat_model.h"

namespace tandem {

enum class Source {
  initializer,  // of the model or of a subgraph
  node,         // Constant, or a ConstantOfShape of the model's own graph
  inner,        // a node of a function or a subgraph that has no value of its own: a ConstantOfShape, or the call gives it
};

struct Held {
  Symbol symbol;
  Source source = Source::initializer;
  TensorType type;
  std::optional<Tensor> data;
  bool in_function = false;  // of which a Constant node is the only way to hold a tensor
  bool fill = false;         // a ConstantOfShape: a template's weight without its values, or a part of a formula
};

// Initializers of main first, then those of bodies and nodes, in their order; each once.
std::vector<Held> held_tensors(const FlatModel& model);

}  // namespace tandem
