#include "kernels/cuda/collectives/staged_exchange.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/check.h"

namespace tandem::cuda {
namespace {

// Pinned host memory; none for 0 bytes.
class Pinned {
 public:
  explicit Pinned(std::int64_t bytes) {
    if (bytes > 0) check(cudaMallocHost(reinterpret_cast<void**>(&memory_), static_cast<std::size_t>(bytes)), "allocate pinned memory");
  }
  ~Pinned() {
    if (memory_) cudaFreeHost(memory_);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  std::byte* get() const { return memory_; }

 private:
  std::byte* memory_ = nullptr;
};

class StagedExchange final : public Kernel {
 public:
  StagedExchange(std::unique_ptr<Kernel> exchange, const StagedBytes& bytes)
      : bytes_(bytes), given_(bytes.in_place ? 0 : bytes.gives), got_(bytes.gets), exchange_(std::move(exchange)) {}

  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    gets_ = outputs.empty() ? nullptr : outputs[0];
    gives_ = bytes_.in_place ? gets_ : inputs.empty() ? nullptr : inputs[0];
    std::byte* const given = bytes_.in_place ? got_.get() : given_.get();
    std::byte* const got = got_.get();
    exchange_->bind(inputs.empty() ? inputs : std::span<std::byte* const>(&given, 1),
                    outputs.empty() ? outputs : std::span<std::byte* const>(&got, 1), workspace);
  }

  void run(StreamHandle handle) override {
    auto* const stream = static_cast<cudaStream_t>(handle.native);
    const auto gives = static_cast<std::size_t>(bytes_.gives), gets = static_cast<std::size_t>(bytes_.gets);
    std::byte* const given = bytes_.in_place ? got_.get() : given_.get();
    if (gives_ && gives > 0) check(cudaMemcpyAsync(given, gives_, gives, cudaMemcpyDeviceToHost, stream), "copy from the device");
    check(cudaStreamSynchronize(stream), "wait for a stream");  // for the last run's copy to the device, too
    exchange_->run(handle);
    if (gets_ && gets > 0) check(cudaMemcpyAsync(gets_, got_.get(), gets, cudaMemcpyHostToDevice, stream), "copy to the device");
  }

 private:
  const StagedBytes bytes_;
  const Pinned given_, got_;
  const std::unique_ptr<Kernel> exchange_;
  std::byte *gives_ = nullptr, *gets_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> staged_exchange(std::unique_ptr<Kernel> exchange, const StagedBytes& bytes) {
  return std::make_unique<StagedExchange>(std::move(exchange), bytes);
}

}  // namespace tandem::cuda
