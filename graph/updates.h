// What an optimizer's update node is: which states it keeps of each tensor, and the numbers of its formula. The operators, the
// planner and the kernels of every backend go by this.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "graph/attributes.h"
#include "graph/step_scalars.h"

namespace tandem {

struct UpdateRow {
  std::string_view op, kernel;
  UpdateKind kind;
};
std::span<const UpdateRow> update_rows();
const UpdateRow* find_update(std::string_view op);  // null: no optimizer's

// A state of each tensor, in the order of the node's operands. `slot`: where the kernels' functions take it.
struct UpdateState {
  std::string_view name;  // "momentum": the parameter "momentum/WEIGHT"
  int slot;
};
inline constexpr int update_slots = 3;
std::vector<UpdateState> update_states(UpdateKind kind, const Attributes& attributes);

// How an update of several tensors (attribute `tensors`) has its operands: the scalars first, then of each tensor the parameter, its
// gradient, which is only read, its states, and perhaps a copy.
struct UpdateOperands {
  UpdateOperands(const Attributes& attributes, std::size_t inputs);
  std::size_t tensors = 0, each = 0;  // `each`: operands of a tensor
  static constexpr std::size_t parameter = 0, gradient = 1;
  std::size_t at(std::size_t tensor, std::size_t i = parameter) const { return 1 + tensor * each + i; }
};

// An update node's attributes, all of them optional. Attributes are float32: a number is taken as it is written shortest, so
// that 0.999 is 0.999, and 1 − 0.999 is right to all digits.
struct UpdateNumbers {
  UpdateKind kind = UpdateKind::sgd;
  bool nesterov = false, decoupled = false, amsgrad = false, centered = false;
  bool average = false;     // a state more, the last: an average of the parameter
  bool copies = false;      // the parameter is kept in 16 bits, too
  double rate = 1;          // times the step's learning rate
  double from = 0;          // the epoch from which on the parameter moves
  double weight_decay = 0, momentum = 0, dampening = 0, beta1 = 0, beta2 = 0, epsilon = 0;  // beta1 is rho, too
  double rate_decay = 0, trust = 0;
  double clip_value = 0;    // gradients are cut to ± this; 0: they are not
  double clip_norm = 0;     // largest norm of each parameter's gradient; 0: any

  int states = 0;  // of all kinds, without the copy
  std::vector<UpdateState> own;  // of the formula: those before the average
};
UpdateNumbers update_numbers(UpdateKind kind, const Attributes& attributes);

// n/(n − 1): what an unbiased variance of n values is of their population variance; 1 where that is not known.
double unbiased(double n);
// What RunningStatistics takes of the value of its tensor `t`: (1 − momentum), for a variance of attribute counts[t] values times
// unbiased().
double statistic_share(const Attributes& attributes, std::size_t t);

}  // namespace tandem
