// Elementwise programs as kernels compiled at load time.
#pragma once
#include "kernels/cuda/kernels.h"

namespace tandem::cuda {

// As describe_elementwise; made kernels are compiled by NVRTC where it is there and interpreted where it is not.
std::vector<KernelDescription> describe_fused_elementwise(const KernelRequest& request, Libraries* libraries);

}  // namespace tandem::cuda
