// From an operation graph to something that runs: engines by heuristics, plans by engine and knobs. Planning needs no
// device (cuDNN 9.8 and newer build for a described one); running needs a handle.
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "kernels/cuda/cudnn/graph.h"
#include "kernels/cuda/device_description.h"
#include "kernels/cuda/engine.h"
#include "kernels/kernel.h"

namespace tandem::cuda {

struct EngineFilter {
  bool deterministic = false;
  bool winograd = true;
  bool exact_float32 = false;  // no TF32: no tensor cores for float32
};
EngineFilter filter_of(const KernelOptions& options, DType dtype);

struct PlannedEngine {
  Engine engine;
  std::int64_t workspace = 0;
};

class CudnnTarget {
 public:
  explicit CudnnTarget(const DeviceDescription& device);
  // Engines that cuDNN accepts for the graph, best first by its heuristics, at most so many: each costs a plan of cuDNN's,
  // and perhaps a compilation. Remembered by key, which says everything that the graph depends on.
  std::vector<PlannedEngine> engines(const std::string& key, const std::function<CudnnGraph()>& build, const EngineFilter& filter, std::size_t most) const;
  // The workspace of a chosen engine; fails (device) where it does not fit the graph.
  std::int64_t workspace(const CudnnGraph& graph, const Engine& engine) const;

 private:
  std::vector<PlannedEngine> look_for(const CudnnGraph& graph, const EngineFilter& filter, std::size_t most) const;
  std::int64_t workspace_of(const Descriptor& configuration) const;  // fails (device) where cuDNN cannot plan it
  std::optional<Descriptor> properties_;
  bool driver_;  // the driver's library is there
  mutable std::mutex lock_;
  mutable std::map<std::string, std::vector<PlannedEngine>> remembered_;
};

// A plan for running, on the calling thread's device.
class CudnnPlan {
 public:
  CudnnPlan(const CudnnGraph& graph, const Engine& engine, cudnnHandle_t handle);
  // address(role) gives each bound tensor's memory, or the number's.
  void bind(const std::function<void*(int role)>& address, std::byte* workspace);
  void run(void* stream);
  std::int64_t workspace() const { return plan_.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE); }

 private:
  cudnnHandle_t handle_;
  std::vector<CudnnGraph::Binding> bindings_;
  Descriptor plan_;
  std::optional<Descriptor> pack_;
};

}  // namespace tandem::cuda
