// Runs graphs through the whole road: planner, backend, runtime.
#pragma once
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "planner/compile.h"
#include "runtime/session.h"

namespace tandem::test {

// The backend that a program of these tests was linked to test: tested_backend.cpp here, or in tests/cuda/operators.
using TestedBackend = std::unique_ptr<const Backend, void (*)(const Backend*)>;
TestedBackend tested_backend();

class GraphRun {
 public:
  // Compiles for the backend's device 0. Inference, or training with the graph's only output as its loss and the gradients of `gradients`
  // kept.
  explicit GraphRun(const Graph& graph, LayoutPreference layout = LayoutPreference::blocked);
  GraphRun(const Graph& graph, const std::vector<std::string>& gradients);

  void set(const std::vector<NamedTensor>& parameters) { session_->set_parameters(parameters); }
  // The plan's outputs by name. Inputs are found by name; the weights stay as they are.
  std::vector<NamedTensor> run(const std::vector<NamedTensor>& inputs);
  const Plan& plan() const { return session_->plan(); }

 private:
  void compile(const Graph& graph, CompileOptions options);
  TestedBackend backend_ = tested_backend();
  const Backend* backends_[1] = {backend_.get()};
  std::unique_ptr<Session> session_;
};

}  // namespace tandem::test
