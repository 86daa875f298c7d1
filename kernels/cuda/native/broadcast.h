// Kernels whose operands broadcast and differ in type.
#pragma once
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/describe.h"
#include "kernels/cuda/native/nest.h"

namespace tandem::cuda {

// All operands whole, in the layout of the first whose layout is chosen.
KernelDescription broadcast_description(const KernelRequest& request, std::string_view kernel);
// Loops over the output in its packed order with the inputs' strides: place 0 the output's, then the inputs'.
std::vector<LoopDim> broadcast_loops(const KernelDescription& d);

template <class Body>
Launches launches_over_all(const Body& body) {
  return [body, blocks = blocks_for(body.elements, Body::threads)](void* stream) { launch(body, blocks, stream); };
}

}  // namespace tandem::cuda
