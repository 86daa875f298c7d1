// Programs compiled by NVRTC when they are loaded; where it is missing the interpreter of native/elementwise.cpp runs them.
#include "kernels/cuda/fused/elementwise.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/check.h"
#include "kernels/cuda/compiler.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/native/elementwise.h"
#include "kernels/cuda/native/families.h"

namespace tandem::cuda {
namespace {

std::string architecture() {
  int device = 0, major = 0, minor = 0;
  check(cudaGetDevice(&device), "read the current device");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "read the compute capability");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "read the compute capability");
  return concat("sm_", major, minor);
}

class FusedKernel final : public Kernel {
 public:
  FusedKernel(const ElementwiseProgram& program, const FusedSource& source, const Compiler& compiler, std::unique_ptr<Kernel> unaligned)
      : unaligned_(std::move(unaligned)), vector_bytes_(static_cast<std::size_t>(source.vector) * size_of(program.dtype)) {
    const std::vector<char> code = compiler.compile(source.text, architecture());
    check(cudaLibraryLoadData(&library_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "load a compiled kernel");
    const cudaError_t found = cudaLibraryGetKernel(&kernel_, library_, "tandem_elementwise");
    if (found != cudaSuccess) cudaLibraryUnload(library_);
    check(found, "find a compiled kernel");
    threads_ = static_cast<unsigned>(source.threads);
    blocks_ = static_cast<unsigned>(blocks_for(program.elements / source.vector, source.threads));
  }
  ~FusedKernel() override { cudaLibraryUnload(library_); }
  FusedKernel(const FusedKernel&) = delete;
  FusedKernel& operator=(const FusedKernel&) = delete;

  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    addresses_.assign(inputs.begin(), inputs.end());
    addresses_.insert(addresses_.end(), outputs.begin(), outputs.end());
    for (const std::byte* a : addresses_) aligned_ &= reinterpret_cast<std::uintptr_t>(a) % vector_bytes_ == 0;
    if (!aligned_) unaligned_->bind(inputs, outputs, workspace);
  }
  void run(StreamHandle stream) override {
    if (blocks_ == 0) return;
    if (!aligned_) return unaligned_->run(stream);
    void* arguments[] = {addresses_.data()};  // one struct of addresses
    check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), dim3(blocks_), dim3(threads_), arguments, 0, static_cast<cudaStream_t>(stream.native)),
          "launch a compiled kernel");
  }

 private:
  std::unique_ptr<Kernel> unaligned_;
  std::size_t vector_bytes_;
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
  unsigned blocks_ = 0, threads_ = 0;
  std::vector<std::byte*> addresses_;
  bool aligned_ = true;
};

}  // namespace

std::vector<KernelDescription> describe_fused_elementwise(const KernelRequest& request, Libraries* libraries) {
  std::vector<KernelDescription> all = describe_elementwise(request, libraries);
  for (KernelDescription& d : all) {
    const std::optional<ElementwiseProgram> program = parse_program(d, request.op, *request.attributes);
    d.make = [program = *program, libraries, interpreted = d.make]() -> std::unique_ptr<Kernel> {
      if (!libraries->compiler().available()) return interpreted();
      return std::make_unique<FusedKernel>(program, fused_source(program), libraries->compiler(), interpreted());
    };
  }
  return all;
}

}  // namespace tandem::cuda
