// Which of a model's tensors prepare its data: what stands elementwise between an input and the first weight (a mean, a deviation,
// 1/255), components that a centered input is multiplied by, and what scales and shifts results back behind the last weight.
#pragma once
#include <functional>

#include "importer/flat/held_tensors.h"
#include "importer/flat/operand_uses.h"

namespace tandem {

enum class Prepares { nothing, input, components, output };

struct PreparationQuery {
  const FlatModel& model;
  const std::vector<Uses>& uses;
  std::function<bool(Symbol)> trained;      // whether the tensor is a weight by its operand, and trained unless the user says otherwise
  std::function<bool(Symbol)> free;         // whether nothing that goes before structure says what it is
  std::function<const Held*(Symbol)> held;  // null: not held, or no float
};

// By symbol.
std::vector<Prepares> data_preparation(const PreparationQuery& query);

}  // namespace tandem
