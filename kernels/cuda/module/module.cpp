// The module's one exported function.
#include "kernels/cuda/backend.h"

extern "C" __attribute__((visibility("default"))) const tandem::Backend* tandem_backend() {
  static const tandem::cuda::CudaBackend backend;
  return &backend;
}
