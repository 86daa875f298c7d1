// Kernels that run one cuDNN plan and, perhaps, launches of our own before and after it.
#pragma once
#include <functional>
#include <string>

#include "kernels/cuda/cudnn/plan.h"
#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {

class Libraries;

// Roles: what a tensor of the graph is bound to.
constexpr int input_role(int i) { return i; }
constexpr int output_role(int i) { return 100 + i; }
constexpr int scratch_role = 200;  // the start of our own part of the workspace; +i: at scratch[i]
constexpr int number_role(int i) { return 300 + i; }

struct CudnnRecipe {
  std::string family;                 // "cudnn.convolution"
  KernelDescription description;      // operands and efficiency; its kernel, workspace and make are filled in
  std::function<CudnnGraph()> build;
  EngineFilter filter;
  std::vector<float> numbers;         // by number_role
  Binder before, after;               // may be empty; their workspace is our own part
  std::int64_t own_workspace = 0;
  std::vector<std::int64_t> scratch = {0};  // offsets in our own part
};

// One description an engine that cuDNN accepts, named "FAMILY.ENGINE"; only the request's where it names one.
std::vector<KernelDescription> descriptions_of(const CudnnRecipe& recipe, const KernelRequest& request, Libraries& libraries);

}  // namespace tandem::cuda
