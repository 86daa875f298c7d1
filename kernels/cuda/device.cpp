// Memory, streams and events by the CUDA runtime; a step recorded as a CUDA graph is started by one call.
#include "kernels/cuda/device.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/wait.h"

namespace tandem::cuda {
namespace {

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(unsigned flags) { check(cudaEventCreateWithFlags(&event_, flags), "create an event"); }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  cudaEvent_t native() const { return event_; }
  void synchronize() override { check(cudaEventSynchronize(event_), "run the queued work"); }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(int priority) {
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority), "create a stream");
  }
  ~CudaStream() override { cudaStreamDestroy(stream_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  cudaStream_t native() const { return stream_; }

  void launch(Kernel& kernel) override { kernel.run({stream_}); }
  void copy_in(std::byte* device, const std::byte* host, std::int64_t bytes) override {
    check(cudaMemcpyAsync(device, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream_), "copy to the device");
  }
  void copy_out(std::byte* host, const std::byte* device, std::int64_t bytes) override {
    check(cudaMemcpyAsync(host, device, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, stream_), "copy from the device");
  }
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream_), "copy on the device");
  }
  void fill(std::byte* device, std::byte value, std::int64_t bytes) override {
    check(cudaMemsetAsync(device, std::to_integer<int>(value), static_cast<std::size_t>(bytes), stream_), "fill memory");
  }
  void record(Event& event) override { check(cudaEventRecord(static_cast<CudaEvent&>(event).native(), stream_), "record an event"); }
  void wait(Event& event) override { check(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).native(), 0), "wait for an event"); }
  void synchronize() override { check(cudaStreamSynchronize(stream_), "run the queued work"); }

 private:
  cudaStream_t stream_ = nullptr;
};

// Its kernels keep the priorities of the streams they were captured on; it lies on the device before it is first started.
class CudaGraph final : public CapturedGraph {
 public:
  // Not uploaded before its first launch: with driver 580 cuGraphUpload crashes where NCCL's sums over sockets are in the graph.
  explicit CudaGraph(cudaGraph_t graph) {
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, cudaGraphInstantiateFlagUseNodePriority);
    cudaGraphDestroy(graph);
    check(status, "instantiate the captured step");
  }
  ~CudaGraph() override { cudaGraphExecDestroy(executable_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  void launch(Stream& stream) override {
    check(cudaGraphLaunch(executable_, static_cast<CudaStream&>(stream).native()), "launch the captured step");
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

struct DeviceFree {
  void operator()(std::byte* p) const { cudaFree(p); }
};
struct SummedFree {
  void operator()(std::byte* p) const { ncclMemFree(p); }
};
struct HostFree {
  void operator()(std::byte* p) const { cudaFreeHost(p); }
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : index_(index) {
    activate();
    int lowest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest_), "read the stream priorities");
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "count devices");
    if (spins_for(threads_of_one * devices) == 0) event_flags_ |= cudaEventBlockingSync;
  }
  ~CudaDevice() override { cudaSetDevice(index_); }  // what is freed next belongs to it

  void activate() override { check(cudaSetDevice(index_), concat("select device ", index_)); }

  std::byte* allocate(std::int64_t bytes) override {
    const std::size_t size = static_cast<std::size_t>(bytes) + alignment;
    void* memory = nullptr;
    if (cudaMalloc(&memory, size) != cudaSuccess) cannot_allocate(bytes);
    arenas_.emplace_back(static_cast<std::byte*>(memory));
    return cleared(memory, size, bytes);
  }
  // NCCL maps this memory into the other ranks: no copy through buffers of its own. Where a machine does not allow that (as in
  // some containers) any memory will do.
  std::byte* allocate_summed(std::int64_t bytes) override {
    const std::size_t size = static_cast<std::size_t>(bytes) + alignment;
    void* memory = nullptr;
    if (ncclMemAlloc(&memory, size) != ncclSuccess) {
      cudaGetLastError();
      return allocate(bytes);
    }
    summed_.emplace_back(static_cast<std::byte*>(memory));
    return cleared(memory, size, bytes);
  }
  std::byte* allocate_host(std::int64_t bytes) override {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)), cudaHostAllocPortable),
          concat("allocate ", bytes, " bytes of pinned memory"));
    pinned_.emplace_back(static_cast<std::byte*>(memory));
    return pinned_.back().get();
  }
  // Communication runs first where both could: a late all-reduce delays the update.
  std::unique_ptr<Stream> create_stream(int index) override {
    return std::make_unique<CudaStream>(index == communication_stream ? highest_ : 0);
  }
  std::unique_ptr<Event> create_event() override { return std::make_unique<CudaEvent>(event_flags_); }

  bool runs_ahead() const override { return true; }
  bool can_capture() const override { return true; }
  void begin_capture(Stream& stream) override {
    check(cudaStreamBeginCapture(static_cast<CudaStream&>(stream).native(), cudaStreamCaptureModeThreadLocal), "begin to capture a step");
  }
  std::unique_ptr<CapturedGraph> end_capture(Stream& stream) override {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(static_cast<CudaStream&>(stream).native(), &graph), "capture a step");
    return std::make_unique<CudaGraph>(graph);
  }

 private:
  static constexpr std::size_t alignment = 4096;  // cudaMalloc itself promises 256

  [[noreturn]] void cannot_allocate(std::int64_t bytes) const {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "read the free memory");
    fail(ExitCode::device, "cuda:", index_, ": cannot allocate ", bytes, " bytes, ", free, " of ", total, " bytes are free");
  }
  static std::byte* cleared(void* memory, std::size_t size, std::int64_t bytes) {
    check(cudaMemset(memory, 0, size), "clear memory");
    check(cudaDeviceSynchronize(), "clear memory");
    return static_cast<std::byte*>(std::align(alignment, static_cast<std::size_t>(bytes), memory, size));
  }

  // The one that waits for a step, and one that reads its batches. Whoever waits spins, and sleeps where such threads of all devices, which
  // may be other processes', are more than there are cores.
  static constexpr int threads_of_one = 2;
  unsigned event_flags_ = cudaEventDisableTiming;
  int index_;
  int highest_ = 0;
  std::vector<std::unique_ptr<std::byte, SummedFree>> summed_;
  std::vector<std::unique_ptr<std::byte, DeviceFree>> arenas_;
  std::vector<std::unique_ptr<std::byte, HostFree>> pinned_;
};

}  // namespace

std::unique_ptr<Device> open_device(int index) { return std::make_unique<CudaDevice>(index); }

}  // namespace tandem::cuda
