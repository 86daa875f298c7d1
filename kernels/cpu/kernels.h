// The list of the CPU backend's kernels: one row an operator and kernel family, best first.
#pragma once
#include <span>

#include "kernels/cpu/describe.h"

namespace tandem {

struct CpuKernelRow {
  std::string_view op;
  std::string_view kernel;  // what the names of its descriptions start with
  Describe describe;
};
std::span<const CpuKernelRow> cpu_kernels();

}  // namespace tandem
