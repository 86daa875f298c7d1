// Gather and GatherElements, and their gradients.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

TANDEM_DEVICE std::int64_t read_index(const void* indices, bool wide, std::int64_t i) {
  return wide ? static_cast<const std::int64_t*>(indices)[i] : static_cast<const std::int32_t*>(indices)[i];
}

// y[outer, k, inner] = x[outer, indices[k], inner], all row-major.
template <class Unit>
struct GatherBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const Unit* x;
  const void* indices;
  Unit* y;
  Unit invalid;
  bool wide;  // int64 indices, else int32
  std::int64_t axis, count, inner, elements;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t c = i % inner, k = i / inner % count, outer = i / inner / count;
      std::int64_t index = read_index(indices, wide, k);
      if (index < 0) index += axis;
      y[i] = index >= 0 && index < axis ? x[(outer * axis + index) * inner + c] : invalid;
    }
  }
};

// chain[k] = the next place after k with the same index, or -1; chain[count + k] = 1 where k is the first with its index.
struct GatherChainBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const void* indices;
  std::int32_t* chain;
  bool wide;
  std::int64_t axis, count;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t k = t.block() * threads + t.thread(); k < count; k += t.blocks() * threads) {
      const std::int64_t own = at(k);
      std::int64_t next = k + 1, before = k - 1;
      while (next < count && at(next) != own) ++next;
      while (before >= 0 && at(before) != own) --before;
      chain[k] = next < count ? static_cast<std::int32_t>(next) : -1;
      chain[count + k] = before < 0 && own >= 0 && own < axis;
    }
  }

 private:
  TANDEM_DEVICE std::int64_t at(std::int64_t k) const {
    const std::int64_t index = read_index(indices, wide, k);
    return index < 0 ? index + axis : index;
  }
};

// dx[outer, indices[k], inner] = Σ dy over the places of equal index, in their order; dx is zero elsewhere already.
template <class T>
struct GatherBackwardBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* dy;
  const void* indices;
  const std::int32_t* chain;
  T* dx;
  bool wide;
  std::int64_t axis, count, inner, elements;  // of dy

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t c = i % inner, first = i / inner % count, outer = i / inner / count;
      if (!chain[count + first]) continue;
      Compute<T> sum = 0;
      for (std::int64_t k = first; k >= 0; k = chain[k]) sum += load(dy[(outer * count + k) * inner + c]);
      std::int64_t index = read_index(indices, wide, first);
      if (index < 0) index += axis;
      dx[(outer * axis + index) * inner + c] = store<T>(sum);
    }
  }
};

// y[outer, k, inner] = x[outer, indices[outer, k, inner], inner], all row-major.
template <class Unit>
struct GatherElementsBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const Unit* x;
  const void* indices;
  Unit* y;
  Unit invalid;
  bool wide;  // int64 indices, else int32
  std::int64_t axis, count, inner, elements;  // count of indices along the axis

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t c = i % inner, outer = i / inner / count;
      std::int64_t index = read_index(indices, wide, i);
      if (index < 0) index += axis;
      y[i] = index >= 0 && index < axis ? x[(outer * axis + index) * inner + c] : invalid;
    }
  }
};

// dx[outer, indices[outer, k, inner], inner] = Σ dy over the k of equal index, in their order: summed by the thread of the
// first of them. dx is zero elsewhere already.
template <class T>
struct GatherElementsBackwardBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* dy;
  const void* indices;
  T* dx;
  bool wide;
  std::int64_t axis, count, inner, elements;  // of dy

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t c = i % inner, outer = i / inner / count, begin = outer * count * inner + c, end = begin + count * inner;
      const std::int64_t own = at(i);
      std::int64_t before = i - inner;
      while (before >= begin && at(before) != own) before -= inner;
      if (before >= begin || own < 0 || own >= axis) continue;
      Compute<T> sum = 0;
      for (std::int64_t k = i; k < end; k += inner)
        if (at(k) == own) sum += load(dy[k]);
      dx[(outer * axis + own) * inner + c] = store<T>(sum);
    }
  }

 private:
  TANDEM_DEVICE std::int64_t at(std::int64_t k) const {
    const std::int64_t index = read_index(indices, wide, k);
    return index < 0 ? index + axis : index;
  }
};

}  // namespace tandem::cuda
