// GatherND, ScatterND and ScatterElements. What is written to one place several times is combined in the order of the updates, the
// same in every run: updates are sorted by where they go.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/sorted_places.h"
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

// Tuples of coordinates, each of which names a row of x.
struct TupleRows {
  const std::int64_t* tuples;
  int coordinates;
  std::int64_t sizes[max_dims];  // of the axes that have coordinates
  std::int64_t per_part, rows;   // tuples and rows that belong together

  // The row of all x that tuple i names; -1 where a coordinate is outside.
  TANDEM_DEVICE std::int64_t row(std::int64_t i) const {
    std::int64_t to = i / per_part;
    const std::int64_t* const tuple = tuples + i * coordinates;
    for (int d = 0; d < coordinates; ++d) {
      const std::int64_t index = tuple[d] < 0 ? tuple[d] + sizes[d] : tuple[d];
      if (index < 0 || index >= sizes[d]) return -1;
      to = to * sizes[d] + index;
    }
    return to;
  }
};

// Single elements: each replaces the coordinate along an axis of its own place.
struct ElementRows {
  const void* indices;
  bool wide;  // int64 indices, else int32
  int rank, axis;
  std::int64_t x[max_dims], u[max_dims];

  TANDEM_DEVICE std::int64_t row(std::int64_t i) const {
    std::int64_t index = wide ? static_cast<const std::int64_t*>(indices)[i] : static_cast<const std::int32_t*>(indices)[i];
    if (index < 0) index += x[axis];
    if (index < 0 || index >= x[axis]) return -1;
    std::int64_t to = 0, stride = 1;
    for (int d = rank - 1; d >= 0; --d) {
      to += (d == axis ? index : i % u[d]) * stride;
      stride *= x[d];
      i /= u[d];
    }
    return to;
  }
};

template <class Unit>
struct GatherNDBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const Unit* x;
  Unit* y;
  Unit invalid;
  TupleRows from;
  std::int64_t inner, elements;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t row = from.row(i / inner);
      y[i] = row < 0 ? invalid : x[row * inner + i % inner];
    }
  }
};

enum class ScatterReduction : int { none, add, mul, max, min };

// y[row, c] = what the reduction makes of it and of all updates that go there: by the thread of the first of them.
template <class T>
struct ScatterRowsBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* updates;
  T* y;  // holds x already
  const std::uint64_t* keys;
  ScatterReduction reduction;
  std::int64_t count, inner;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < count * inner; i += t.blocks() * threads) {
      const std::int64_t first = i / inner, c = i % inner;
      const std::uint64_t row = row_of(keys[first]);
      if (row == no_row || (first > 0 && row_of(keys[first - 1]) == row)) continue;
      T& to = y[static_cast<std::int64_t>(row) * inner + c];
      Compute<T> value = load(to);
      for (std::int64_t k = first; k < count && row_of(keys[k]) == row; ++k)
        value = combined(value, load(updates[place_of(keys[k]) * inner + c]));
      to = store<T>(value);
    }
  }

 private:
  TANDEM_DEVICE Compute<T> combined(Compute<T> a, Compute<T> u) const {
    switch (reduction) {
      case ScatterReduction::add: return a + u;
      case ScatterReduction::mul: return a * u;
      case ScatterReduction::max: return u > a || u != u ? u : a;
      case ScatterReduction::min: return u < a || u != u ? u : a;
      default: return u;
    }
  }
};

}  // namespace tandem::cuda
