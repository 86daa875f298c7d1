// How a pass learns whether one node is to stand for several: it describes that node, with the types of its operands, and asks
// the backends of the plan whether a step gains by it (Backend::fuses). A new fusion is a new form of a node, and a row in each
// backend's list that has kernels for it.
#pragma once
#include <functional>
#include <vector>

#include "graph/operator.h"
#include "kernels/backends.h"
#include "planner/options.h"

namespace tandem {

// Whether a plan is to have a form of a node; empty: none was asked, and nothing is offered.
using Fuses = std::function<bool(const KernelRequest&)>;
// What the backends of a plan say that gains least; they outlive it.
std::function<Gain(const KernelRequest&)> gains_on(const CompileOptions& options, Backends backends);

// Why one node does not stand for several where that is not offered.
inline constexpr std::string_view not_offered = "the plan's devices have no kernel for both, or a step gains nothing by it";

// Asks for a node of these operands, absent ones of no type. The types of its outputs follow by the operator's shape rule.
bool offered(const Fuses& fuses, const Operator& op, const Attributes& attributes, const std::vector<TensorType>& inputs,
             std::size_t outputs);
// Asks for a node whose operands are values of this graph.
bool offered(const Fuses& fuses, const Graph& graph, const Node& node, std::size_t outputs);

}  // namespace tandem
