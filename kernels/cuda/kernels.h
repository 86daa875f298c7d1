// The list of CUDA kernels and what describing one needs.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"

namespace tandem::cuda {

class Libraries;  // cuDNN, cuBLASLt and NVRTC; kernels of our own may be described without (null)

// Ways to run a request with one family of kernels, best first; empty where the family cannot.
using Describe = std::vector<KernelDescription> (*)(const KernelRequest& request, Libraries* libraries);

struct Row {
  std::string_view op;
  std::string_view kernel;  // descriptions are named this, or this and a suffix that tells a variant: "cudnn.convolution.eng47.k2=1"
  Describe describe;
};

std::span<const Row> kernels();  // best first within an operator

}  // namespace tandem::cuda
