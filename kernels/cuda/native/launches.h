// One launch of a body, which holds its addresses: what a Binder mostly gives.
#pragma once
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {

template <class Body>
Launches launches_of(const Body& body, std::int64_t blocks) {
  return [body, blocks](void* stream) { launch(body, blocks, stream); };
}
// Of a body that loops over so many elements.
template <class Body>
Launches launches_over(const Body& body, std::int64_t elements) {
  return launches_of(body, blocks_for(elements, Body::threads));
}

}  // namespace tandem::cuda
