#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "graph/operators/rules.h"
#include "tests/graph/notation.h"

namespace tandem {
namespace {

TEST(Operators, AreSortedByDomainAndName) {
  const auto rows = operators();
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end(), [](const Operator& a, const Operator& b) {
    return std::pair(a.domain, a.name) < std::pair(b.domain, b.name);
  }));
}

TEST(Operators, AreFoundByNameAndDomain) {
  for (const Operator& op : operators()) EXPECT_EQ(find_operator(op.name, op.domain), &op) << op.name;
  EXPECT_EQ(find_operator("Conv", "ai.onnx"), find_operator("Conv"));
  EXPECT_EQ(find_operator("Conv", "tandem"), nullptr);
  EXPECT_EQ(find_operator("StringSplit"), nullptr);
  EXPECT_EQ(find_operator(""), nullptr);
}

bool is_internal(const Operator& op) { return op.domain == "tandem"; }
const std::set<std::string_view> domains_of_models{"", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft",
                                                   "qonnx.custom_op.general"};

TEST(Operators, AreWhole) {
  const std::set<std::string_view> known_when_planned{
      "BlackmanWindow",    "Constant", "ConstantOfShape", "EyeLike", "HammingWindow", "HannWindow", "MelWeightMatrix",
      "NonMaxSuppression", "NonZero",  "Range",           "Shape",   "Size",          "Unique"};
  for (const Operator& op : operators()) {
    SCOPED_TRACE(op.name);
    EXPECT_TRUE(op.infer);
    EXPECT_FALSE(op.since.empty());
    EXPECT_TRUE(std::is_sorted(op.since.begin(), op.since.end()));
    EXPECT_TRUE(is_internal(op) || domains_of_models.contains(op.domain));
    EXPECT_TRUE(op.parameters.empty() || op.elementwise);
    EXPECT_LE(op.parameters.size(), 2U) << "an elementwise instruction has room for two";
    EXPECT_TRUE(!op.folds_types || op.fold);
    EXPECT_TRUE(op.follow || op.elementwise || is_internal(op) || op.inputs.most == 0 || known_when_planned.contains(op.name))
        << "how do samples pass through it?";
  }
}

bool takes_floats(const Operator& op) {
  return std::any_of(op.types.begin(), op.types.end(), [](const OperandType& t) { return t.allowed.has(DType::float32); });
}

bool is_static(const Operator& op, int input) {
  return std::any_of(op.static_operands.begin(), op.static_operands.end(), [&](const StaticOperand& s) { return s.input == input; });
}

// They may be called as ONNX's are, and are rewritten before anything asks for them by name.
TEST(Operators, OfOtherDomainsAreComposed) {
  for (const Operator& op : operators())
    EXPECT_TRUE(op.domain.empty() || is_internal(op) || (op.expand && (!op.differentiate || op.differentiate == zero_gradient)))
        << op.domain << "::" << op.name;
}

// Nothing is taken for granted of an operator that reads floats: whether a tensor there is a weight, how it starts, and in
// which precision the operator runs.
TEST(Operators, SayWhatTheirOperandsAre) {
  for (const Operator& op : operators()) {
    if (is_internal(op)) continue;
    SCOPED_TRACE(op.name);
    EXPECT_NE(precision_of(op), PrecisionRole::unsaid) << "does it run in 16 bits?";
    EXPECT_TRUE(op.precision != PrecisionRole::parts || op.expand) << "parts of what?";
    if (!takes_floats(op) || (op.elementwise && op.operands.empty())) continue;  // data
    const int last = op.inputs.most == Arity::any ? op.inputs.least : op.inputs.most;
    for (int i = 0; i < last; ++i)
      EXPECT_TRUE(i < static_cast<int>(op.operands.size()) || is_static(op, i)) << "what is input " << i << '?';
  }
}

TEST(Operators, SayWhichElementTypeAnAttributeNames) {
  EXPECT_EQ(find_operator("Cast")->type_attribute, "to");
}

TEST(Operators, AnInternalNameHidesNoneOfOnnx) {
  for (const Operator& op : operators()) EXPECT_TRUE(!is_internal(op) || !find_operator(op.name, "")) << op.name;
}

struct FlopsRow {
  const char* op;
  std::vector<std::string> inputs;
  Attributes attributes;
  double flops;
};

TEST(Operators, CountFloatingPointOperations) {
  const FlopsRow rows[] = {
      {"Relu", {"f[4,5]"}, {}, 20},
      {"Conv", {"f[2,4,5,5]", "f[6,2,3,3]"}, {{"group", std::int64_t{2}}}, 2.0 * (2 * 6 * 3 * 3) * (2 * 3 * 3)},
      {"InnerProduct", {"f[3,4,5]", "f[7,4,5]"}, {}, 2.0 * 3 * 7 * 20},
      {"MatMul", {"f[2,3,4]", "f[4,5]"}, {}, 2.0 * 2 * 3 * 4 * 5},
      {"MatMul", {"f[2,4,3]", "f[4,5]"}, {{"transA", std::int64_t{1}}}, 2.0 * 2 * 3 * 4 * 5},
      {"Gemm", {"f[3,4]", "f[5,4]", "f[5]"}, {{"transB", std::int64_t{1}}}, 2.0 * 3 * 4 * 5},
      {"Gemm", {"f[4,3]", "f[4,5]"}, {{"transA", std::int64_t{1}}}, 2.0 * 3 * 4 * 5},
      {"ReduceSum", {"f[6,7]"}, {}, 42},
      {"MaxPool", {"f[1,1,4,4]"}, {{"kernel_shape", Ints{2, 2}}}, 9 * 4},
  };
  for (const FlopsRow& row : rows) {
    const test::OneNode one(row.op, row.inputs, row.attributes);
    EXPECT_EQ(flops_of(one.graph, one.graph[one.node]), row.flops) << row.op;
  }
}

}  // namespace
}  // namespace tandem
