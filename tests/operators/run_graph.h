// Runs graphs through the whole road: planner, CPU backend, runtime.
#pragma once
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "planner/compile.h"
#include "runtime/session.h"

namespace tandem::test {

class GraphRun {
 public:
  // Compiles for cpu:0. Inference, or training with the graph's only output as its loss and the gradients of `gradients` kept.
  explicit GraphRun(const Graph& graph, LayoutPreference layout = LayoutPreference::blocked);
  GraphRun(const Graph& graph, const std::vector<std::string>& gradients);

  void set(const std::vector<NamedTensor>& parameters) { session_->set_parameters(parameters); }
  // The plan's outputs by name. Inputs are found by name; the weights stay as they are.
  std::vector<NamedTensor> run(const std::vector<NamedTensor>& inputs);
  const Plan& plan() const { return session_->plan(); }

 private:
  void compile(const Graph& graph, const CompileOptions& options);
  std::unique_ptr<Session> session_;
};

}  // namespace tandem::test
