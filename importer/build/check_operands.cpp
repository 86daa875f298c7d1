// An operator's row says how many operands it takes and of which types; the functions in the row rely on it.
#include "importer/build/check_operands.h"

#include <algorithm>

namespace tandem {

void check_arity(const Arity& takes, const Arity& gives, const FlatNode& node) {
  const auto given = [](const std::vector<Symbol>& list) {  // trailing ones that are left out do not count
    std::size_t n = list.size();
    while (n > 0 && !list[n - 1].present()) --n;
    return static_cast<int>(n);
  };
  const int inputs = given(node.inputs), outputs = given(node.outputs);
  for (int i = 0; i < std::max(inputs, takes.least); ++i)
    if ((i < takes.least || takes.most == Arity::any) && (i >= inputs || !node.inputs[static_cast<std::size_t>(i)].present()))
      fail("its input ", i, " is missing");
  if (inputs > takes.most) fail("it has ", inputs, " inputs, expected at most ", takes.most);
  if (outputs > gives.most) fail("it has ", outputs, " outputs, expected at most ", gives.most);
}

void check_types(const Operator& op, const Graph& graph, const std::vector<ValueId>& inputs) {
  for (std::size_t i = 0; i < inputs.size() && !op.types.empty(); ++i) {
    if (!inputs[i].present()) continue;
    const auto rule = [&](std::size_t k) { return op.types[std::min(k, op.types.size() - 1)]; };
    const DType dtype = graph[inputs[i]].type.dtype;
    if (!rule(i).allowed.has(dtype))
      fail("its input ", i, " '", graph[inputs[i]].name, "' is ", dtype, ", which the operator does not take there");
    for (std::size_t k = 0; k < i; ++k) {
      if (!inputs[k].present() || rule(k).name != rule(i).name) continue;
      if (graph[inputs[k]].type.dtype == dtype) break;  // so are those between: lists may be long
      fail("its input ", i, " '", graph[inputs[i]].name, "' is ", dtype, ", expected ", graph[inputs[k]].type.dtype, " as input ", k);
    }
  }
}

}  // namespace tandem
