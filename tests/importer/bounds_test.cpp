// What a model may ask for: sums over the whole file, versions that are known, element types that operators take.
#include <gtest/gtest.h>

#include <functional>

#include "importer/batch/budget.h"
#include "importer/message/limits.h"
#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

Model linear() {
  Model m;
  m.input("x", "N,4").output("y").add(filled_tensor("w", {4, 4})).add(filled_tensor("b", {4})).add(int_tensor("i", {1}, {0}));
  return m.add(node("MatMul", {"x", "w"}, {"p"}));
}

onnx::GraphProto nested(int depth) {
  const onnx::GraphProto leaf = branch({node("Identity", {"p"}, {concat("leaf", depth)})}, {concat("leaf", depth)});
  if (depth == 0) return leaf;
  onnx::NodeProto choice = node("If", {"c"}, {concat("level", depth)}, {{"then_branch", nested(depth - 1)}, {"else_branch", leaf}});
  choice.set_name(concat("choice", depth));
  return branch({choice}, {concat("level", depth)});
}

struct Row {
  std::string name;
  std::function<void(Model&)> harm;
  std::string reason;  // what the report says; "": nothing
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

// clang-format off
const Row rows[] = {
    {"opset_99", [](Model& m) { m.proto.mutable_opset_import(0)->set_version(99); }, "opset 99 of ai.onnx is not supported, 7 to 28 are"},
    {"opset_negative", [](Model& m) { m.proto.mutable_opset_import(0)->set_version(-3); }, "opset -3 of ai.onnx is not supported"},
    {"opset_2_62", [](Model& m) { m.proto.mutable_opset_import(0)->set_version(1LL << 62); }, "opset 4611686018427387904 of ai.onnx"},
    {"opset_of_a_function", [](Model& m) { m.add(function("F", {"a"}, {"a"}, {})); m.proto.mutable_functions(0)->mutable_opset_import(0)->set_domain("ai.onnx"); m.proto.mutable_functions(0)->mutable_opset_import(0)->set_version(99); }, "function 'F': opset 99"},
    {"ir_99", [](Model& m) { m.proto.set_ir_version(99); }, "IR version 99 is not supported, 3 to 14 are"},
    {"newest", [](Model& m) { m.proto.set_ir_version(14); m.proto.mutable_opset_import(0)->set_version(28); m.add(node("Relu", {"p"}, {"y"})); }, ""},
    {"depth_names_its_node", [](Model& m) { m.add(nested(33).node(0)).add(node("Relu", {"p"}, {"y"})); }, "graphs nest deeper than 32 at If 'choice1', attribute 'then_branch'"},
    {"type_not_taken", [](Model& m) { m.add(node("Not", {"p"}, {"y"})); }, "its input 0 'p' is float32, which the operator does not take there"},
    {"type_of_an_index", [](Model& m) { m.add(node("Gather", {"p", "b"}, {"y"})); }, "its input 1 'b' is float32, which the operator does not take there"},
    {"types_that_differ", [](Model& m) { m.add(node("Add", {"p", "i"}, {"y"})); }, "its input 1 'i' is int64, expected float32 as input 0"},
    {"types_in_a_long_list", [](Model& m) { m.add(node("Concat", {"p", "p", "i"}, {"y"}, {{"axis", std::int64_t{0}}})); }, "its input 2 'i' is int64, expected float32 as input 0"},
    {"types_that_may_differ", [](Model& m) { m.add(node("Pow", {"p", "i"}, {"y"})); }, ""},
    {"outputs_of_an_old_operator", [](Model& m) { m.proto.mutable_opset_import(0)->set_version(7); m.add(node("Affine", {"p"}, {"y", "z"})).output("z"); }, "it has 2 outputs, expected at most 1"},
    {"rank", [](Model& m) { m.add(int_tensor("s", {2000}, std::vector<std::int64_t>(2000, 1))).add(node("Reshape", {"b", "s"}, {"y"})); }, "Reshape"},
    {"rank_of_ones", [](Model& m) { m.add(filled_tensor("one", {1})).add(int_tensor("s", {2000}, std::vector<std::int64_t>(2000, 1))).add(node("Reshape", {"one", "s"}, {"y"})); }, "rank 2000, expected at most 1024"},
    {"padded_axis", [](Model& m) { m.add(int_tensor("n", {4}, {0, 0, 0, 1LL << 33})).add(node("Pad", {"p", "n"}, {"y"})); }, "has an axis of 8589934596 elements, expected at most 16777216"},
    {"tiled_axis", [](Model& m) { m.add(int_tensor("n", {2}, {1, 1LL << 30})).add(node("Tile", {"p", "n"}, {"y"})); }, "has an axis of 4294967296 elements"},
    {"expanded_axis", [](Model& m) { m.add(filled_tensor("one", {1})).add(int_tensor("n", {1}, {1LL << 33})).add(node("Expand", {"one", "n"}, {"y"})); }, "Expand"},
    {"long_axis", [](Model& m) { m.add(int_tensor("n", {2}, {1, 1 << 20})).add(node("Tile", {"p", "n"}, {"y"})); }, ""},
    {"weight_of_2_gigabytes", [](Model& m) { m.add(int_tensor("n", {2}, {4, 1 << 27})).add(node("ConstantOfShape", {"n"}, {"W"})).add(node("MatMul", {"p", "W"}, {"y"})); }, " allowed"},
};
// clang-format on

class Bounds : public testing::TestWithParam<Row> {};

TEST_P(Bounds, AreSaid) {
  Model model = linear();
  GetParam().harm(model);
  const std::string report = model.report({.batch = 2});
  if (GetParam().reason.empty())
    EXPECT_EQ(report, "");
  else
    EXPECT_NE(report.find(GetParam().reason), std::string::npos) << report;
}
INSTANTIATE_TEST_SUITE_P(Rows, Bounds, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

// The sums of a whole graph, of a file of `file` bytes.
TEST(Budget, BoundsSums) {
  constexpr std::int64_t mega = std::int64_t{1} << 20;
  const auto times = [](std::int64_t file, const std::function<void(Budget&)>& take) {
    Budget budget(file, 64 * mega);
    int n = 0;
    std::string reason;
    for (; n < 100'000 && reason.empty(); ++n) try {
        take(budget);
      } catch (const Error& error) {
        reason = error.what();
      }
    return std::pair(n - 1, reason);
  };
  const auto constants = [](Budget& b) { b.make_constant(mega); };
  EXPECT_EQ(times(0, constants).first, limits::constants_bytes / mega - 1);
  EXPECT_EQ(times(100 * mega, constants).first, limits::constants_bytes / mega + 100 * limits::constants_factor - 1);
  EXPECT_NE(times(0, constants).second.find("the constants that are computed from this file take more than"), std::string::npos);
  const auto folds = [](Budget& b) { b.fold(3 * mega, mega); };
  EXPECT_EQ(times(0, folds).first, limits::folded_bytes / (4 * mega) - 1);
  EXPECT_NE(times(0, folds).second.find("it would take too long"), std::string::npos);
  EXPECT_EQ(times(0, [](Budget& b) { b.make_constant(65 * mega); }).first, 0);
  EXPECT_EQ(times(0, [](Budget& b) { b.make_weight(64 * mega); }).first, limits::weight_factor);
  EXPECT_EQ(times(0, [](Budget& b) { b.fold(std::int64_t{1} << 62, std::int64_t{1} << 62); }).first, 0);
  EXPECT_GT(times(std::int64_t{1} << 62, constants).first, 1000);  // no overflow
}

TEST(Budget, OfAModelIsItsNodesTogether) {
  Model m = linear();
  m.add(int_tensor("n", {1}, {1 << 24}));
  for (int k = 0; k < 4; ++k) m.add(node("ConstantOfShape", {"n"}, {concat("c", k)}));  // 64 MB each
  for (int k = 0; k < 4; ++k) m.add(node("ReduceSum", {concat("c", k)}, {concat("s", k)}, {{"keepdims", std::int64_t{0}}}));
  m.add(node("Sum", {"p", "s0", "s1", "s2", "s3"}, {"y"}));
  const std::string report = m.report({.batch = 2});
  EXPECT_NE(report.find("nodes 'node_c2', 'node_c3': ai.onnx::ConstantOfShape (opset 17): the constants that are computed"),
            std::string::npos)
      << report;
}

}  // namespace
}  // namespace tandem::test
