// Kernels whose operands broadcast and differ in type.
#pragma once
#include "kernels/cuda/native/launches.h"
#include "kernels/cuda/native/nest.h"

namespace tandem::cuda {

// The operands of the output's rank in one layout: that of the first that has one.
KernelDescription broadcast_description(const KernelRequest& request, std::string_view kernel);
// Loops over the output in its packed order with the inputs' strides: place 0 the output's, then the inputs'.
std::vector<LoopDim> broadcast_loops(const KernelDescription& d);

}  // namespace tandem::cuda
