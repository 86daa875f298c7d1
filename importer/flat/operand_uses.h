// What the values of a model are used for.
#pragma once
#include <cstdint>

#include "graph/operator.h"
#include "importer/flat/flat_model.h"

namespace tandem {

// The operands that a value is, in the operators that read it; one that takes it in another form (a view) hands on what its
// output is used for. An operand from which the loss's gradient does not come back counts only where that says what it is.
struct Uses {
  std::uint32_t roles = 0;  // a bit each
  bool written_out = false; // the mean or, under a root with an epsilon, the variance of a normalization written out
  bool epsilon = false;     // a number added under a root
  bool output = false;      // of the model
  int readers = 0;          // operands that are it, not through views
  struct Reader {           // the one that says most
    const FlatNode* node = nullptr;
    int input = 0;
  } reader;
  bool direct = false;      // that one reads the value itself, no view of it

  bool has(OperandRole role) const { return roles >> static_cast<int>(role) & 1; }
  bool gradient() const;      // of the loss can reach it
  OperandRole strongest() const;  // statistics, then constants, then weights, then the numbers of a formula
};

// What an operand is to the operator, by its row; data where the operator is not known.
OperandRole role_of(const FlatNode& node, int input);

// By symbol.
std::vector<Uses> uses_of(const FlatModel& model);

bool is_weight(OperandRole role);     // a filter, a matrix, a bias, ...
bool is_statistic(OperandRole role);  // of BatchNormalization
// "W of Conv 'conv1'"
std::string text_of(const Uses::Reader& reader);

}  // namespace tandem
