// Reads what a GPU says of itself; what it does not say (products' peak, links) is its kind's (kernels/described/devices.json).
#include "kernels/cuda/device_description.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/check.h"
#include "kernels/described/device_kind.h"

namespace tandem::cuda {
namespace {

// From NVIDIA's data sheet and programming guide; scripts/gpu-check prints what a device says of itself.
constexpr char h200_json[] =
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
    R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
    R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":150754820096,)"
    R"("smClockRateKHz":1980000,"memClockRateKHz":3201000,"l2CacheSize":62914560,"cudaDeviceId":0,"deviceVer":900,)"
    R"("driverVer":13000,"deviceName":"NVIDIA H200"})";

// Of the memory's rate on the data sheet, what kernels that are bound by it reach: 0.65 to 0.83 on an H100.
constexpr double reached_bandwidth = 0.8;

// The CUDA context, cuDNN and cuBLAS take memory of their own.
constexpr std::int64_t reserved_bytes = std::int64_t{2} << 30;

// What cudaMalloc promises, and what cuBLASLt takes for granted: tensor maps and wide loads want it of workspaces, too.
constexpr std::int64_t buffer_alignment = 256;

// float32 multiply-adds of one multiprocessor and clock.
int lanes(int major, int minor) { return major == 8 && minor == 0 ? 64 : major == 7 ? 64 : 128; }

// Products of 16 bits, summed in float32, by float32's rate: of kinds that are known their data sheets', of others what all of a
// generation reach. Their links are taken for PCI Express.
double tensor_speed(const DeviceKind* kind, int major, int minor) {
  if (!kind) return major == 9 ? 14.8 : major == 10 ? 30 : major == 8 && minor == 0 ? 16 : 2;
  const auto peak = kind->flops.find(Precision::bf16);
  return peak == kind->flops.end() ? 1 : peak->second / kind->flops.at(Precision::fp32);
}
constexpr double unknown_link = 12e9;  // bytes/s

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, index), "read a device attribute");
  return value;
}

}  // namespace

DeviceDescription describe_h200() {
  const DeviceKind* const kind = device_kind_of("NVIDIA H200");
  return {.model = {.name = "NVIDIA H200",
                    .memory = 150754820096 - reserved_bytes,
                    .flops = 67e12,
                    .bandwidth = reached_bandwidth * 4.8e12,
                    .launch_seconds = 3e-6,
                    .link_bandwidth = kind->links.levels[0].bandwidth,
                    .threads = 1,
                    .multiprocessors = 132,
                    .alignment = buffer_alignment,
                    .links = kind->links},
          .cudnn_json = h200_json,
          .capability = 90,
          .tensor_speed = tensor_speed(kind, 9, 0)};
}

DeviceDescription describe_device(int index) {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, index), "read the device's properties");
  const double clock = attribute(cudaDevAttrClockRate, index) * 1e3;
  const double memory_clock = attribute(cudaDevAttrMemoryClockRate, index) * 1e3;
  DeviceDescription d;
  d.index = index;
  d.capability = 10 * p.major + p.minor;
  const DeviceKind* const kind = device_kind_of(p.name);
  d.tensor_speed = tensor_speed(kind, p.major, p.minor);
  d.model = {.name = p.name,
             .memory = static_cast<std::int64_t>(p.totalGlobalMem) - reserved_bytes,
             .flops = 2.0 * lanes(p.major, p.minor) * p.multiProcessorCount * clock,
             .bandwidth = reached_bandwidth * 2 * memory_clock * p.memoryBusWidth / 8,
             .launch_seconds = 3e-6,
             .link_bandwidth = kind ? kind->links.levels[0].bandwidth : unknown_link,
             .threads = 1,
             .multiprocessors = p.multiProcessorCount,
             .alignment = buffer_alignment,
             .links = kind ? kind->links : Interconnect{}};
  return d;
}

}  // namespace tandem::cuda
