// A parameter that a device keeps as a whole, in another order of axes than the template has it: piece by piece between the two.
#pragma once
#include <span>
#include <vector>

#include "planner/plan/plan.h"

namespace tandem {

// A piece is some rows: what has a range of indices along the axis that is outermost in the template.
class MovedParameter {
 public:
  // Whether pieces are possible: the part is whole, and both orders are without blocks.
  static bool possible(const PlanParameter& parameter, const ParameterPart& part);
  MovedParameter(const PlanParameter& parameter, const ParameterPart& part);

  std::int64_t rows() const { return rows_; }
  std::int64_t row_bytes() const { return row_bytes_; }
  std::int64_t rows_of_a_piece() const;  // of 4 MiB, or one

  // Between rows as they lie in the template, one behind the other, and the same rows in the device's order.
  void to_device_order(std::span<const std::byte> rows, std::span<std::byte> moved) const;
  void to_template_order(std::span<const std::byte> moved, std::span<std::byte> rows) const;

  // Calls move(offset on the device, offset in `moved`, bytes) for each run that `count` rows from `first` on have on the device.
  template <class Move>
  void each_run(std::int64_t first, std::int64_t count, const Move& move) const {
    const std::int64_t bytes = count * inner_bytes_;
    for (std::int64_t o = 0; o < outer_; ++o) move((o * rows_ + first) * inner_bytes_, o * bytes, bytes);
  }

 private:
  Operand with_rows(Operand whole, std::int64_t rows) const;

  Operand template_, device_;
  int axis_ = 0;
  std::int64_t rows_ = 0, row_bytes_ = 0;
  std::int64_t outer_ = 1, inner_bytes_ = 0;  // of the device's order: what stands before the axis, and behind it
};

}  // namespace tandem
