#include <gtest/gtest.h>

#include <cmath>

#include "tests/graph/notation.h"

namespace tandem {
namespace {

using I = std::int64_t;

Tensor ints(std::initializer_list<I> values) { return Tensor::of<I>(Shape{static_cast<I>(values.size())}, values); }
Tensor floats(std::initializer_list<float> values) { return Tensor::of<float>(Shape{static_cast<I>(values.size())}, values); }
Tensor matrix(I rows, I columns, std::initializer_list<I> values) { return Tensor::of<I>(Shape{rows, columns}, values); }

struct Row {
  const char* op;
  std::vector<Tensor> inputs;
  Attributes attributes;
  std::vector<Tensor> outputs;
};

std::vector<Tensor> fold(const Row& row) {
  Graph graph;
  std::vector<ValueId> operands;
  for (const Tensor& t : row.inputs) operands.push_back(graph.add_constant("c", t));
  const NodeId id = graph.add_node(internal_operator(row.op), "n", row.attributes, operands, static_cast<int>(row.outputs.size()));
  const Node& node = graph[id];
  FoldContext context{node, row.inputs, {}, {}};
  for (const ValueId v : node.outputs) context.outputs.push_back(graph[v].type);
  for (const Tensor& t : row.inputs) context.input_types.push_back(t.type());
  const auto results = node.op->fold(context);
  if (!results) fail("not folded");
  for (std::size_t i = 0; i < results->size(); ++i)
    if ((*results)[i].type() != context.outputs[i]) fail("folded to ", (*results)[i].type(), ", the shape rule says ", context.outputs[i]);
  return *results;
}

TEST(Folding, GivesTheseValues) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const Row rows[] = {
      {"Add", {ints({1, 2}), ints({10})}, {}, {ints({11, 12})}},
      {"Add", {ints({INT64_MAX}), ints({1})}, {}, {ints({INT64_MIN})}},
      {"Sub", {ints({1}), ints({3})}, {}, {ints({-2})}},
      {"Mul", {floats({1.5F}), floats({4})}, {}, {floats({6})}},
      {"Div", {ints({7, -7, 7, INT64_MIN}), ints({2, 2, 0, -1})}, {}, {ints({3, -3, 0, INT64_MIN})}},
      {"Mod", {ints({7, -7, 7, -7}), ints({3, 3, -3, -3})}, {}, {ints({1, 2, -2, -1})}},
      {"Mod", {ints({7, -7, 7, -7}), ints({3, 3, -3, -3})}, {{"fmod", I{1}}}, {ints({1, -1, 1, -1})}},
      {"Max", {ints({1, 5}), ints({3})}, {}, {ints({3, 5})}},
      {"Pow", {ints({3}), ints({4})}, {}, {ints({81})}},
      {"Neg", {ints({3, INT64_MIN})}, {}, {ints({-3, INT64_MIN})}},
      {"Clip", {floats({-2, 0.5F, 7})}, {{"min", 0.0F}}, {floats({0, 0.5F, 7})}},
      {"Clip", {floats({-2, 0.5F, 7})}, {{"min", -1.0F}, {"max", 6.0F}}, {floats({-1, 0.5F, 6})}},
      {"Clip", {ints({-2, 5, 7})}, {{"min", Tensor::of<I>(Shape{}, {I{0}})}, {"max", Tensor::of<I>(Shape{}, {I{6}})}}, {ints({0, 5, 6})}},
      {"Floor", {floats({1.5F, -1.5F})}, {}, {floats({1, -2})}},
      {"Round", {floats({0.5F, 1.5F, 2.5F})}, {}, {floats({0, 2, 2})}},
      {"QuantizeLevels", {floats({0.5F, 3, 9, -9}), floats({1, 2, 2, 2})}, {{"min", -1.0F}, {"max", 3.0F}}, {floats({0, 2, 3, -1})}},
      {"Sqrt", {floats({9})}, {}, {floats({3})}},
      {"Equal", {ints({1, 2}), ints({2})}, {}, {Tensor::of<bool>(Shape{2}, {false, true})}},
      {"Less", {floats({1, 2}), floats({2})}, {}, {Tensor::of<bool>(Shape{2}, {true, false})}},
      {"Not", {Tensor::of<bool>(Shape{1}, {true})}, {}, {Tensor::of<bool>(Shape{1}, {false})}},
      {"IsNaN", {floats({1, NAN, INFINITY})}, {}, {Tensor::of<bool>(Shape{3}, {false, true, false})}},
      {"Trilu", {matrix(2, 3, {1, 2, 3, 4, 5, 6})}, {}, {matrix(2, 3, {1, 2, 3, 0, 5, 6})}},
      {"Trilu", {matrix(2, 3, {1, 2, 3, 4, 5, 6})}, {{"upper", I{0}}, {"k", I{1}}}, {matrix(2, 3, {1, 2, 0, 4, 5, 6})}},
      {"Trilu", {matrix(2, 2, {1, 2, 3, 4})}, {{"k", INT64_MIN}}, {matrix(2, 2, {1, 2, 3, 4})}},
      {"Where", {Tensor::of<bool>(Shape{2}, {true, false}), ints({1, 2}), ints({3})}, {}, {ints({1, 3})}},
      {"Cast", {floats({-1.7F})}, {{"to", I{7}}}, {ints({-1})}},
      {"Shape", {matrix(2, 3, {0, 0, 0, 0, 0, 0})}, {{"start", I{-1}}}, {ints({3})}},
      {"Size", {matrix(2, 3, {0, 0, 0, 0, 0, 0})}, {}, {Tensor::scalar(I{6})}},
      {"Gather", {ints({5, 6, 7}), ints({-1, 0})}, {}, {ints({7, 5})}},
      {"Gather", {matrix(2, 2, {1, 2, 3, 4}), Tensor::scalar(I{1})}, {{"axis", I{1}}}, {ints({2, 4})}},
      {"GatherElements", {matrix(3, 2, {1, 2, 3, 4, 5, 6}), matrix(2, 2, {2, -3, 1, 0})}, {}, {matrix(2, 2, {5, 2, 3, 2})}},
      {"GatherElements", {matrix(3, 2, {1, 2, 3, 4, 5, 6}), matrix(2, 3, {1, 0, 1, 0, -1, 0})}, {{"axis", I{1}}}, {matrix(2, 3, {2, 1, 2, 3, 4, 3})}},
      {"Resample", {floats({1, 2, 4}), Tensor::of<std::int32_t>(Shape{3}, {0, 2, 2}), Tensor::of<std::int32_t>(Shape{2}, {2, 0}), floats({0.5F, 3})}, {{"axis", I{0}}}, {floats({5, 0})}},
      {"Resample", {ints({1, INT64_MAX}), Tensor::of<std::int32_t>(Shape{3}, {0, 1, 2}), Tensor::of<std::int32_t>(Shape{2}, {1, 1})}, {{"axis", I{0}}}, {ints({INT64_MAX, INT64_MAX})}},
      {"GatherND", {matrix(2, 3, {1, 2, 3, 4, 5, 6}), matrix(2, 2, {1, -1, 0, 1})}, {}, {ints({6, 2})}},
      {"GatherND", {matrix(2, 3, {1, 2, 3, 4, 5, 6}), matrix(2, 1, {-1, 0})}, {{"batch_dims", I{1}}}, {ints({3, 4})}},
      {"ScatterND", {matrix(2, 3, {1, 2, 3, 4, 5, 6}), matrix(1, 1, {-1}), matrix(1, 3, {7, 8, 9})}, {}, {matrix(2, 3, {1, 2, 3, 7, 8, 9})}},
      {"ScatterND", {ints({1, 2, 3}), matrix(3, 1, {2, 0, 2}), ints({10, 20, 30})}, {{"reduction", std::string("add")}}, {ints({21, 2, 43})}},
      {"ScatterND", {Tensor::of<bool>(Shape{2}, {false, false}), matrix(1, 1, {1}), Tensor::of<bool>(Shape{1}, {true})}, {}, {Tensor::of<bool>(Shape{2}, {false, true})}},
      {"ScatterElements", {matrix(3, 2, {1, 2, 3, 4, 5, 6}), matrix(1, 2, {2, -3}), matrix(1, 2, {7, 8})}, {}, {matrix(3, 2, {1, 8, 3, 4, 7, 6})}},
      {"ScatterElements", {floats({1, 2, 3}), ints({0, 0, 1}), floats({5, 4, 1})}, {{"reduction", std::string("max")}}, {floats({5, 2, 3})}},
      {"ScatterElements", {floats({1, 2, 3}), ints({0, 0, 1}), floats({5, 4, 1})}, {{"reduction", std::string("mul")}}, {floats({20, 2, 3})}},
      {"CumSum", {ints({1, 2, 3})}, {{"axis", I{0}}}, {ints({1, 3, 6})}},
      {"CumSum", {matrix(2, 2, {1, 2, 3, 4})}, {{"axis", I{0}}, {"reverse", I{1}}}, {matrix(2, 2, {4, 6, 3, 4})}},
      {"CumSum", {ints({INT64_MAX, 1, 3})}, {{"axis", I{-1}}, {"exclusive", I{1}}}, {ints({0, INT64_MAX, INT64_MIN})}},
      {"CumProd", {ints({2, 3, 4})}, {{"axis", I{0}}, {"exclusive", I{1}}, {"reverse", I{1}}}, {ints({12, 4, 1})}},
      {"TopK", {ints({3, 9, 3, 1})}, {{"k", I{3}}}, {ints({9, 3, 3}), ints({1, 0, 2})}},
      {"TopK", {matrix(2, 2, {3, 9, 4, 1})}, {{"k", I{1}}, {"axis", I{0}}, {"largest", I{0}}}, {matrix(1, 2, {3, 1}), matrix(1, 2, {0, 1})}},
      {"Equal", {Tensor::of<bool>(Shape{2}, {true, false}), Tensor::of<bool>(Shape{1}, {false})}, {}, {Tensor::of<bool>(Shape{2}, {false, true})}},
      {"EyeLike", {matrix(2, 3, {9, 9, 9, 9, 9, 9})}, {{"k", I{1}}}, {matrix(2, 3, {0, 1, 0, 0, 0, 1})}},
      {"EyeLike", {matrix(2, 2, {9, 9, 9, 9})}, {{"k", INT64_MIN}, {"dtype", I{1}}}, {Tensor::of<float>(Shape{2, 2}, {0, 0, 0, 0})}},
      {"NonZero", {matrix(2, 2, {0, 5, 6, 7})}, {}, {matrix(2, 3, {0, 1, 1, 1, 0, 1})}},
      {"Unique", {ints({3, 1, 3})}, {}, {ints({1, 3}), ints({1, 0}), ints({1, 0, 1}), ints({1, 2})}},
      {"Unique", {floats({3, NAN, 3})}, {{"sorted", I{0}}, {"axis", I{0}}}, {floats({3, NAN}), ints({0, 1}), ints({0, 1, 0}), ints({2, 1})}},
      {"Atan", {floats({0})}, {}, {floats({0})}},
      {"Cos", {floats({0})}, {}, {floats({1})}},
      {"Sinh", {floats({0})}, {}, {floats({0})}},
      {"Acosh", {floats({1})}, {}, {floats({0})}},
      {"BitwiseAnd", {ints({6, -1}), ints({3})}, {}, {ints({2, 3})}},
      {"BitwiseOr", {ints({6, -1}), ints({3})}, {}, {ints({7, -1})}},
      {"BitwiseXor", {ints({6}), ints({3})}, {}, {ints({5})}},
      {"BitwiseNot", {ints({6})}, {}, {ints({-7})}},
      {"BitShift", {ints({5, 5, 5}), ints({2, 64, -1})}, {{"direction", std::string("LEFT")}}, {ints({20, 0, 0})}},
      {"BitShift", {ints({5, -5, -5}), ints({1, 1, 64})}, {{"direction", std::string("RIGHT")}}, {ints({2, -3, -1})}},
      {"BitCast", {floats({1})}, {{"to", I{6}}}, {Tensor::of<std::int32_t>(Shape{1}, {0x3f800000})}},
      {"Concat", {ints({1}), ints({2, 3})}, {{"axis", I{0}}}, {ints({1, 2, 3})}},
      {"Concat", {matrix(2, 1, {1, 2}), matrix(2, 2, {3, 4, 5, 6})}, {{"axis", I{1}}}, {matrix(2, 3, {1, 3, 4, 2, 5, 6})}},
      {"Slice", {ints({1, 2, 3, 4, 5})}, {{"starts", Ints{-1}}, {"ends", Ints{-100}}, {"steps", Ints{-2}}}, {ints({5, 3, 1})}},
      {"Slice", {matrix(2, 3, {1, 2, 3, 4, 5, 6})}, {{"starts", Ints{1}}, {"ends", Ints{3}}, {"axes", Ints{1}}}, {matrix(2, 2, {2, 3, 5, 6})}},
      {"Slice", {ints({1, 2, 3})}, {{"starts", Ints{2}}, {"ends", Ints{INT64_MIN}}, {"steps", Ints{INT64_MIN}}}, {ints({3})}},
      {"Split", {ints({1, 2, 3})}, {{"split", Ints{1, 2}}}, {ints({1}), ints({2, 3})}},
      {"Reshape", {ints({1, 2})}, {{"shape", Ints{2, 1}}}, {matrix(2, 1, {1, 2})}},
      {"Squeeze", {matrix(1, 2, {1, 2})}, {}, {ints({1, 2})}},
      {"Unsqueeze", {ints({1, 2})}, {{"axes", Ints{0}}}, {matrix(1, 2, {1, 2})}},
      {"Transpose", {matrix(2, 3, {1, 2, 3, 4, 5, 6})}, {}, {matrix(3, 2, {1, 4, 2, 5, 3, 6})}},
      {"Expand", {matrix(2, 1, {1, 2})}, {{"shape", Ints{2, 2}}}, {matrix(2, 2, {1, 1, 2, 2})}},
      {"Tile", {matrix(1, 2, {1, 2})}, {{"repeats", Ints{2, 2}}}, {matrix(2, 4, {1, 2, 1, 2, 1, 2, 1, 2})}},
      {"Range", {Tensor::scalar(I{5}), Tensor::scalar(I{-1}), Tensor::scalar(I{-2})}, {}, {ints({5, 3, 1})}},
      {"Range", {Tensor::scalar(I{5}), Tensor::scalar(I{1}), Tensor::scalar(I{2})}, {}, {ints({})}},
      {"Constant", {}, {{"value_ints", Ints{4, 5}}}, {ints({4, 5})}},
      {"ConstantOfShape", {}, {{"shape", Ints{2}}, {"value", ints({7})}}, {ints({7, 7})}},
      {"ReduceSum", {matrix(2, 3, {1, 2, 3, 4, 5, 6})}, {{"axes", Ints{0}}, {"keepdims", I{0}}}, {ints({5, 7, 9})}},
      {"ReduceProd", {ints({2, 3, 4})}, {{"keepdims", I{0}}}, {Tensor::scalar(I{24})}},
      {"ReduceMax", {matrix(2, 2, {1, 9, 3, 4})}, {{"axes", Ints{1}}}, {matrix(2, 1, {9, 4})}},
      {"ReduceMin", {ints({2, -3, 4})}, {}, {ints({-3})}},
      {"ReduceMean", {floats({1, 2, 6})}, {}, {floats({3})}},
      {"ReduceSum", {ints({})}, {{"keepdims", I{0}}}, {Tensor::scalar(I{0})}},
      // NaN stays, as in kernels.
      {"Relu", {floats({nan, -inf, inf})}, {}, {floats({nan, 0, inf})}},
      {"Sign", {floats({nan, -inf, inf})}, {}, {floats({nan, -1, 1})}},
      {"Max", {floats({nan, 1, nan, -inf}), floats({1, nan, nan, -inf})}, {}, {floats({nan, nan, nan, -inf})}},
      {"Min", {floats({nan, 1, nan, inf}), floats({1, nan, nan, inf})}, {}, {floats({nan, nan, nan, inf})}},
      {"ReduceMax", {floats({1, nan, 2})}, {}, {floats({nan})}},
      {"ReduceMax", {floats({-inf, -inf})}, {}, {floats({-inf})}},
      {"ReduceMin", {floats({nan, 1, 2})}, {}, {floats({nan})}},
      {"TopK", {floats({1, nan, 2})}, {{"k", I{2}}}, {floats({nan, 2}), ints({1, 2})}},
      {"Clip", {floats({nan, inf})}, {{"min", 0.0F}, {"max", 6.0F}}, {floats({nan, 6})}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.op);
    try {
      const std::vector<Tensor> results = fold(row);
      ASSERT_EQ(results.size(), row.outputs.size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(results[i].type(), row.outputs[i].type());
        const std::vector<double> got = results[i].to_doubles(), wanted = row.outputs[i].to_doubles();
        for (std::size_t k = 0; k < wanted.size(); ++k)
          EXPECT_TRUE(got[k] == wanted[k] || (std::isnan(got[k]) && std::isnan(wanted[k]))) << k << ": " << got[k];
      }
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

TEST(Folding, LeavesWhatItCannotSay) {
  const Tensor infinite = floats({std::numeric_limits<float>::infinity()});
  EXPECT_THROW(fold({"Cast", {infinite}, {{"to", I{7}}}, {ints({0})}}), Error);
  EXPECT_THROW(fold({"Gather", {ints({1, 2}), ints({2})}, {}, {ints({0})}}), Error);
  EXPECT_THROW(fold({"GatherElements", {ints({1, 2}), ints({2})}, {}, {ints({0})}}), Error);
  EXPECT_THROW(fold({"GatherND", {ints({1, 2}), matrix(1, 1, {-3})}, {}, {ints({0})}}), Error);
  EXPECT_THROW(fold({"ScatterND", {ints({1, 2}), matrix(1, 1, {2}), ints({1})}, {}, {ints({0, 0})}}), Error);
  EXPECT_THROW(fold({"ScatterElements", {ints({1, 2}), ints({2}), ints({1})}, {}, {ints({0, 0})}}), Error);
}

}  // namespace
}  // namespace tandem
