#include "tests/cuda/device/stand_in.h"

#include <nccl.h>

#include <cstdint>
#include <cstdlib>

struct CUstream_st {};
struct CUevent_st {};

namespace tandem::test::runtime {

Calls& calls() {
  static Calls one;
  return one;
}

}  // namespace tandem::test::runtime

using tandem::test::runtime::calls;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) { return *count = calls().devices, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "stand-in error"; }
const char* cudaGetErrorName(cudaError_t) { return "stand-in error"; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) { return *lowest = 0, *highest = -5, cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  ++calls().allocated;
  return calls().memory_left ? (*memory = std::malloc(bytes), cudaSuccess) : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* memory) { return std::free(memory), cudaSuccess; }
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) { return *memory = std::malloc(bytes), cudaSuccess; }
cudaError_t cudaFreeHost(void* memory) { return std::free(memory), cudaSuccess; }
cudaError_t cudaMemset(void* memory, int value, size_t bytes) { return std::memset(memory, value, bytes), cudaSuccess; }
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) { return cudaMemset(memory, value, bytes); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) { return *free = 7, *total = 9, cudaSuccess; }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return std::memcpy(to, from, bytes), cudaSuccess;
}
ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  if (!calls().registrable) return ncclUnhandledCudaError;
  ++calls().summed;
  return *memory = std::malloc(bytes), ncclSuccess;
}
ncclResult_t ncclMemFree(void* memory) { return std::free(memory), ncclSuccess; }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  calls().priorities.push_back(priority);
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream, cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return calls().event_flags = flags, *event = new CUevent_st, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return calls().device_lost ? cudaErrorIllegalAddress : cudaSuccess; }

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode mode) { return calls().capture_mode = mode, cudaSuccess; }
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  return *graph = reinterpret_cast<cudaGraph_t>(std::uintptr_t{64}), ++calls().graphs, cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t, unsigned long long flags) {
  calls().graph_flags = flags;
  ++calls().executables;
  return *executable = reinterpret_cast<cudaGraphExec_t>(std::uintptr_t{64}), cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t) { return --calls().graphs, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return --calls().executables, cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return ++calls().launches, cudaSuccess; }

}  // extern "C"
