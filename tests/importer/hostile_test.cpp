// Files made to crash, hang or exhaust: each ends in a clear error or a graph.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "graph/operator.h"
#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

Model small_model() {
  Model m;
  m.input("x", "N,3,8,8").output("y");
  m.add(filled_tensor("w", {4, 3, 3, 3})).add(filled_tensor("b", {4})).add(int_tensor("shape", {2}, {0, -1}));
  m.add(node("Conv", {"x", "w", "b"}, {"c"}, {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}}));
  m.add(node("Relu", {"c"}, {"r"})).add(node("Reshape", {"r", "shape"}, {"y"}));
  return m;
}

// Whatever the bytes are: an Error or a graph, nothing else.
void expect_survives(const std::string& bytes) {
  try {
    const Graph graph = ModelFile::parse(bytes, {}).graph({.batch = 2, .fold_limit = 1 << 16});
    verify(graph);
  } catch (const Error& error) {
    EXPECT_FALSE(std::string(error.what()).empty());
  }
}

TEST(Hostile, TruncatedAnywhere) {
  const std::string whole = small_model().bytes();
  ASSERT_EQ(report_of_bytes(whole), "");
  for (std::size_t n = 0; n < whole.size(); ++n) expect_survives(whole.substr(0, n));
}

TEST(Hostile, RandomBytes) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 300, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    expect_survives(bytes);
  }
}

TEST(Hostile, ChangedBytes) {
  const std::string whole = small_model().bytes();
  std::mt19937 random(2);
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = whole;
    for (int changes = 1 + static_cast<int>(random() % 4); changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    expect_survives(bytes);
  }
}

// Every operator with operands left out, given too often and of other kinds, and with outputs that it has not.
TEST(Hostile, OperandsOfEveryOperator) {
  int refused = 0;
  for (const Operator& op : operators()) {
    if (!op.domain.empty()) continue;
    const int most = std::min(op.inputs.most, 5) + 1;
    for (int inputs = 0; inputs <= most; ++inputs)
      for (int blank = -1; blank < inputs; ++blank)
        for (const int outputs : {1, 2, 4})
          for (const char* first : {"x", "w", "i"}) {
            Names in, out;
            const char* const kinds[] = {"x", "w", "i", "s", "x", "w"};
            for (int k = 0; k < inputs; ++k) in.emplace_back(k == blank ? "" : k == 0 ? first : kinds[k]);
            for (int k = 0; k < outputs; ++k) out.push_back(concat("y", k));
            Model m(op.since.back());
            m.input("x", "N,4")
                .output("z")
                .add(filled_tensor("w", {4, 4}))
                .add(int_tensor("i", {2}, {0, 1}))
                .add(int_tensor("s", {1}, {1}));
            m.add(node(std::string(op.name), in, out)).add(node("MatMul", {"x", "w"}, {"p"})).add(node("Add", {"p", "y0"}, {"z"}));
            for (int k = 1; k < outputs; ++k) m.output(concat("y", k));
            refused += !m.report({.batch = 2}).empty();
            expect_survives(m.bytes());
          }
  }
  EXPECT_GT(refused, 1000);
}

// What an operator needs, or has not, is said; nothing behind the importer asks again.
TEST(Hostile, AMissingOperandIsNamed) {
  struct Case {
    const char* op;
    Names inputs, outputs;
    const char* reason;
  };
  const Case cases[] = {
      {"Add", {"x"}, {"y"}, "its input 1 is missing"},
      {"Add", {"", "x"}, {"y"}, "its input 0 is missing"},
      {"Size", {}, {"y"}, "its input 0 is missing"},
      {"Concat", {"x", "", "x"}, {"y"}, "its input 1 is missing"},
      {"Relu", {"x", "x"}, {"y"}, "it has 2 inputs, expected at most 1"},
      {"RMSNormalization", {"x", "w"}, {"y", "a", "b"}, "it has 3 outputs, expected at most 1"},
      {"CastLike", {"x", ""}, {"y"}, "its input 1 is missing"},  // it goes by another name once it is upgraded
      {"Clip", {"x", "", ""}, {"y"}, ""},  // trailing ones may be left out
  };
  for (const Case& c : cases) {
    Model m(23);
    m.input("x", "N,4").output("y").add(filled_tensor("w", {4}));
    for (std::size_t i = 1; i < c.outputs.size(); ++i) m.output(c.outputs[i]);
    m.add(node(c.op, c.inputs, c.outputs));
    const std::string report = m.report();
    if (*c.reason)
      EXPECT_NE(report.find(c.reason), std::string::npos) << c.op << ": " << report;
    else
      EXPECT_EQ(report, "");
  }
}

TEST(Hostile, OperatorsOfPlansAreNoModels) {
  Model m;
  m.input("x", "N,4").output("y").add(node("ReluBackward", {"x", "x"}, {"y"}, {}, "tandem"));
  m.proto.add_opset_import()->set_domain("tandem");
  EXPECT_NE(m.report().find("which no model may hold"), std::string::npos) << m.report();
}

struct Row {
  std::string name;
  std::function<void(Model&)> harm;
  std::string reason;  // what the report says
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

onnx::GraphProto nested(int depth) {
  if (depth == 0) return branch({node("Identity", {"x"}, {"inner"})}, {"inner"});
  const onnx::GraphProto inner = nested(depth - 1);
  const std::string name = "level" + std::to_string(depth);
  return branch({node("If", {"c"}, {name}, {{"then_branch", inner}, {"else_branch", branch({node("Identity", {"x"}, {"e"})}, {"e"})}})},
                {name});
}

onnx::SparseTensorProto sparse() {
  onnx::SparseTensorProto s;
  *s.mutable_values() = float_tensor("sparse", {1}, {1});
  return s;
}

// clang-format off
const Row rows[] = {
    {"no_graph", [](Model& m) { m.proto.clear_graph(); }, "no graph"},
    {"no_ir_version", [](Model& m) { m.proto.clear_ir_version(); }, "no ir_version"},
    {"old_ir_version", [](Model& m) { m.proto.set_ir_version(2); }, "IR version 2"},
    {"old_opset", [](Model& m) { m.proto.mutable_opset_import(0)->set_version(5); }, "opset 5"},
    {"no_opset", [](Model& m) { m.proto.clear_opset_import(); }, "imports no opset"},
    {"no_outputs", [](Model& m) { m.proto.mutable_graph()->clear_output(); }, "no outputs"},
    {"unknown_output", [](Model& m) { m.output("z"); }, "output 'z' is not computed"},
    {"missing_input", [](Model& m) { m.add(node("Relu", {"z"}, {"q"})).output("q"); }, "input 'z' is not computed"},
    {"cycle", [](Model& m) { m.add(node("Add", {"x", "q2"}, {"q1"})).add(node("Relu", {"q1"}, {"q2"})).output("q2"); }, "'q2' is not computed before it is read"},
    {"reads_itself", [](Model& m) { m.add(node("Relu", {"q"}, {"q"})).output("q"); }, "'q' is not computed before it is read"},
    {"two_producers", [](Model& m) { m.add(node("Relu", {"x"}, {"r"})); }, "'r' is defined twice"},
    {"two_initializers", [](Model& m) { m.add(filled_tensor("w", {1})); }, "'w' is defined twice"},
    {"node_over_initializer", [](Model& m) { m.add(node("Relu", {"x"}, {"w"})); }, "'w' is defined twice"},
    {"two_inputs_of_a_name", [](Model& m) { m.input("x", "N,4"); }, "input 'x' is defined twice"},
    {"two_outputs_of_a_name", [](Model& m) { m.output("y"); }, "output 'y' is defined twice"},
    {"input_without_a_name", [](Model& m) { m.input("", "N,4"); }, "an input has no name"},
    {"output_without_a_name", [](Model& m) { m.output(""); }, "an output has no name"},
    {"input_that_a_node_computes", [](Model& m) { m.input("r", "N,4,8,8"); }, "'r' is defined twice"},
    {"two_imports_of_a_domain", [](Model& m) { auto& i = *m.proto.add_opset_import(); i.set_domain("ai.onnx"); i.set_version(13); }, "imports the domain 'ai.onnx' twice, as opset 17 and 13"},
    {"two_imports_of_a_function", [](Model& m) { m.add(function("F", {"a"}, {"b"}, {node("Relu", {"a"}, {"b"})})); *m.proto.mutable_functions(0)->add_opset_import() = m.proto.functions(0).opset_import(0); }, "function 'F': imports the domain 'ai.onnx' twice"},
    {"two_outputs_of_a_function", [](Model& m) { m.add(function("F", {"a"}, {"b", "b"}, {node("Relu", {"a"}, {"b"})})); }, "function 'F': output 'b' is defined twice"},
    {"two_attributes_of_a_function", [](Model& m) { m.add(function("F", {"a"}, {"b"}, {node("Relu", {"a"}, {"b"})}, {"q", "q"})); }, "function 'F': attribute 'q' is defined twice"},
    {"two_attributes_of_a_name", [](Model& m) { auto& r = *m.proto.mutable_graph()->mutable_node(0); *r.add_attribute() = r.attribute(0); }, "attribute 'pads' is there twice"},
    {"two_attributes_in_a_branch", [](Model& m) { auto n = node("LeakyRelu", {"x"}, {"e"}, {{"alpha", 0.1F}}); *n.add_attribute() = n.attribute(0); m.add(node("If", {"c"}, {"q"}, {{"then_branch", branch({n}, {"e"})}, {"else_branch", nested(0)}})).output("q"); }, "attribute 'alpha' is there twice"},
    {"attribute_of_two_values", [](Model& m) { m.add(node("LeakyRelu", {"x"}, {"s"}, {{"alpha", 0.1F}})).output("s"); m.proto.mutable_graph()->mutable_node(3)->mutable_attribute(0)->set_i(3); }, "attribute 'alpha' has a value in 'i', its type takes one in 'f' alone"},
    {"two_values_of_metadata", [](Model& m) { for (const char* v : {"a", "b"}) { auto& e = *m.proto.add_metadata_props(); e.set_key("k"); e.set_value(v); } }, "metadata 'k' is there twice, with two values"},
    {"two_types_of_a_value", [](Model& m) { for (const int type : {1, 7}) { auto& v = *m.proto.mutable_graph()->add_value_info(); v.set_name("r"); v.mutable_type()->mutable_tensor_type()->set_elem_type(type); } }, "value_info declares 'r' twice, as float32 and int64"},
    {"initializer_declared_of_another_shape", [](Model& m) { m.input("b", "5"); }, "input 'b' is declared as float32[5], its initializer is float32[4]"},
    {"initializer_declared_of_another_type", [](Model& m) { m.input("b", "4", onnx::TensorProto::INT64); }, "input 'b' is declared as int64[4], its initializer is float32[4]"},
    {"raw_data_beside_float_data", [](Model& m) { m.proto.mutable_graph()->mutable_initializer(1)->add_float_data(1); }, "initializer 'b' has values in two places, raw_data and float_data"},
    {"float_data_beside_int32_data", [](Model& m) { auto& t = *m.proto.mutable_graph()->mutable_initializer(1); t.clear_raw_data(); for (int i = 0; i < 4; ++i) { t.add_float_data(1); t.add_int32_data(1); } }, "initializer 'b' has values in two places, float_data and int32_data"},
    {"external_data_beside_raw_data", [](Model& m) { auto& t = *m.proto.mutable_graph()->mutable_initializer(1); t.set_data_location(onnx::TensorProto::EXTERNAL); }, "initializer 'b' has values in two places, external data and raw_data"},
    {"values_in_the_field_of_another_type", [](Model& m) { auto& t = *m.proto.mutable_graph()->mutable_initializer(1); t.clear_raw_data(); for (int i = 0; i < 4; ++i) t.add_double_data(1); }, "initializer 'b' has its values in double_data, those of float32 stand in float_data or raw_data"},
    {"sparse_beside_dense", [](Model& m) { auto s = sparse(); s.mutable_values()->set_name("w"); *m.proto.mutable_graph()->add_sparse_initializer() = s; }, "'w' is defined twice"},
    {"unknown_operator", [](Model& m) { m.add(node("Frobnicate", {"x"}, {"f"})).output("f"); }, "ai.onnx::Frobnicate (opset 17): the operator is not supported; ONNX has none of this name"},
    {"misspelled_operator", [](Model& m) { m.add(node("Relluu", {"x"}, {"f"})).output("f"); }, "ai.onnx::Relluu (opset 17): the operator is not supported, did you mean 'Relu'?"},
    {"standard_operator", [](Model& m) { m.add(node("StringSplit", {"x"}, {"f"})).output("f"); }, "ai.onnx::StringSplit (opset 17): the operator is not supported"},
    {"rank_beyond_limit", [](Model& m) { m.add(dims_only("huge", std::vector<std::int64_t>(1025, 1))); }, "rank 1025"},
    {"dims_overflow", [](Model& m) { m.add(dims_only("huge", {1LL << 40, 1LL << 40})).add(node("Add", {"x", "huge"}, {"s"})).output("s"); }, "initializer 'huge'"},
    {"dims_negative", [](Model& m) { m.add(dims_only("bad", {-4})); }, "negative dimension"},
    {"too_little_data", [](Model& m) { m.proto.mutable_graph()->mutable_initializer(0)->mutable_raw_data()->resize(7); }, "initializer 'w' has 7 bytes"},
    {"too_much_data", [](Model& m) { m.proto.mutable_graph()->mutable_initializer(1)->mutable_raw_data()->append(4, '\0'); }, "initializer 'b' has 20 bytes"},
    {"string_initializer", [](Model& m) { m.proto.mutable_graph()->mutable_initializer(1)->set_data_type(onnx::TensorProto::STRING); }, "string"},
    {"unknown_dtype", [](Model& m) { m.proto.mutable_graph()->mutable_initializer(1)->set_data_type(99); }, "element type 99"},
    {"segmented", [](Model& m) { m.proto.mutable_graph()->mutable_initializer(1)->mutable_segment()->set_begin(0); }, "segments"},
    {"sparse_initializer", [](Model& m) { *m.proto.mutable_graph()->add_sparse_initializer() = sparse(); }, "'sparse' is sparse"},
    {"empty_integers", [](Model& m) { m.proto.mutable_graph()->mutable_initializer(2)->clear_int64_data(); }, "initializer 'shape'"},
    {"sequence_input", [](Model& m) { auto& i = *m.proto.mutable_graph()->add_input(); i.set_name("s"); i.mutable_type()->mutable_sequence_type(); }, "input 's'"},
    {"string_input", [](Model& m) { m.input("s", "N", onnx::TensorProto::STRING); }, "input 's' is no tensor of numbers"},
    {"input_without_shape", [](Model& m) { auto& i = *m.proto.mutable_graph()->add_input(); i.set_name("s"); i.mutable_type()->mutable_tensor_type()->set_elem_type(1); }, "input 's' has no shape"},
    {"input_beyond_memory", [](Model& m) { m.input("s", "N,4611686018427387904,4611686018427387904"); }, "input 's'"},
    {"nested_32", [](Model& m) { m.add(node("If", {"c"}, {"q"}, {{"then_branch", nested(33)}, {"else_branch", nested(0)}})).output("q"); }, "nest deeper than 32"},
    {"deeper_than_protobuf_reads", [](Model& m) { m.add(node("If", {"c"}, {"q"}, {{"then_branch", nested(90)}})).output("q"); }, "not an ONNX model"},
    {"condition_from_data", [](Model& m) { m.input("cond", "", onnx::TensorProto::BOOL).add(float_tensor("two", {2}, {1, 2})).add(node("If", {"cond"}, {"q"}, {{"then_branch", branch({}, {"x"})}, {"else_branch", branch({}, {"two"})}})).output("q"); }, "condition is computed from data, and its branches give float32[1,3,8,8] and float32[2]"},
    {"function_calls_itself", [](Model& m) { m.add(function("F", {"a"}, {"b"}, {node("F", {"a"}, {"b"}, {}, function_domain)})).add(node("F", {"x"}, {"q"}, {}, function_domain)).output("q"); }, "calls itself"},
    {"function_twice", [](Model& m) { m.add(function("F", {"a"}, {"a"}, {})).add(function("F", {"a"}, {"a"}, {})); }, "'F' is defined twice"},
    {"function_without_its_output", [](Model& m) { m.add(function("F", {"a"}, {"b"}, {})).add(node("F", {"x"}, {"q"}, {}, function_domain)).output("q"); }, "computes no 'b'"},
    {"attribute_refers_to_nothing", [](Model& m) { m.add(node("Softmax", {"x"}, {"s"}, {{"axis", std::string("@axis")}})).output("s"); }, "stands in none"},
    {"attribute_of_wrong_type", [](Model& m) { m.add(node("Softmax", {"x"}, {"s"}, {{"axis", std::string("one")}})).output("s"); }, "attribute 'axis' has the wrong type"},
    {"axis_outside", [](Model& m) { m.add(node("Softmax", {"x"}, {"s"}, {{"axis", std::int64_t{9}}})).output("s"); }, "Softmax (opset 17)"},
    {"too_few_inputs", [](Model& m) { m.add(node("Conv", {}, {"s"})).output("s"); }, "Conv (opset 17)"},
    {"too_few_inputs_after_upgrade", [](Model& m) { m.add(node("CastLike", {"x"}, {"s"})).output("s"); }, "its input 1 is missing"},
    {"constant_without_value", [](Model& m) { m.add(node("Constant", {}, {"s"})).output("s"); }, "has no value"},
    {"constant_string", [](Model& m) { m.add(node("Constant", {}, {"s"}, {{"value_string", std::string("text")}})).output("s"); }, "strings are not supported"},
    {"constant_without_output", [](Model& m) { m.add(node("Constant", {}, {}, {{"value_int", std::int64_t{1}}})); }, ""},
    {"constant_with_two_outputs", [](Model& m) { m.add(node("Constant", {}, {"", "s"}, {{"value_int", std::int64_t{1}}})).output("s"); }, "expected one with a name"},
    {"shape_constant_with_two_outputs", [](Model& m) { m.add(node("ConstantOfShape", {"shape"}, {"", "s"})).output("s"); }, "it has 2 outputs, expected at most 1"},
    {"fold_108_petabytes", [](Model& m) { m.add(int_tensor("big", {2}, {1LL << 28, 1LL << 28})).add(node("ConstantOfShape", {"big"}, {"s"})).output("s"); }, "allowed"},
    {"weight_of_108_petabytes", [](Model& m) { m.add(int_tensor("big", {2}, {64, 1LL << 50})).add(node("ConstantOfShape", {"big"}, {"s"})).add(node("Reshape", {"x", "shape"}, {"f"})).add(node("MatMul", {"f", "s"}, {"q"})).output("q"); }, "allowed"},
    {"expand_beyond_limit", [](Model& m) { m.add(int_tensor("big", {2}, {1LL << 30, 1LL << 30})).add(int_tensor("one", {1}, {1})).add(node("Expand", {"one", "big"}, {"s"})).output("s"); }, "Expand (opset 17)"},
    {"window_overflow", [](Model& m) { m.add(node("MaxPool", {"x"}, {"s"}, {{"kernel_shape", std::vector<std::int64_t>{1LL << 62, 1LL << 62}}, {"pads", std::vector<std::int64_t>{1LL << 62, 1LL << 62, 1LL << 62, 1LL << 62}}})).output("s"); }, "MaxPool"},
};
// clang-format on

class HostileModel : public testing::TestWithParam<Row> {};

TEST_P(HostileModel, IsReported) {
  Model model = small_model();
  GetParam().harm(model);
  const std::string report = model.report();
  if (GetParam().reason.empty()) {
    EXPECT_EQ(report, "");
  } else {
    EXPECT_NE(report.find(GetParam().reason), std::string::npos) << report;
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, HostileModel, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

TEST(Hostile, AStandardOperatorIsNotTakenForASlipOfThePen) {
  Model m = small_model();
  m.add(node("RNN", {"x"}, {"f"})).output("f");  // one edit from LRN
  EXPECT_EQ(m.report().find("did you mean"), std::string::npos) << m.report();
}

TEST(Hostile, DoublingFunctionsStopAtTheLimit) {
  // 60 functions, each calling the next twice: 2^60 nodes.
  Model m;
  m.input("x", "N,2").output("y");
  const int depth = 60;
  for (int i = 0; i < depth; ++i) {
    const std::string next = "F" + std::to_string(i + 1);
    m.add(function("F" + std::to_string(i), {"a"}, {"c"},
                   {node(next, {"a"}, {"b"}, {}, function_domain), node(next, {"b"}, {"c"}, {}, function_domain)}));
  }
  m.add(function("F" + std::to_string(depth), {"a"}, {"b"}, {node("Relu", {"a"}, {"b"})}));
  m.add(node("F0", {"x"}, {"y"}, {}, function_domain));
  EXPECT_NE(m.report().find("once its functions are inlined"), std::string::npos);
}

TEST(Hostile, FunctionsDeeperThan100) {
  Model m;
  m.input("x", "N,2").output("y");
  for (int i = 0; i < 101; ++i)
    m.add(function("F" + std::to_string(i), {"a"}, {"b"}, {node("F" + std::to_string(i + 1), {"a"}, {"b"}, {}, function_domain)}));
  m.add(function("F101", {"a"}, {"b"}, {node("Relu", {"a"}, {"b"})}));
  m.add(node("F0", {"x"}, {"y"}, {}, function_domain));
  EXPECT_NE(m.report().find("deeper than 100"), std::string::npos);
}

TEST(Hostile, AllProblemsAtOnce) {
  Model m = small_model();
  m.input("image", "N,height,width")
      .add(node("Foo", {"x"}, {"f"}))
      .add(node("Bar", {"f"}, {"g"}))
      .add(node("Foo", {"g"}, {"h"}))
      .output("h");
  const std::string report = m.report();
  for (const char* part : {"option dims height=SIZE", "option dims width=SIZE", "nodes 'node_f', 'node_h': ai.onnx::Foo", "ai.onnx::Bar"})
    EXPECT_NE(report.find(part), std::string::npos) << part << " in\n" << report;
  EXPECT_EQ(m.parse().problems({.batch = 0}).size(), 5U);
}

TEST(Hostile, FilesThatAreNone) {
  const TemporaryFolder folder;
  EXPECT_THROW(ModelFile::read(folder / "absent.onnx"), Error);
  EXPECT_THROW(ModelFile::read(folder.path()), Error);
  write_file(folder / "empty.onnx", "");
  EXPECT_THROW(ModelFile::read(folder / "empty.onnx"), Error);
}

// Exporters write these, and none of them leaves open what is meant.
TEST(Hostile, WhatIsSaidTwiceAlikeIsTaken) {
  Model m = small_model();
  for (auto& n : *m.proto.mutable_graph()->mutable_node()) n.set_name("n");
  for (int i = 0; i < 2; ++i) {
    auto& value = *m.proto.mutable_graph()->add_value_info();
    value.set_name("r");
    value.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    auto& entry = *m.proto.add_metadata_props();
    entry.set_key("k");
    entry.set_value("v");
  }
  m.input("b", "4").input("w", "?,3,3,3");  // initializers that are inputs, too
  auto& entry = *m.proto.mutable_graph()->mutable_initializer(0)->add_external_data();  // of data that are not external
  entry.set_key("location");
  EXPECT_EQ(m.report(), "");
}

TEST(Hostile, BrokenBytesAreFound) {
  const std::string whole = small_model().bytes();
  const auto refusal = [](const std::string& bytes) {
    try {
      ModelFile::parse(bytes, {});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  // Wherever it is cut within a field the part and a byte are named, and only there it may be whole.
  int named = 0;
  for (std::size_t n = 3; n < whole.size(); ++n) {
    const std::string what = refusal(whole.substr(0, n));
    named += what.find("(at byte ") != std::string::npos;
    EXPECT_TRUE(what.empty() || what.find("(at byte ") != std::string::npos || what.find("it has no graph") != std::string::npos ||
                what.find("opset") != std::string::npos)
        << n << ": " << what;
  }
  EXPECT_GT(named, static_cast<int>(whole.size()) - 30);
  const std::size_t weight = small_model().proto.graph().initializer(0).raw_data().size();
  ASSERT_GT(weight, 100u);
  EXPECT_NE(refusal(whole.substr(0, whole.size() / 2)).find("graph.initializer[0].field 9 (at byte "), std::string::npos)
      << refusal(whole.substr(0, whole.size() / 2));
  const struct {
    const char* bytes;
    const char* kind;
  } kinds[] = {{"\x89PNG\r\n\x1a\n....", "a PNG image"},
               {"\xff\xd8\xff\xe0", "a JPEG image"},
               {"\x1f\x8b\x08", "a gzip file"},
               {"PK\x03\x04", "a zip archive"},
               {"\x80\x04\x95.", "a Python pickle"},
               {"{\"a\": 1}", "a JSON file"},
               {"\n<!DOCTYPE html>", "an HTML page"},
               {"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"},
               {"hello", "text"}};
  for (const auto& [bytes, kind] : kinds)
    EXPECT_NE(refusal(bytes).find(concat("expected an ONNX model, it is ", kind)), std::string::npos) << kind << ": " << refusal(bytes);
}

}  // namespace
}  // namespace tandem::test
