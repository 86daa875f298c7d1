// Starts a kernel body on a stream (null: the default one). Instantiated in the .cu files of this folder, which nvcc
// compiles for the GPU and, in the tests, the host's compiler for the emulation.
#pragma once
#include <cstdint>

namespace tandem::cuda {

template <class Body>
void launch(const Body& body, std::int64_t blocks, void* stream);

[[noreturn]] void launch_failed(int status);  // a cudaError_t

}  // namespace tandem::cuda
