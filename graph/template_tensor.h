// What the float tensors of a template are to training.
#pragma once
#include <string>
#include <string_view>

#include "graph/tensor.h"

namespace tandem {

enum class Holding {
  trained,
  statistic,  // of BatchNormalization: follows the batches by its own rule
  constant,
};
constexpr std::string_view name_of(Holding h) {
  return h == Holding::trained ? "trained" : h == Holding::statistic ? "statistic" : "constant";
}

// A float tensor that the template holds, in an initializer or in a Constant or ConstantOfShape node.
struct TemplateTensor {
  std::string name;
  TensorType type;
  Holding holding = Holding::constant;
  std::string reason;   // what says so: "the file: PARAMETER", "W of Conv 'conv1'"
  bool certain = true;  // false: judged by a rule that may be wrong of a model that nobody here has seen
  bool asked = false;   // an option says so
};

}  // namespace tandem
