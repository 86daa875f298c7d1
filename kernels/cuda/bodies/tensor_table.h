// Many tensors in one launch: the table of them travels as the kernel's argument, of which CUDA takes 32764 bytes; a block takes one
// piece of one tensor.
#pragma once
#include "kernels/cuda/bodies/narrow.h"
#include "kernels/cuda/bodies/pack.h"
#include "kernels/cuda/bodies/thread.h"

namespace tandem::cuda {

inline constexpr int tensors_a_launch = 240;

// `Tensor` has `elements`, and `packs`: whether its arrays begin at multiples of 16 bytes.
template <class Tensor, int elements_of_piece>
struct TensorTable {
  static constexpr std::int64_t piece_elements = elements_of_piece;  // a multiple of 16
  int count;
  std::int32_t first_block[tensors_a_launch];
  Tensor tensors[tensors_a_launch];

  struct Piece {
    int tensor;
    std::int64_t begin, end;
  };
  template <class Thread>
  TANDEM_DEVICE Piece piece(const Thread& t) const {
    int k = 0, behind = count;  // the tensor is one of k … behind − 1
    while (k + 1 < behind) {
      const int middle = (k + behind) / 2;
      (first_block[middle] <= t.block() ? k : behind) = middle;
    }
    const std::int64_t begin = (t.block() - first_block[k]) * piece_elements, end = begin + piece_elements, elements = tensors[k].elements;
    return {k, begin, end < elements ? end : elements};
  }
  // f(width, i) for elements i … i + width − 1 of a piece by the block's threads: `full` of them at a time where the tensor lies so.
  template <int full, int threads, class Thread, class F>
  TANDEM_DEVICE void each(const Thread& t, const Piece& p, const F& f) const {
    const std::int64_t whole = tensors[p.tensor].packs ? p.end - (p.end - p.begin) % full : p.begin;
    TANDEM_UNROLL(unroll 2)
    for (std::int64_t i = p.begin + t.thread() * full; i < whole; i += threads * full) f(std::integral_constant<int, full>{}, i);
    for (std::int64_t i = whole + t.thread(); i < p.end; i += threads) f(std::integral_constant<int, 1>{}, i);
  }
};

}  // namespace tandem::cuda
