// What the backends' lists of kernels are made of: one row an operator and kernel family, best first within an operator.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "graph/operator.h"
#include "kernels/device.h"

namespace tandem {

template <class Describe>
struct ListedKernel {
  std::string_view op;
  std::string_view kernel;  // descriptions are named this, or this and a suffix that names a variant: "cudnn.convolution.eng47.k2=1"
  Describe describe;
  bool (*also)(std::string_view op) = nullptr;  // what else the row serves: Elementwise's all operators that have a formula
  bool serves(std::string_view name) const { return name == op || (also && also(name)); }
};

// The list as Backend::rows gives it: a row for every operator that one serves.
template <class Describe>
std::vector<KernelRow> rows_of(std::span<const ListedKernel<Describe>> list) {
  std::vector<KernelRow> rows;
  for (const ListedKernel<Describe>& row : list) {
    rows.push_back({row.op, row.kernel});
    if (!row.also) continue;
    for (const Operator& op : operators())
      if (op.name != row.op && row.also(op.name)) rows.push_back({op.name, row.kernel});
  }
  return rows;
}

}  // namespace tandem
