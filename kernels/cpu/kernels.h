// The list of the CPU backend's kernels: one row an operator and kernel family, best first.
#pragma once
#include "kernels/cpu/describe.h"
#include "kernels/list.h"

namespace tandem {

using CpuKernelRow = ListedKernel<Describe>;
std::span<const CpuKernelRow> cpu_kernels();

}  // namespace tandem
