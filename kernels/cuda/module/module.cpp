// The module's one exported function.
#include "kernels/cuda/backend.h"

extern "C" __attribute__((visibility("default"))) const tandem::Backend* tandem_backend() {
  // Never destroyed: at exit the libraries' own static objects may be gone before their handles are.
  static const auto* const backend = new tandem::cuda::CudaBackend;
  return backend;
}
