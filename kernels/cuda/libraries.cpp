// Makes a thread's handles when it first asks for them.
#include "kernels/cuda/libraries.h"

#include <cublasLt.h>
#include <cudnn.h>

#include <mutex>
#include <thread>

#include "kernels/cuda/check.h"
#include "kernels/cuda/compiler.h"
#include "kernels/cuda/cudnn/plan.h"

namespace tandem::cuda {
namespace {

struct DestroyCudnn {
  void operator()(cudnnContext* h) const { cudnnDestroy(h); }
};
struct DestroyCublasLt {
  void operator()(cublasLtContext* h) const { cublasLtDestroy(h); }
};
using Place = std::pair<std::thread::id, int>;

Place here() {
  int device = 0;
  check(cudaGetDevice(&device), "read the current device");
  return {std::this_thread::get_id(), device};
}

}  // namespace

struct Libraries::Handles {
  std::mutex lock;
  std::map<Place, std::unique_ptr<cudnnContext, DestroyCudnn>> cudnn;
  std::map<Place, std::unique_ptr<cublasLtContext, DestroyCublasLt>> cublaslt;
};

Libraries::Libraries(DeviceDescription device)
    : device_(std::move(device)), compiler_(std::make_unique<Compiler>()), handles_(std::make_unique<Handles>()) {}
Libraries::~Libraries() = default;

const CudnnTarget& Libraries::cudnn_target(int device) {
  const std::scoped_lock hold(handles_->lock);
  auto& target = targets_[device];
  if (!target) target = std::make_unique<CudnnTarget>(device_.at_hand() && device != device_.index ? describe_device(device) : device_);
  return *target;
}

cudnnContext* Libraries::cudnn() {
  const Place place = here();
  const std::scoped_lock hold(handles_->lock);
  auto& handle = handles_->cudnn[place];
  if (!handle) {
    cudnnHandle_t made = nullptr;
    if (const cudnnStatus_t status = cudnnCreate(&made); status != CUDNN_STATUS_SUCCESS)
      fail(ExitCode::device, "cuDNN: create a handle on device ", place.second, ": ", cudnnGetErrorString(status));
    handle.reset(made);
  }
  return handle.get();
}

cublasLtContext* Libraries::cublaslt() {
  const Place place = here();
  const std::scoped_lock hold(handles_->lock);
  auto& handle = handles_->cublaslt[place];
  if (!handle) {
    cublasLtHandle_t made = nullptr;
    if (const cublasStatus_t status = cublasLtCreate(&made); status != CUBLAS_STATUS_SUCCESS)
      fail(ExitCode::device, "cuBLASLt: create a handle on device ", place.second, ": ", cublasLtGetStatusString(status));
    handle.reset(made);
  }
  return handle.get();
}

}  // namespace tandem::cuda
