// Fills tables of tensors (bodies/tensor_table.h): as many launches as they need.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "kernels/cuda/bodies/tensor_table.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {

// A body with a table, and the blocks that the table takes.
template <class Body>
struct TableLaunch {
  Body body;
  std::int64_t blocks = 0;
  void start(void* stream) const { launch(body, blocks, stream); }
};

template <class Table>
std::int64_t pieces_of(std::int64_t elements) {
  return ceil_div(elements, Table::piece_elements);
}

// The tensors in the tables of as many launches as hold them; `next` makes a body with an empty one.
template <auto table, class Tensor, class Next>
auto tables_of(std::span<const Tensor> tensors, const Next& next) {
  using Body = decltype(next());
  std::vector<TableLaunch<Body>> all;
  for (const Tensor& tensor : tensors) {
    if (all.empty() || (all.back().body.*table).count == tensors_a_launch) all.push_back({next()});
    auto& [body, blocks] = all.back();
    auto& to = body.*table;
    to.first_block[to.count] = static_cast<std::int32_t>(blocks);
    to.tensors[to.count++] = tensor;
    blocks += pieces_of<std::remove_reference_t<decltype(to)>>(tensor.elements);
  }
  return all;
}

// Whether arrays, or null, begin where 16 bytes can be read as one.
inline bool in_packs(std::initializer_list<const void*> arrays) {
  return std::all_of(arrays.begin(), arrays.end(), [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; });
}

}  // namespace tandem::cuda
