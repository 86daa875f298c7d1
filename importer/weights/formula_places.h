// In what formula a tensor stands that the file holds, as far as the nodes around it tell.
#pragma once
#include "importer/flat/held_tensors.h"
#include "importer/flat/operand_uses.h"
#include "importer/message/tensor_data.h"
#include "importer/weights/filter_banks.h"

namespace tandem {

inline bool is_large(OperandRole role) {
  return role == OperandRole::filter || role == OperandRole::transposed_filter || role == OperandRole::matrix ||
         role == OperandRole::embedding;
}
inline Tensor comparable(const Tensor& t) {
  return is_half(t.dtype()) ? t.cast(DType::float32) : t;
}

class FormulaPlaces {
 public:
  FormulaPlaces(const FlatModel& model, const std::vector<Uses>& uses);  // both must outlive it

  Bank bank_of(const Held& held) const;
  bool first_state_of_loop(const Held& held) const;
  bool imaginary(const Held& held) const;
  bool interpolates(const Held& held, const Tensor& values) const;
  bool bias_of_product(const Held& held) const;  // directly or through views

 private:
  void note_producers(const FlatBody& body);
  const Uses& uses(const Held& held) const { return uses_[static_cast<std::size_t>(held.symbol.index)]; }
  const FlatNode* producer(Symbol s) const { return s.present() ? producers_[static_cast<std::size_t>(s.index)] : nullptr; }
  Symbol picked_from(Symbol s) const;

  const FlatModel& model_;
  const std::vector<Uses>& uses_;
  std::vector<const FlatNode*> producers_;
};

}  // namespace tandem
