// Which GPUs can be used and why others cannot, what the planner is told of them, and how kernels are timed on one.
#include "kernels/cuda/backend.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

#include <future>
#include <limits>

#include "kernels/cuda/check.h"
#include "kernels/cuda/collectives/groups.h"
#include "kernels/cuda/collectives/staged_exchange.h"
#include "kernels/cuda/compiler.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/kernels.h"

namespace tandem::cuda {
namespace {

std::string version_text(int v) { return concat(v / 1000, '.', v % 1000 / 10); }  // of CUDA
// "9.19.0": as cuDNN, cuBLASLt and NCCL number theirs.
std::string library_version(std::size_t v) { return concat(v / 10000, '.', v / 100 % 100, '.', v % 100); }

// Why the driver finds no device at all; empty where it does.
std::string reason_for_none(int& count) {
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    count = 0;
    cudaGetLastError();
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver == 0) return concat("the NVIDIA driver is missing (", cudaGetErrorString(status), ")");
    return concat(cudaGetErrorString(status), " (driver for CUDA ", version_text(driver), ", built for CUDA ", version_text(runtime), ")");
  }
  return count == 0 ? "there is no GPU" : "";
}

// Devices that can run what was built in: sm_80 and newer.
std::string reason_unusable(int index) {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, index), "read the device's properties");
  return p.major >= 8 ? "" : concat("device ", index, " (", p.name, ") has compute capability ", p.major, '.', p.minor, ", 8.0 is needed");
}

}  // namespace

CudaBackend::CudaBackend() {
  unusable_ = reason_for_none(device_count_);
  int usable = -1;
  for (int i = 0; i < device_count_; ++i) {
    reasons_.push_back(reason_unusable(i));
    if (usable < 0 && reasons_.back().empty()) usable = i;
  }
  if (unusable_.empty() && usable < 0) unusable_ = reasons_[0];
  libraries_ = std::make_unique<Libraries>(usable >= 0 ? describe_device(usable) : describe_h200());
}

std::string CudaBackend::version() const {
  int runtime = 0, nccl = 0;
  cudaRuntimeGetVersion(&runtime);
  ncclGetVersion(&nccl);
  return concat("CUDA ", version_text(runtime), ", cuDNN ", library_version(cudnnGetVersion()), ", cuBLASLt ",
                library_version(cublasLtGetVersion()), ", NCCL ", library_version(static_cast<std::size_t>(nccl)), ", NVRTC ",
                libraries_->compiler().version(), ", ", libraries_->device().model.name);
}

// Tensor cores of 8 bits came with Ada and Hopper. Of a machine's usable devices the first is asked.
std::string CudaBackend::declines(Precision precision) const {
  const DeviceDescription& device = libraries_->device();
  if (precision != Precision::fp8 || device.capability >= 89) return {};
  return concat("8-bit products need a GPU of compute capability 8.9 or newer (Ada, Hopper), ", device.model.name, " has ",
                device.capability / 10, '.', device.capability % 10);
}

DeviceModel CudaBackend::model(int index, int devices_in_use) const {
  if (!unusable_.empty()) return libraries_->device().model;
  if (index < 0 || index >= device_count_) fail(ExitCode::device, "cuda:", index, ": there are devices cuda:0 to cuda:", device_count_ - 1);
  DeviceModel m = describe_device(index).model;
  (void)devices_in_use;  // each is a card of its own
  return m;
}

std::int64_t CudaBackend::free_memory(int index, int) const {
  if (!unusable_.empty()) return -1;
  // In a thread of its own: to set the caller's device back would put a context on device 0.
  return std::async(std::launch::async, [index] {
           std::size_t free = 0, total = 0;
           check(cudaSetDevice(index), concat("select device ", index));
           check(cudaMemGetInfo(&free, &total), "read the free memory");
           return static_cast<std::int64_t>(free);
         }).get();
}

std::vector<KernelRow> CudaBackend::rows() const { return rows_of(kernels()); }

std::vector<KernelDescription> CudaBackend::describe(const KernelRequest& request) const {
  std::vector<KernelDescription> all;
  for (const Row& row : kernels()) {
    if (!row.serves(request.op) || (!request.kernel.empty() && !request.kernel.starts_with(row.kernel))) continue;
    for (KernelDescription& d : row.describe(request, libraries_.get()))
      if (request.kernel.empty() || d.kernel == request.kernel) all.push_back(std::move(d));
  }
  return all;
}

Gain CudaBackend::fuses(const KernelRequest& request) const { return cuda::fuses(request, libraries_->device().capability); }

Timing CudaBackend::measure(const KernelDescription& description, const KernelOptions& options) const {
  const std::scoped_lock one(timing_);
  // Once more with fresh memory: what is kept may have left no room.
  for (const bool fresh : {false, true}) try {
      if (fresh) timers_.erase(options.device);
      auto timer = timers_.find(options.device);
      if (timer == timers_.end()) {
        int cache = 0;
        std::unique_ptr<Device> device = open(options.device, options);
        device->activate();
        check(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, options.device), "read a device attribute");
        timer = timers_.try_emplace(options.device, std::move(device), cache).first;
      }
      return timer->second.time(description);
    } catch (const Error&) {
      // What a library planned and does not run is never the fastest; a device that is lost fails here.
      check(cudaDeviceSynchronize(), concat("go on after ", description.kernel, ", which failed"));
    }
  return {std::numeric_limits<double>::infinity()};
}

void CudaBackend::release_scratch() const {
  const std::scoped_lock one(timing_);
  timers_.clear();
}

std::unique_ptr<Device> CudaBackend::open(int index, const KernelOptions&) const {
  if (!unusable_.empty()) fail(ExitCode::device, "cuda:", index, " cannot be used: ", unusable_);
  if (index < 0 || index >= device_count_) fail(ExitCode::device, "cuda:", index, ": there are devices cuda:0 to cuda:", device_count_ - 1);
  if (const std::string& why = reasons_[static_cast<std::size_t>(index)]; !why.empty())
    fail(ExitCode::device, "cuda:", index, " cannot be used: ", why);
  return open_device(index);
}

std::unique_ptr<CollectiveGroup> CudaBackend::create_group(const GroupSpec& spec) const { return cuda::create_group(spec); }
std::unique_ptr<Kernel> CudaBackend::staged(std::unique_ptr<Kernel> exchange, const StagedBytes& bytes) const {
  return staged_exchange(std::move(exchange), bytes);
}

}  // namespace tandem::cuda
