// What the exporter's optimizer did to parameters: fused, left out, computed, kept once for several, written twice. Each is told, or
// mended, by its notes alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/importer/exporter_notes.h"

namespace tandem::test {
namespace {

onnx::TensorProto tensor(const std::string& name, const std::vector<std::int64_t>& dims, unsigned seed = 7) {
  std::size_t n = 1;
  for (const std::int64_t d : dims) n *= static_cast<std::size_t>(d);
  return float_tensor(name, dims, arbitrary(n, seed));
}

void parameter(Model& m, const onnx::TensorProto& t, const std::string& call) {
  m.add(t);
  state_kind(m, t.name(), "PARAMETER", call);
}

const std::string norm = "_native_batch_norm_legit_no_training.default";

// A layer with a normalization behind it, of which the file has what `op` computes; `of`: what the layer's node says that it comes from.
void layer(Model& m, const std::string& op, const std::vector<std::int64_t>& filter, const std::string& target, const std::string& operands,
           bool noted) {
  m.output("y").add(tensor("0.weight", filter)).add(tensor("0.bias", {4}, 9));
  if (noted) {
    state_kind(m, "0.weight", "PARAMETER", "p_0_weight");
    state_kind(m, "0.bias", "PARAMETER", "p_0_bias");
  }
  m.add(of_call(node(op, {"x", "0.weight", "0.bias"}, {"h"}), target, operands)).add(node("Mul", {"h", "2.scale"}, {"y"}));
  parameter(m, float_tensor("2.scale", {1}, {0.3F}), "p_2_scale");
  sign(m,
       "p_0_weight: PARAMETER target='0.weight'\np_0_bias: PARAMETER target='0.bias'\np_block_1_weight: PARAMETER "
       "target='block.1.weight'\np_block_1_bias: PARAMETER "
       "target='block.1.bias'\np_2_scale: PARAMETER target='2.scale'\nb_block_1_running_mean: BUFFER target='block.1.running_mean' "
       "persistent=True\nb_block_1_running_var: BUFFER "
       "target='block.1.running_var' persistent=True\nx: USER_INPUT\n");
}

// m.w of a module with the parameters p and, perhaps, others.
void product(Model& m, const onnx::TensorProto& w, const std::string& operands, const std::string& others = "",
             const std::string& from = "") {
  m.input("x", "N,8").output("y").add(of_call(node("Mul", {"x", "p"}, {"h"}), "mul.Tensor", "%x, %p_p")).add(w);
  parameter(m, tensor("p", {8}, 3), "p_p");
  m.add(of_call(node("Mul", {"h", w.name()}, {"y"}), "mul.Tensor", "%h, " + operands));
  if (!from.empty()) state_computed(m, w.name(), from);
  sign(m, "p_p: PARAMETER target='p'\n" + others);
}

const std::string of_q = "p_q: PARAMETER target='q'\n";

// A parameter that the call of the node that reads it turned before.
void experts(Model& m, const std::string& target, const std::string& operands, const std::string& from = "['q']") {
  product(m, tensor("val_9", {8}), "%x", of_q, from);
  auto& notes = *m.proto.mutable_graph()->mutable_node(1)->mutable_metadata_props();
  notes.Clear();
  add_note(notes, "pkg.torch.onnx.fx_node",
           "%y : [num_users=1] = call_function[target=torch.ops.aten." + target + "](args = (" + operands + "), kwargs = {})");
}

struct Row {
  std::string name;
  std::function<void(Model&)> build;
  std::string warning;  // the beginning of a warning that names optimize=False; empty: there is none
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const std::string added = "the exporter added a number to parameters, and wrote the sums alone: ";
const std::string fused = "the exporter fused batch normalizations into the layers before them: 'block.1'",
                  left_out = "the exporter left out parameters that the module has, as it does with biases of zeros: ";

const Row rows[] = {
    {"normalization_in_conv",
     [](Model& m) {
       layer(m.input("x", "N,3,6,6"), "Conv", {4, 3, 3, 3}, norm,
             "%conv2d, %p_block_1_weight, %p_block_1_bias, %b_block_1_running_mean, %b_block_1_running_var, 0.1, 1e-05", false);
     },
     fused},
    {"normalization_in_transposed_conv",
     [](Model& m) {
       layer(m.input("x", "N,3,6,6"), "ConvTranspose", {3, 4, 3, 3}, norm,
             "%convolution, %p_block_1_weight, %p_block_1_bias, %b_block_1_running_mean, %b_block_1_running_var, 0.1, 1e-05", false);
     },
     fused},
    {"normalization_in_gemm",
     [](Model& m) {
       layer(m.input("x", "N,6"), "Gemm", {6, 4}, norm,
             "%linear, %p_block_1_weight, %p_block_1_bias, %b_block_1_running_mean, %b_block_1_running_var, 0.1, 1e-05", false);
     },
     fused},
    {"normalization_without_parameters",
     [](Model& m) {
       layer(m.input("x", "N,6"), "Gemm", {6, 4}, norm, "%linear, None, None, %b_block_1_running_mean, %b_block_1_running_var, 0.1, 1e-05",
             false);
     },
     fused},
    {"a_layer_as_it_is",
     [](Model& m) {
       layer(m.input("x", "N,6"), "Gemm", {6, 4}, "addmm.default", "%p_0_bias, %x, %p_0_weight", true);
     },
     ""},
    {"a_normalization_as_it_is",
     [](Model& m) {
       m.input("x", "N,4").output("y");
       for (const char* of : {"weight", "bias"}) parameter(m, tensor(std::string("1.") + of, {4}), std::string("p_1_") + of);
       m.add(tensor("1.running_mean", {4}, 5)).add(filled_tensor("1.running_var", {4}, 1.5F));
       for (const char* of : {"running_mean", "running_var"}) state_kind(m, std::string("1.") + of, "BUFFER", std::string("b_1_") + of);
       m.add(of_call(node("BatchNormalization", {"x", "1.weight", "1.bias", "1.running_mean", "1.running_var"}, {"y"}), norm,
                     "%x, %p_1_weight, %p_1_bias, %b_1_running_mean, %b_1_running_var, 0.1, 1e-05"));
       sign(m,
            "p_1_weight: PARAMETER target='1.weight'\np_1_bias: PARAMETER target='1.bias'\nb_1_running_mean: BUFFER "
            "target='1.running_mean'\nb_1_running_var: BUFFER target='1.running_var'\n");
     },
     ""},
    {"bias_of_zeros",
     [](Model& m) {
       m.input("x", "N,8").output("y");
       parameter(m, tensor("fc.weight", {8, 4}), "p_fc_weight");
       m.add(of_call(node("Gemm", {"x", "fc.weight"}, {"y"}), "linear.default", "%x, %p_fc_weight, %p_fc_bias"));
       sign(m, "p_fc_weight: PARAMETER target='fc.weight'\np_fc_bias: PARAMETER target='fc.bias'\n");
     },
     left_out + "'fc.bias'; they are not trained"},
    {"a_parameter_in_an_unnamed_tensor", [](Model& m) { product(m, tensor("val_3", {8}), "%p_q", of_q); }, ""},
    {"a_parameter_that_the_module_does_not_use",
     [](Model& m) { product(m, tensor("q", {8}), "%p_q", of_q + "p_r: PARAMETER target='r'\n"); }, ""},
    {"adding_zero",
     [](Model& m) {
       m.input("x", "N,8").output("y");
       parameter(m, tensor("p", {8}), "p_p");
       m.add(of_call(node("Mul", {"x", "p"}, {"y"}), "mul.Tensor", "%add, %p_p"));
       sign(m, "p_p: PARAMETER target='p'\np_q: PARAMETER target='q'\np_fc_bias: PARAMETER target='fc.bias'\n");
     },
     "the model's parameters 'q' stand nowhere in the file: it does not use them, or its exporter left out what adds 0 or multiplies by 1"},
    // What was computed
    {"all_folded",
     [](Model& m) {
       m.input("x", "N,4")
           .output("y")
           .add(tensor("softmax", {4, 3}))
           .add(of_call(node("MatMul", {"x", "softmax"}, {"y"}), "matmul.default", "%x, %softmax"));
       state_computed(m, "softmax", "['w']");
       sign(m, "p_w: PARAMETER target='w'\n");
     },
     "the exporter computed 'softmax' from 'w'"},
    {"a_view",
     [](Model& m) {
       product(m, tensor("view", {1, 8}), "%view", of_q, "['q', 'val_1']");
     },
     ""},
    {"a_part", [](Model& m) { product(m, tensor("select_3", {8}), "%select_3", of_q, "['q', 'val_1', 'slice_2']"); }, ""},
    {"several_joined", [](Model& m) { product(m, tensor("cat", {8}), "%cat", of_q + "p_r: PARAMETER target='r'\n", "['q', 'r']"); }, ""},
    {"a_view_within_the_call",
     [](Model& m) {
       product(m, filled_tensor("val_9", {1, 8}, 1), "%p_q", of_q, "['q', 'val_1', 'val_2']");
     },
     ""},
    {"joined_with_what_is_detached", [](Model& m) { product(m, tensor("cat", {8}), "%cat", of_q, "['detach', 'q', 'slice_1']"); },
     "the exporter computed 'cat' from 'q'"},
    {"picked", [](Model& m) { product(m, tensor("index", {8}), "%index", of_q, "['arange', 'add', 'q']"); }, ""},
    {"a_product", [](Model& m) { product(m, tensor("mul_2", {8}), "%mul_2", of_q, "['q', 'val_1']"); },
     "the exporter computed 'mul_2' from 'q'"},
    {"a_view_of_a_product", [](Model& m) { product(m, tensor("view", {8}), "%view", of_q, "['mul', 'q', 'val_1']"); },
     "the exporter computed 'view' from 'q'"},
    {"a_function_before_it_is_picked", [](Model& m) { product(m, tensor("index", {8}), "%index", of_q, "['arange', 'exp', 'q']"); },
     "the exporter computed 'index' from 'q'"},
    {"a_number_repeated", [](Model& m) { product(m, filled_tensor("expand", {8}, 0.7F), "%expand", of_q, "['q', 'val_1']"); },
     "the exporter computed 'expand' from 'q'"},
    {"turned_for_a_lookup", [](Model& m) { experts(m, "index.Tensor", "%p_q, [%i]"); }, ""},
    {"widened_for_a_stack", [](Model& m) { experts(m, "stack.default", "[%i, %p_q]"); }, ""},
    {"masked_for_a_diagonal", [](Model& m) { experts(m, "diagonal.default", "%p_q"); }, "the exporter computed 'val_9' from 'q'"},
    {"scaled_for_attention", [](Model& m) { experts(m, "scaled_dot_product_attention.default", "%i, %p_q, %p_q"); },
     "the exporter computed 'val_9' from 'q'"},
    {"a_formula_before_a_lookup", [](Model& m) { experts(m, "index.Tensor", "%exp, [%i]", "['exp', 'q']"); },
     "the exporter computed 'val_9' from 'q'"},
    {"a_number_added", [](Model& m) { product(m, tensor("add_2", {8}), "%add_2", of_q, "['q', 'val_1']"); }, added + "'add_2' from 'q': "},
    {"a_number_less_it", [](Model& m) { product(m, tensor("rsub", {8}), "%rsub", of_q, "['q', 'val_1']"); }, added + "'rsub' from 'q': "},
    {"a_view_of_a_number_added", [](Model& m) { product(m, tensor("permute", {8}), "%permute", of_q, "['add', 'q', 'val_1']"); },
     added + "'permute' from 'q': "},
    {"a_multiple_added", [](Model& m) { product(m, tensor("add_2", {8}), "%add_2", of_q, "['q', 'val_1', 'val_2', 'val_3']"); },
     "the exporter computed 'add_2' from 'q'"},
    {"a_product_added", [](Model& m) { product(m, tensor("add_2", {8}), "%add_2", of_q, "['mul', 'q', 'val_1']"); },
     "the exporter computed 'add_2' from 'q'"},
    {"a_matrix_added", [](Model& m) { product(m, tensor("add_2", {8}), "%add_2", of_q, "['eye', 'q', 'val_1']"); },
     "the exporter computed 'add_2' from 'q'"},
    {"two_added", [](Model& m) { product(m, tensor("add_2", {8}), "%add_2", of_q + "p_r: PARAMETER target='r'\n", "['q', 'r', 'val_1']"); },
     "the exporter computed 'add_2' from 'q', 'r'"},
    {"parts_that_overlap",
     [](Model& m) {
       product(m, float_tensor("slice_1", {8}, {1, 2, 3, 4, 5, 6, 7, 9.5F}), "%slice_1", of_q, "['q', 'val_1']");
       m.output("z")
           .add(float_tensor("slice_2", {8}, {6, 7, 9.5F, 10, 11, 12, 13.5F, 14}))
           .add(of_call(node("Mul", {"y", "slice_2"}, {"z"}), "mul.Tensor", "%y, %slice_2"));
       state_computed(m, "slice_2", "['q', 'val_2']");
     },
     "'slice_1' and 'slice_2' hold parts of 'q' that overlap"},
    {"a_part_that_may_be_any",
     [](Model& m) {
       product(m, float_tensor("slice_1", {2}, {0, 0}), "%slice_1", of_q, "['q', 'val_1']");
       *m.proto.mutable_graph()->mutable_node(1)->mutable_input(0) = "k";
       m.add(int_tensor("two", {1}, {2}))
           .add(int_tensor("zero", {1}, {0}))
           .add(int_tensor("one", {1}, {1}))
           .add(node("Slice", {"h", "zero", "two", "one"}, {"k"}))
           .output("z");
       parameter(m, filled_tensor("q", {8}, 0), "p_q");
       m.add(of_call(node("Add", {"h", "q"}, {"z"}), "add.Tensor", "%h, %p_q"));
     },
     "the exporter computed 'slice_1' from 'q'"},
};

bool tells(const Graph& graph, const std::string& begin) {
  return std::any_of(graph.warnings.begin(), graph.warnings.end(), [&](const std::string& s) {
    return s.starts_with(begin) && s.ends_with("torch.onnx.export(..., optimize=False) keeps parameters and formulas");
  });
}

class LostParameters : public testing::TestWithParam<Row> {};

TEST_P(LostParameters, AreTold) {
  Model m;
  GetParam().build(m);
  const Graph graph = m.graph(2);
  if (GetParam().warning.empty())
    EXPECT_FALSE(std::any_of(graph.warnings.begin(), graph.warnings.end(), [](const std::string& s) {
      return s.find("optimize=False") != s.npos;
    })) << testing::PrintToString(graph.warnings);
  else
    EXPECT_TRUE(tells(graph, GetParam().warning)) << testing::PrintToString(graph.warnings);
}
INSTANTIATE_TEST_SUITE_P(Rows, LostParameters, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

// Products of x [N,8] with p [8], and with `copy`, which `make` makes of p's values.
struct Copy {
  const char* name;
  std::vector<std::int64_t> dims, places;  // places in p of each value
};

TEST(CopiesOfParameters, FollowWhateverTheirShape) {
  const std::vector<float> p = arbitrary(16);
  const std::vector<Copy> copies = {{"view", {2, 8}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
                                    {"unsqueeze", {1, 16}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
                                    {"slice_1", {3}, {4, 5, 6}},
                                    {"select", {}, {9}},
                                    {"flip", {4}, {3, 2, 1, 0}},
                                    {"expand", {2, 2}, {5, 6, 5, 6}},
                                    {"permute", {2, 4}, {0, 4, 8, 12, 1, 5, 9, 13}}};
  for (const Copy& c : copies) {
    SCOPED_TRACE(c.name);
    std::vector<float> values;
    for (const std::int64_t at : c.places) values.push_back(p[static_cast<std::size_t>(at)]);
    Model m;
    m.input("x", "N,16").output("y").output("z").add(float_tensor(c.name, c.dims, values));
    parameter(m, float_tensor("p", {16}, p), "p_p");
    m.add(of_call(node("Mul", {"x", "p"}, {"y"}), "mul.Tensor", "%x, %p_p")).add(node("ReduceSum", {"y"}, {"s"}));
    m.add(of_call(node("Mul", {"s", c.name}, {"z"}), "mul.Tensor", "%s, %" + std::string(c.name)));
    state_computed(m, c.name, "['p', 'val_1']");
    sign(m, "p_p: PARAMETER target='p'\n");
    const ModelFile file = m.parse();
    const Graph graph = file.graph({.batch = 1});
    EXPECT_EQ(names_of(graph, ValueKind::parameter), Names{"p"});
    const ValueId copy = *graph.find(c.name);
    EXPECT_EQ(graph[copy].kind, ValueKind::activation);
    EXPECT_EQ(graph[copy].type.shape, Shape(c.dims));
    EXPECT_FALSE(std::any_of(graph.warnings.begin(), graph.warnings.end(), [](const std::string& s) {
      return s.find("optimize=False") != s.npos;
    })) << testing::PrintToString(graph.warnings);
    std::vector<float> now(16);
    for (std::size_t i = 0; i < now.size(); ++i) now[i] = static_cast<float>(i);
    const TemporaryFolder folder;
    file.write(folder / "out.onnx", {{"p", Tensor::of<float>(Shape{16}, now)}});
    const Graph written = ModelFile::read(folder / "out.onnx", {.constant = {c.name}}).graph({.batch = 1});
    EXPECT_EQ(written[*written.find(c.name)].data->to_doubles(), std::vector<double>(c.places.begin(), c.places.end()));
  }
}

// Three layers: the first two read 0.weight, of which the second is another parameter by its call; the third is the second once more.
Model layers(const std::string& second, bool signature, bool computed = false) {
  Model m;
  const std::string w = computed ? "val_2" : "0.weight";
  m.input("x", "N,4")
      .output("y")
      .add(tensor(w, {4, 4}))
      .add(tensor("own", {4}, 5))
      .add(of_call(node("Mul", {"x", "own"}, {"g"}), "mul.Tensor", "%x, %p_own"));
  if (computed) state_computed(m, w, "['0.weight']");
  else state_kind(m, w, "PARAMETER", "p_0_weight");
  state_kind(m, "own", "PARAMETER", "p_own");
  m.add(of_call(node("MatMul", {"g", w}, {"h"}), "linear.default", "%g, %p_0_weight")).add(node("Relu", {"h"}, {"r"}));
  m.add(of_call(node("MatMul", {"r", w}, {"k"}), "linear.default", "%r, %" + second))
      .add(of_call(node("MatMul", {"k", w}, {"y"}), "linear.default", "%k, %" + second));
  if (signature)
    sign(m, "p_0_weight: PARAMETER target='0.weight'\np_own: PARAMETER target='own'\np_2_weight: PARAMETER target='2.weight'\n");
  return m;
}

TEST(MergedByCalls, EachParameterTrainsItsOwn) {
  for (const bool computed : {false, true}) {
    SCOPED_TRACE(computed);
    const ModelFile file = layers("p_2_weight", true, computed).parse();
    const Graph graph = file.graph({.batch = 2});
    const Names wanted = computed ? Names{"val_2", "own", "val_2@2"} : Names{"0.weight", "own", "2.weight"};
    EXPECT_EQ(names_of(graph, ValueKind::parameter), wanted);
    EXPECT_TRUE(std::any_of(graph.warnings.begin(), graph.warnings.end(), [](const std::string& s) {
      return s.starts_with("the exporter kept one of several parameters that are equal");
    })) << testing::PrintToString(graph.warnings);
    EXPECT_FALSE(std::any_of(graph.warnings.begin(), graph.warnings.end(), [](const std::string& s) {
      return s.starts_with("equal values");
    })) << testing::PrintToString(graph.warnings);
    const TemporaryFolder folder;
    file.write(folder / "out.onnx", {{wanted[2], Tensor::of<float>(Shape{4, 4}, std::vector<float>(16, 3.0F))}});
    const Graph again = ModelFile::read(folder / "out.onnx").graph({.batch = 2});
    EXPECT_EQ(names_of(again, ValueKind::parameter), wanted);
    EXPECT_FALSE(std::any_of(again.warnings.begin(), again.warnings.end(), [](const std::string& s) {
      return s.starts_with("the exporter kept one");
    })) << testing::PrintToString(again.warnings);
    EXPECT_EQ(again[*again.find(wanted[2])].data->to_doubles()[0], 3);
  }
}

TEST(MergedByCalls, WhatTheModuleSharesStaysOneInSilence) {
  const Graph graph = layers("p_0_weight", true).graph(2);
  EXPECT_EQ(names_of(graph, ValueKind::parameter), (Names{"0.weight", "own"}));
  EXPECT_TRUE(graph.warnings.empty()) << testing::PrintToString(graph.warnings);
}

TEST(MergedByCalls, UntieNoneTrainsThemAsOne) {
  const Graph graph = ModelFile::parse(layers("p_2_weight", true).bytes(), {}, {.untie = {"none"}}).graph({.batch = 2});
  EXPECT_EQ(names_of(graph, ValueKind::parameter), (Names{"0.weight", "own"}));
}

// A normalization that is used twice, with scales and biases as they were at first: the calls say that it is one; without them it is taken
// for two.
TEST(MergedByCalls, AlikeOfOneModuleStayOne) {
  for (const bool signature : {true, false}) {
    Model m;
    m.input("x", "N,4").output("y").add(filled_tensor("n.weight", {4}, 1)).add(filled_tensor("n.bias", {4}, 0)).add(tensor("p", {4}));
    for (const char* of : {"weight", "bias"}) state_kind(m, std::string("n.") + of, "PARAMETER", std::string("p_n_") + of);
    state_kind(m, "p", "PARAMETER", "p_p");
    const std::string operands = ", [4], %p_n_weight, %p_n_bias, 1e-05, False";
    m.add(of_call(node("LayerNormalization", {"x", "n.weight", "n.bias"}, {"a"}), "layer_norm.default", "%x" + operands))
        .add(of_call(node("Mul", {"a", "p"}, {"b"}), "mul.Tensor", "%a, %p_p"));
    m.add(of_call(node("LayerNormalization", {"b", "n.weight", "n.bias"}, {"y"}), "layer_norm.default", "%b" + operands));
    if (signature)
      sign(m,
           "p_n_weight: PARAMETER target='n.weight'\np_n_bias: PARAMETER target='n.bias'\np_p: PARAMETER target='p'\np_again_weight: "
           "PARAMETER target='again.weight'\n");
    const Graph graph = m.graph(2);
    EXPECT_EQ(names_of(graph, ValueKind::parameter).size(), signature ? 3U : 5U);
    EXPECT_EQ(graph.warnings.empty(), signature) << testing::PrintToString(graph.warnings);
  }
}

// Two normalizations of an untrained model whose running variances are equal, and kept once.
TEST(MergedByCalls, StatisticsAreToldApart) {
  Model m;
  m.input("x", "N,4").output("y").add(filled_tensor("1.running_var", {4}, 1));
  sign(m,
       "p_1_weight: PARAMETER target='1.weight'\np_2_weight: PARAMETER target='2.weight'\np_1_bias: PARAMETER target='1.bias'\np_2_bias: "
       "PARAMETER target='2.bias'\nb_1_running_mean: BUFFER "
       "target='1.running_mean'\nb_2_running_mean: BUFFER target='2.running_mean'\nb_1_running_var: BUFFER "
       "target='1.running_var'\nb_2_running_var: BUFFER target='2.running_var'\n");
  state_kind(m, "1.running_var", "BUFFER", "b_1_running_var");
  for (const std::string k : {"1", "2"}) {
    for (const std::string of : {"weight", "bias"})
      parameter(m, tensor(k + "." + of, {4}, 3 + static_cast<unsigned>(k[0]) + static_cast<unsigned>(of[0])), "p_" + k + "_" + of);
    m.add(tensor(k + ".running_mean", {4}, static_cast<unsigned>(k[0])));
    state_kind(m, k + ".running_mean", "BUFFER", "b_" + k + "_running_mean");
    m.add(of_call(node("BatchNormalization", {k == "1" ? "x" : "h1", k + ".weight", k + ".bias", k + ".running_mean", "1.running_var"},
                       {k == "1" ? "h1" : "y"}),
                  norm, "%h, %p_" + k + "_weight, %p_" + k + "_bias, %b_" + k + "_running_mean, %b_" + k + "_running_var, 0.1, 1e-05"));
  }
  const Graph graph = m.graph(2);
  EXPECT_TRUE(graph.find("2.running_var")) << testing::PrintToString(graph.warnings);
}

// A fresh normalization that is not fused: its bias and its mean are zeros, its scale and its variance ones, and the exporter keeps one of
// each.
TEST(MergedByCalls, StatisticsThatEqualScaleAndBias) {
  Model m;
  m.input("x", "N,4").output("y").add(filled_tensor("1.weight", {4}, 1)).add(filled_tensor("1.bias", {4}, 0));
  for (const std::string of : {"weight", "bias"}) state_kind(m, "1." + of, "PARAMETER", "p_1_" + of);
  m.add(of_call(node("BatchNormalization", {"x", "1.weight", "1.bias", "1.bias", "1.weight"}, {"y"}), norm,
                "%x, %p_1_weight, %p_1_bias, %b_1_running_mean, %b_1_running_var, 0.1, 1e-05"));
  sign(m,
       "p_1_weight: PARAMETER target='1.weight'\np_1_bias: PARAMETER target='1.bias'\nb_1_running_mean: BUFFER "
       "target='1.running_mean'\nb_1_running_var: BUFFER target='1.running_var'\n");
  const ModelFile file = m.parse();
  const auto holding = [&](const std::string& name) {
    return std::find_if(file.tensors().begin(), file.tensors().end(), [&](const TemplateTensor& t) { return t.name == name; })->holding;
  };
  EXPECT_EQ(holding("1.weight"), Holding::trained);
  ASSERT_EQ(file.tensors().size(), 4U);
  const std::string mean = file.tensors()[2].name, variance = file.tensors()[3].name;
  EXPECT_EQ(holding(mean), Holding::statistic);
  EXPECT_EQ(holding(variance), Holding::statistic);
  const Graph graph = file.graph({.batch = 2});
  for (const char* name : {"1.running_mean", "1.running_var"}) EXPECT_TRUE(graph.find(name)) << name;
  EXPECT_FALSE(std::any_of(graph.warnings.begin(), graph.warnings.end(), [](const std::string& s) {
    return s.find("optimize=False") != s.npos;
  })) << testing::PrintToString(graph.warnings);
}

}  // namespace
}  // namespace tandem::test
