// Comparisons, logic and Where, whose operands differ in type from the result: they broadcast along a nest; elements are
// counted in the output's packed order.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

enum class Comparison : std::uint8_t { equal, greater, greater_or_equal, less, less_or_equal, both, either, one, negation, no_number };

template <class T>
struct CompareBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T *a, *b;  // b null for those of one operand
  std::uint8_t* y;
  std::uint32_t elements;
  Comparison comparison;
  Nest<2> nest;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      std::int64_t at[2];
      nest.offsets(static_cast<std::uint32_t>(i), at);
      const Compute<T> left = load(a[at[0]]), right = b ? load(b[at[1]]) : Compute<T>(0);
      y[i] = compare(left, right);
    }
  }

 private:
  TANDEM_DEVICE bool compare(Compute<T> left, Compute<T> right) const {
    const Compute<T> zero = 0;
    switch (comparison) {
      case Comparison::equal: return left == right;
      case Comparison::greater: return left > right;
      case Comparison::greater_or_equal: return left >= right;
      case Comparison::less: return left < right;
      case Comparison::less_or_equal: return left <= right;
      case Comparison::both: return left != zero && right != zero;
      case Comparison::either: return left != zero || right != zero;
      case Comparison::one: return (left != zero) != (right != zero);
      case Comparison::negation: return left == zero;
      case Comparison::no_number: return left != left;
    }
    return false;
  }
};

template <class Unit>
struct WhereBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const std::uint8_t* condition;
  const Unit *a, *b;
  Unit* y;
  std::uint32_t elements;
  Nest<3> nest;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      std::int64_t at[3];
      nest.offsets(static_cast<std::uint32_t>(i), at);
      y[i] = condition[at[0]] ? a[at[1]] : b[at[2]];
    }
  }
};

}  // namespace tandem::cuda
