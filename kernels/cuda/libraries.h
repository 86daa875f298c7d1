// The CUDA libraries' handles. A handle is made at the first use by a thread on a device and lives as long as the
// backend: kernels of one device run on the thread that made them.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "kernels/cuda/device_description.h"
#include "kernels/kernel.h"

struct cudnnContext;
struct cublasLtContext;

namespace tandem::cuda {

class CudnnTarget;   // cudnn/plan.h
class Compiler;      // compiler.h

class Libraries {
 public:
  explicit Libraries(DeviceDescription device);
  ~Libraries();
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;

  const DeviceDescription& device() const { return device_; }  // that plans are made for
  // cuDNN's view of it, or of another at hand; fails (device) where cuDNN refuses it
  const CudnnTarget& cudnn_target(int device);
  Compiler& compiler() { return *compiler_; }
  // Of the calling thread's current device. Each fails (device) with the library's reason.
  cudnnContext* cudnn();
  cublasLtContext* cublaslt();
  // For a request that names no kernel, where there is a device to choose one on; else null.
  cublasLtContext* cublaslt_at_hand(const KernelRequest& request) {
    return request.kernel.empty() && device_.at_hand() ? cublaslt() : nullptr;
  }

 private:
  struct Handles;
  DeviceDescription device_;
  std::map<int, std::unique_ptr<CudnnTarget>> targets_;
  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<Handles> handles_;
};

}  // namespace tandem::cuda
