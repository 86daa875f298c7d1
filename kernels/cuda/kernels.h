// The list of CUDA kernels and what describing one needs.
#pragma once
#include "kernels/list.h"

namespace tandem::cuda {

class Libraries;  // cuDNN, cuBLASLt and NVRTC; kernels of our own may be described without (null)

// Ways to run a request with one family of kernels, best first; empty where the family cannot.
using Describe = std::vector<KernelDescription> (*)(const KernelRequest& request, Libraries* libraries);

using Row = ListedKernel<Describe>;
std::span<const Row> native_kernels();  // our own, which need no library
std::span<const Row> kernels();         // libraries' before our own

// Backend::fuses, for devices of this compute capability (90 is 9.0).
Gain fuses(const KernelRequest& request, int capability);

}  // namespace tandem::cuda
