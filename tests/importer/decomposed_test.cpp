// How many of the operators that models use let a gradient through: to an operand of floats, and not as zeros alone.
#include "importer/build/decomposed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "graph/operator.h"
#include "graph/operators/rules.h"

namespace tandem {
namespace {

// What these expand to is constant where its operands are floats, or counts by them.
const std::set<std::string_view> made_of_constants{"BitCast",       "BlackmanWindow", "Constant", "ConstantOfShape",
                                                   "HammingWindow", "HannWindow",     "IsInf",    "MelWeightMatrix",
                                                   "RandomNormal",  "RandomUniform",  "Range"};

bool differentiable(const Operator& op) {
  const bool floats = op.types.empty() || std::ranges::any_of(op.types, [](const OperandType& t) { return t.allowed.has(DType::float32); });
  return floats && op.inputs.most != 0 && op.differentiate != zero_gradient && (op.differentiate || op.expand) &&
         !made_of_constants.contains(op.name);
}

TEST(Operators, ThatLetAGradientThroughAreMany) {
  std::set<std::string_view> onnx, others;
  for (const Operator& op : operators())
    if (op.domain != "tandem" && differentiable(op)) (op.domain.empty() ? onnx : others).insert(op.name);
  for (const Decomposed& op : decomposed())
    if (op.differentiable) (op.domain.empty() ? onnx : others).insert(op.op);
  RecordProperty("onnx", static_cast<int>(onnx.size()));
  RecordProperty("others", static_cast<int>(others.size()));
  EXPECT_GE(onnx.size(), 149U);
  EXPECT_GE(onnx.size() + others.size(), 160U);
}

}  // namespace
}  // namespace tandem
