// What a kernel is told of its operands must be what its operator makes of them: kernels rely on it, and check nothing.
#include <algorithm>

#include "graph/operator.h"
#include "planner/plan/verify.h"

namespace tandem {
namespace {

// What the importer moved into attributes is no operand any more.
bool is_static(const Operator& op, int input) {
  return std::any_of(op.static_operands.begin(), op.static_operands.end(), [&](const StaticOperand& s) { return s.input == input; });
}

// The step as a graph of one node, its operands and results with the plan's types.
void check(const DeviceProgram& program, const Step& step, const LaunchStep& launch, const Operator& op) {
  for (int i = 0; i < op.inputs.least; ++i)
    if (!is_static(op, i) && (i >= std::ssize(step.inputs) || !step.inputs[static_cast<std::size_t>(i)].present()))
      fail("input ", i, " is missing");
  if (std::ssize(step.outputs) < op.outputs.least) fail("has ", step.outputs.size(), " outputs, expected at least ", op.outputs.least);
  Graph graph;
  const auto values = [&](const std::vector<BufferId>& ids) {
    std::vector<ValueId> list;
    for (const BufferId id : ids) {
      if (!id.present()) {
        list.emplace_back();
        continue;
      }
      const Buffer& b = program.buffers[id];
      list.push_back(graph.add_value({.name = b.name, .type = {b.operand.dtype, b.operand.shape}}));
    }
    return list;
  };
  Node node{.op = &op, .name = launch.op, .attributes = launch.attributes, .inputs = values(step.inputs), .outputs = values(step.outputs)};
  std::vector<TensorType> stated;
  for (const ValueId out : node.outputs) stated.push_back(out.present() ? graph[out].type : TensorType{});
  InferContext context(graph, node);
  op.infer(context);
  // The rule has left them as kernels take them: explicit, clamped, not negative.
  if (to_string(node.attributes) != to_string(launch.attributes)) fail("has ", launch.attributes, ", expected ", node.attributes);
  for (std::size_t i = 0; i < stated.size(); ++i) {
    const ValueId out = node.outputs[i];
    if (out.present() && !graph[out].opaque && graph[out].type != stated[i])
      fail("output ", i, " is ", stated[i], ", expected ", graph[out].type);
  }
}

}  // namespace

void verify_launches(const Plan& plan, ProgramId id, Breaches& breaches) {
  const DeviceProgram& program = plan.programs[id];
  ProgramBreaches here(plan, id, breaches);
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    const auto* launch = step.as<LaunchStep>();
    if (!launch) continue;
    const Operator* op = find_operator(launch->op, "tandem");
    if (!op) op = find_operator(launch->op);
    if (!op || !op->infer) continue;  // a backend's own
    try {
      check(program, step, *launch, *op);
    } catch (const Error& e) {
      here.add(here.step({static_cast<int>(s)}), ": ", e.what());
    }
  }
}

}  // namespace tandem
