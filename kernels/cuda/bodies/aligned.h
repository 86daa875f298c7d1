// Elements that are read or written as one value.
#pragma once
#include "kernels/cuda/bodies/thread.h"

#if !defined(__CUDACC__)
#include <atomic>
#include <cstddef>
#endif

namespace tandem::cuda {

#if !defined(__CUDACC__)
// The alignment that an access of a launch lacked, for the emulation to tell; 0: none did.
inline std::atomic<std::size_t> misaligned{0};
#endif

// The address as that of a P. A device faults where it is no multiple of P's alignment.
template <class P, class T>
TANDEM_DEVICE P* as_aligned(T* at) {
#if !defined(__CUDACC__)
  if (reinterpret_cast<std::uintptr_t>(at) % alignof(P) != 0) misaligned = alignof(P);
#endif
  return reinterpret_cast<P*>(at);
}

}  // namespace tandem::cuda
