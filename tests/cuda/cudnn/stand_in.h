// cuDNN's graph API as far as kernels call it, for tests without a GPU: engines that a test writes down, and plans whose workspace
// may differ between the device that was described and the one they run on.
#pragma once
#include <cudnn.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::test::cudnn {

struct Library {
  std::vector<std::vector<cudnnBackendNumericalNote_t>> notes;  // of each engine, in the heuristics' order
  std::int64_t first = 0;      // engine's number
  std::int64_t planned_workspace = 0, workspace_on_device = 0;
  bool compiles = false;       // engines at run time
  std::string text = "{}";     // of every plan; empty: its engine has none
  std::size_t version = 91900;
  int built = 0, read = 0;     // plans, of configurations and of texts
  cudaStream_t stream = nullptr;  // that the handle was told last
};
Library& library();

}  // namespace tandem::test::cudnn
