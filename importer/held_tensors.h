// The float tensors that a model holds, of which find_weights says what each is: initializers, and nodes that give a tensor of their own.
#pragma once
#include <optional>
#include <vector>

#include "importer/flat_model.h"

namespace tandem {

enum class Source { initializer, node, inner };  // inner: of a function or a subgraph

struct Held {
  Symbol symbol;
  Source source = Source::initializer;
  TensorType type;
  std::optional<Tensor> data;
  bool fill = false;  // a ConstantOfShape: a template's weight without its values, or a part of a formula
};

// Initializers of main first, then those of nodes, in their order.
std::vector<Held> held_tensors(const FlatModel& model);

}  // namespace tandem
