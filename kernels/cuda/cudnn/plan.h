// From an operation graph to something that runs: engines by heuristics, plans by engine and knobs. Planning needs no
// device (cuDNN 9.8 and newer build for a described one); running needs a handle.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>

#include "kernels/cuda/cudnn/graph.h"
#include "kernels/cuda/device_description.h"
#include "kernels/cuda/engine.h"
#include "kernels/kernel.h"

namespace tandem::cuda {

struct EngineFilter {
  bool deterministic = false;
  bool winograd = true;
  bool exact_float32 = false;  // no TF32: no tensor cores for float32
  std::vector<std::int64_t> without = {};  // engines whose results are wrong for the graph, or not as exact as is asked for
};
EngineFilter filter_of(const KernelOptions& options, DType dtype);

struct PlannedEngine {
  Engine engine;
  std::int64_t workspace = 0;
};

class CudnnTarget {
 public:
  // With a handle where the device is at hand: a plan made for a described device may want less workspace than the same plan on it.
  explicit CudnnTarget(const DeviceDescription& device);
  // Engines that cuDNN accepts for the graph, best first by its heuristics, at most so many: each costs a plan of cuDNN's, and, of at
  // most four of them, a compilation. Remembered by key, which says everything that the graph depends on.
  std::vector<PlannedEngine> engines(const std::string& key, const std::function<CudnnGraph()>& build, const EngineFilter& filter,
                                     std::size_t most) const;
  // The workspace of a chosen engine; fails (device) where it does not fit the graph.
  std::int64_t workspace(const CudnnGraph& graph, const Engine& engine) const;
  // The plan for running with this handle: one for all kernels of the same graph and engine. What cuDNN compiled for it is taken from
  // where it was planned, in this process or, kept on disk, in one before.
  std::shared_ptr<const Descriptor> runnable(const CudnnGraph& graph, const Engine& engine, cudnnHandle_t handle) const;

 private:
  // A plan's workspace, and itself as text, empty where the engine has none.
  struct Built {
    std::int64_t workspace = 0;
    std::string json;
  };
  std::vector<PlannedEngine> look_for(const CudnnGraph& graph, const EngineFilter& filter, std::size_t most) const;
  // Each fails (device) where cuDNN cannot plan it.
  std::int64_t workspace_of(const CudnnGraph& graph, const Engine& engine, const Descriptor& configuration) const;
  Built built(const std::string& name, const Descriptor& configuration) const;
  std::string name_of(const CudnnGraph& graph, const Engine& engine) const;  // also of the file
  struct DestroyHandle {
    void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
  };
  // The graph that plans are made of, and the properties that engines are asked with: none where a handle names the device.
  Descriptor operations(const CudnnGraph& graph) const { return graph.finalized(handle_.get()); }
  const Descriptor* properties() const { return handle_ ? nullptr : &*properties_; }
  std::optional<Descriptor> properties_;
  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, DestroyHandle> handle_;
  std::string device_;  // cuDNN's version, and the device in its words
  bool driver_;         // the driver's library is there
  mutable std::mutex lock_;
  mutable std::map<std::string, std::vector<PlannedEngine>> remembered_;
  mutable std::map<std::string, Built> built_;
  mutable std::map<std::pair<cudnnHandle_t, std::string>, std::weak_ptr<const Descriptor>> running_;
};

// A plan bound to memory. Its handle outlives streams and remembers the last one that it was told: a plan, which ends before its stream
// does, takes it back.
class CudnnPlan {
 public:
  CudnnPlan(std::shared_ptr<const Descriptor> plan, const CudnnGraph& graph, cudnnHandle_t handle)
      : handle_(handle), bindings_(graph.bindings()), plan_(std::move(plan)) {}
  ~CudnnPlan() { cudnnSetStream(handle_, nullptr); }
  CudnnPlan(const CudnnPlan&) = delete;
  CudnnPlan& operator=(const CudnnPlan&) = delete;
  // address(role) gives each bound tensor's memory, or the number's.
  void bind(const std::function<void*(int role)>& address, std::byte* workspace);
  void run(void* stream);
  std::int64_t workspace() const { return plan_->integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE); }

 private:
  cudnnHandle_t handle_;
  std::vector<CudnnGraph::Binding> bindings_;
  std::shared_ptr<const Descriptor> plan_;
  std::optional<Descriptor> pack_;
};

}  // namespace tandem::cuda
