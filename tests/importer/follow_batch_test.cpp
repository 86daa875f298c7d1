// How the samples of a batch are followed through a graph: readings of Reshapes, operands that are repeated, what is refused.
#include "importer/batch/follow_batch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

using List = std::vector<std::int64_t>;

void reshape(Model& m, const std::string& from, const std::string& to, const List& shape) {
  m.add(int_tensor(to + ".shape", {static_cast<std::int64_t>(shape.size())}, shape)).add(node("Reshape", {from, to + ".shape"}, {to}));
}
void transpose(Model& m, const std::string& from, const std::string& to, const List& perm) {
  m.add(node("Transpose", {from}, {to}, {{"perm", perm}}));
}

// PyTorch's attention for a fixed batch: sequences of 5 first, 2 heads of 4 beside the batch, one matrix of all rows behind.
void attention(Model& m, std::int64_t batch) {
  transpose(m, "x", "first", {1, 0, 2});
  for (const std::string part : {"q", "k", "v"}) {
    m.add(filled_tensor("w." + part, {8, 8})).add(node("MatMul", {"first", "w." + part}, {"p." + part}));
    reshape(m, "p." + part, "h." + part, {5, batch * 2, 4});
    transpose(m, "h." + part, part, {1, 0, 2});
  }
  transpose(m, "k", "kt", {0, 2, 1});
  m.add(node("MatMul", {"q", "kt"}, {"scores"})).add(node("Softmax", {"scores"}, {"weights"}, {{"axis", std::int64_t{-1}}}));
  m.add(node("MatMul", {"weights", "v"}, {"heads"}));
  transpose(m, "heads", "back", {1, 0, 2});
  reshape(m, "back", "rows", {5 * batch, 8});
  m.add(filled_tensor("w.out", {8, 8})).add(node("Gemm", {"rows", "w.out"}, {"out"}));
  reshape(m, "out", "sequence", {5, batch, 8});
  transpose(m, "sequence", "y", {1, 0, 2});
}

// arange(N) as exporters write it: "n"; and "last", an axis.
void arange(Model& m, const std::string& x) {
  m.add(node("Shape", {x}, {"shape"}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}})).add(node("Squeeze", {"shape"}, {"count"}));
  m.add(int_tensor("zero", {}, {0}))
      .add(int_tensor("step", {}, {1}))
      .add(node("Range", {"zero", "count", "step"}, {"n"}))
      .add(int_tensor("last", {1}, {-1}));
}

// The places "t" [k,axes] that a mask over x, or over its samples, picks: of ones, as PyTorch's exporter finds that out.
void places_of_ones(Model& m, bool samples) {
  m.add(int_tensor("one", {1}, {1}))
      .add(node("Shape", {"x"}, {"shape"}, samples ? AttributeList{{"end", std::int64_t{1}}} : AttributeList{}));
  m.add(node("Expand", {"one", "shape"}, {"ones"})).add(node("NonZero", {"ones"}, {"places"}));
  transpose(m, "places", "t", {1, 0});
}

// All samples' rows "f" [N·3,2], and the place "i" [N] of one of each sample's.
void rows_of_each(Model& m) {
  arange(m, "x");
  m.add(node("ArgMax", {"x"}, {"a"}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}}))
      .add(node("Gather", {"a", "zero"}, {"i"}, {{"axis", std::int64_t{1}}}));
  reshape(m, "x", "f", {-1, 2});
}

// The tuples (batch, key) [N,1,1,3,2] by which PyTorch's exporter reads a padding mask [N,3].
void mask_of(Model& m) {
  arange(m, "x");
  m.add(int_tensor("axes", {3}, {1, 2, 3}))
      .add(node("Unsqueeze", {"n", "axes"}, {"batch"}))
      .add(int_tensor("keys", {1, 1, 1, 3}, {0, 1, 2}));
  m.add(node("Max", {"batch", "keys"}, {"most"})).add(node("Shape", {"most"}, {"to"}));
  for (const std::string part : {"batch", "keys"})
    m.add(node("Expand", {part, "to"}, {"e." + part})).add(node("Unsqueeze", {"e." + part, "last"}, {"u." + part}));
  m.add(node("Concat", {"u.batch", "u.keys"}, {"t"}, {{"axis", std::int64_t{-1}}}));
}

// A GRU of two units for three features, and perhaps its first state.
void recurrence(Model& m, const std::string& from, AttributeList attributes, const std::string& state = "", const std::string& to = "y") {
  attributes.push_back({"hidden_size", std::int64_t{2}});
  m.add(filled_tensor("W", {1, 6, 3}))
      .add(filled_tensor("R", {1, 6, 2}))
      .add(node("GRU", {from, "W", "R", "", "", state}, {to}, attributes));
}

// Images x [batch,2,4,4], each convolved by filters made from itself: samples are groups of channels.
void own_filters(Model& m, std::int64_t batch, const std::string& op = "Conv") {
  m.add(node("GlobalAveragePool", {"x"}, {"p"}));
  reshape(m, "p", "q", {batch, 2});
  m.add(filled_tensor("w", {2, 3 * 2 * 9})).add(node("MatMul", {"q", "w"}, {"f"}));
  reshape(m, "f", "filters", op == "Conv" ? List{batch * 3, 2, 3, 3} : List{batch * 2, 3, 3, 3});
  reshape(m, "x", "channels", {1, batch * 2, 4, 4});
  m.add(node(op, {"channels", "filters"}, {"c"}, {{"group", batch}, {"kernel_shape", List{3, 3}}, {"pads", List{1, 1, 1, 1}}}));
  reshape(m, "c", "y", {batch, 3, 4, 4});
}

struct Row {
  std::string name;
  std::string input;  // dims of x
  std::function<void(Model&)> build;
  std::string value, shape;  // a value and its shape for 4 samples; or, without a value, what the report says
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

// r = Relu of x, and of x behind it
void pair_of(Model& m) {
  m.add(node("Concat", {"x", "x"}, {"t"}, {{"axis", std::int64_t{0}}})).add(node("Relu", {"t"}, {"r"}));
}

std::function<void(Model&)> one(const std::string& op, const AttributeList& attributes) {
  return [=](Model& m) { m.add(node(op, {"x"}, {"y"}, attributes)); };
}

// clang-format off
const Row rows[] = {
    {"attention_for_one_sample", "1,5,8", [](Model& m) { attention(m, 1); }, "weights", "[8,5,5]"},
    {"attention_for_two_samples", "2,5,8", [](Model& m) { attention(m, 2); }, "weights", "[8,5,5]"},
    {"rows_of_attention_for_one_sample", "1,5,8", [](Model& m) { attention(m, 1); }, "rows", "[20,8]"},
    {"rows_of_attention_for_two_samples", "2,5,8", [](Model& m) { attention(m, 2); }, "rows", "[20,8]"},
    {"sequence_first_symbolic", "N,5,8", [](Model& m) { transpose(m, "x", "t", {1, 0, 2}); reshape(m, "t", "r", {-1, 8}); m.add(node("Relu", {"r"}, {"y"})); }, "r", "[20,8]"},
    {"columns_where_rows_would_meet", "1,5,8", [](Model& m) { transpose(m, "x", "t", {1, 0, 2}); reshape(m, "t", "r", {5, 8}); m.add(node("Softmax", {"r"}, {"y"}, {{"axis", std::int64_t{0}}})); }, "r", "[5,32]"},
    {"token_of_one", "1,3,2", [](Model& m) { m.add(float_tensor("c", {1, 1, 2}, {1, 2})).add(node("Concat", {"c", "x"}, {"y"}, {{"axis", std::int64_t{1}}})); }, "y", "[4,4,2]"},
    {"token_of_two", "2,3,2", [](Model& m) { m.add(float_tensor("c", {2, 1, 2}, {1, 2, 1, 2})).add(node("Concat", {"c", "x"}, {"y"}, {{"axis", std::int64_t{1}}})); }, "y", "[4,4,2]"},
    {"token_of_one_symbolic", "N,3,2", [](Model& m) { m.add(float_tensor("c", {1, 1, 2}, {1, 2})).add(node("Concat", {"c", "x"}, {"y"}, {{"axis", std::int64_t{1}}})); }, "y", "[4,4,2]"},
    {"token_of_two_symbolic", "N,3,2", [](Model& m) { m.add(float_tensor("c", {2, 1, 2}, {1, 2, 1, 2})).add(node("Concat", {"c", "x"}, {"y"}, {{"axis", std::int64_t{1}}})); }, "y", "[4,4,2]"},
    {"state_through_a_weight", "2,3", [](Model& m) { m.add(filled_tensor("h", {2, 3}, 0)).add(float_tensor("u", {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})).add(node("MatMul", {"h", "u"}, {"hu"})).add(node("Add", {"x", "hu"}, {"y"})); }, "hu", "[4,3]"},
    {"state_through_a_weight_plus_the_input", "2,3", [](Model& m) { m.add(filled_tensor("h", {2, 3}, 0)).add(float_tensor("u", {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})).add(node("Gemm", {"h", "u", "x"}, {"y"})); }, "y", "[4,3]"},
    {"states_of_columns_plus_the_input", "3,2", [](Model& m) { m.add(filled_tensor("h", {4, 3}, 0)).add(filled_tensor("u", {2, 4}, 1)).add(node("Transpose", {"x"}, {"t"})).add(node("Gemm", {"u", "h", "t"}, {"z"})).add(node("Transpose", {"z"}, {"y"})); }, "y", "[4,2]"},
    {"masks_of_windows_through_a_weight", "2,6", [](Model& m) { reshape(m, "x", "w", {4, 3}); m.add(float_tensor("mask", {4, 1}, {0, -1e5F, 0, -1e5F})).add(float_tensor("bias", {1, 3}, {1, 2, 3})).add(node("Add", {"bias", "mask"}, {"b"})).add(node("Add", {"w", "b"}, {"s"})); reshape(m, "s", "y", {2, 6}); }, "b", "[8,3]"},
    {"masks_of_windows_in_a_weight", "2,6", [](Model& m) { reshape(m, "x", "w", {4, 3}); m.add(float_tensor("b", {4, 1}, {1, 2, 1, 2})).add(node("Add", {"w", "b"}, {"s"})); reshape(m, "s", "y", {2, 6}); }, "s", "[8,3]"},
    {"masks_of_windows_that_differ", "2,6", [](Model& m) { reshape(m, "x", "w", {4, 3}); m.add(float_tensor("mask", {4, 1}, {0, -1e5F, -1e5F, -1e5F})).add(float_tensor("bias", {1, 3}, {1, 2, 3})).add(node("Add", {"bias", "mask"}, {"b"})).add(node("Add", {"w", "b"}, {"s"})); reshape(m, "s", "y", {2, 6}); }, "", "may be different for each of the file's 2 samples"},
    {"state_expanded", "2,3", [](Model& m) { m.add(filled_tensor("h", {1, 3}, 1)).add(int_tensor("s", {2}, {2, 3})).add(node("Mul", {"h", "x"}, {"hx"})).add(node("Relu", {"h"}, {"r"})).add(node("Expand", {"r", "s"}, {"e"})).add(node("Concat", {"hx", "e"}, {"y"}, {{"axis", std::int64_t{1}}})); }, "y", "[4,6]"},
    {"table_repeated_by_rows", "1,3,2", [](Model& m) { transpose(m, "x", "t", {1, 0, 2}); reshape(m, "t", "r", {3, 2}); m.add(float_tensor("p", {3, 2}, {1, 2, 3, 4, 5, 6})).add(float_tensor("w", {2, 2}, {1, 2, 3, 4})).add(node("MatMul", {"r", "w"}, {"rw"})).add(node("Add", {"rw", "p"}, {"s"})); reshape(m, "s", "u", {3, 1, 2}); transpose(m, "u", "y", {1, 0, 2}); }, "s", "[12,2]"},
    {"squeezed_out_and_back", "1,3,2", [](Model& m) { m.add(int_tensor("a", {1}, {0})).add(node("Squeeze", {"x", "a"}, {"s"})).add(node("Relu", {"s"}, {"r"})).add(node("Unsqueeze", {"r", "a"}, {"y"})); }, "s", "[12,2]"},
    {"recurrence_of_steps_first", "N,5,3", [](Model& m) { transpose(m, "x", "t", {1, 0, 2}); recurrence(m, "t", {}); }, "y/as_in_file", "[5,1,4,2]"},
    {"recurrence_of_samples_first", "N,5,3", [](Model& m) { recurrence(m, "x", {{"layout", std::int64_t{1}}}); }, "y", "[4,5,1,2]"},
    {"recurrence_with_states_of_two", "2,5,3", [](Model& m) { m.add(filled_tensor("h", {2, 1, 2}, 0)); recurrence(m, "x", {{"layout", std::int64_t{1}}}, "h"); }, "y", "[4,5,1,2]"},
    {"recurrence_with_a_state_read_twice", "2,5,3", [](Model& m) { transpose(m, "x", "t", {1, 0, 2}); m.add(filled_tensor("h", {1, 2, 2}, 0)); recurrence(m, "t", {}, "h", "y1"); reshape(m, "y1", "u", {5, 2, 2}); m.add(filled_tensor("W2", {1, 6, 2})).add(node("GRU", {"u", "W2", "R", "", "", "h"}, {"y"}, {{"hidden_size", std::int64_t{2}}})); }, "y/as_in_file", "[5,1,4,2]"},
    {"recurrence_over_samples", "N,5,3", [](Model& m) { recurrence(m, "x", {}); }, "", "axis 0 of [11,5,3] holds the samples, and with layout 0 it is time"},
    {"mean_loss", "N,3", [](Model& m) { m.add(node("ReduceMean", {"x"}, {"y"}, {{"keepdims", std::int64_t{0}}})); }, "y", "[]"},
    {"drawn_for_one", "1,3", [](Model& m) { m.add(node("RandomNormal", {}, {"r"}, {{"shape", List{1, 3}}})).add(node("Add", {"x", "r"}, {"y"})); }, "r", "[4,3]"},
    {"drawn_for_two", "2,3", [](Model& m) { m.add(node("RandomUniform", {}, {"r"}, {{"shape", List{2, 1}}})).add(node("Exp", {"r"}, {"e"})).add(node("Mul", {"x", "e"}, {"y"})); }, "e", "[4,1]"},
    {"drawn_like_a_constant", "2,3", [](Model& m) { m.add(filled_tensor("c", {2, 3})).add(node("RandomNormalLike", {"c"}, {"r"})).add(node("Add", {"x", "r"}, {"y"})); }, "r", "[4,3]"},
    {"drawn_for_all", "2,3", [](Model& m) { m.add(node("RandomNormal", {}, {"r"}, {{"shape", List{1, 3}}})).add(node("Add", {"x", "r"}, {"y"})); }, "r", "[1,3]"},
    {"drawn_for_a_weight", "1,3", [](Model& m) { m.add(node("RandomNormal", {}, {"r"}, {{"shape", List{3, 3}}})).add(node("MatMul", {"x", "r"}, {"y"})); }, "r", "[3,3]"},
    {"softmax_over_samples", "N,3", one("Softmax", {{"axis", std::int64_t{0}}}), "", "node 'node_y': ai.onnx::Softmax (opset 17): it works along axis 0, which holds the samples; its samples come from 'x'"},
    {"sum_over_samples", "2,2", [](Model& m) { m.add(float_tensor("w", {2, 2}, {1, 2, 3, 4})).add(node("MatMul", {"w", "x"}, {"y"})); }, "", "it sums over axis 0 of [2,2], which holds the samples"},
    {"centred_by_the_batch", "N,3", [](Model& m) { m.add(node("ReduceMean", {"x"}, {"mean"}, {{"axes", List{0}}})).add(node("Sub", {"x", "mean"}, {"y"})); }, "", "samples would meet"},
    {"products_of_samples", "N,3", [](Model& m) { transpose(m, "x", "t", {1, 0}); m.add(node("MatMul", {"x", "t"}, {"y"})); }, "", "its operands hold the samples at different places"},
    {"joined_along_samples", "N,3", [](Model& m) { m.add(node("Concat", {"x", "x"}, {"y"}, {{"axis", std::int64_t{0}}})); }, "y", "[8,3]"},
    {"joined_with_rows_of_samples", "N,3,2", [](Model& m) { reshape(m, "x", "r", {-1, 2}); m.add(node("ReduceSum", {"x"}, {"s"}, {{"keepdims", std::int64_t{0}}, {"axes", std::vector<std::int64_t>{1}}})).add(node("Concat", {"r", "s"}, {"y"}, {{"axis", std::int64_t{0}}})); }, "", "it joins along axis 0, which holds the samples of [33,2], what does not hold them so: [11,2]"},
    {"joined_with_a_constant", "N,3", [](Model& m) { m.add(filled_tensor("c", {2, 3})).add(node("Concat", {"x", "c"}, {"y"}, {{"axis", std::int64_t{0}}})); }, "", "what does not hold them so: [2,3]"},
    {"joined_and_split", "2,3", [](Model& m) { pair_of(m); m.add(int_tensor("n", {2}, {2, 2})).add(node("Split", {"r", "n"}, {"a", "y"}, {{"axis", std::int64_t{0}}})); }, "y", "[4,3]"},
    {"joined_and_split_unevenly", "2,3", [](Model& m) { pair_of(m); m.add(int_tensor("n", {2}, {1, 3})).add(node("Split", {"r", "n"}, {"a", "y"}, {{"axis", std::int64_t{0}}})); }, "", "it cuts axis 0 of [4,3], which holds the samples"},
    {"joined_and_cut", "2,3", [](Model& m) { pair_of(m); m.add(int_tensor("s", {1}, {-2})).add(int_tensor("e", {1}, {100})).add(node("Slice", {"r", "s", "e"}, {"y"})); }, "y", "[4,3]"},
    {"joined_and_cut_within", "2,3", [](Model& m) { pair_of(m); m.add(int_tensor("s", {1}, {1})).add(int_tensor("e", {1}, {3})).add(node("Slice", {"r", "s", "e"}, {"y"})); }, "", "it cuts axis 0 of [4,3], which holds the samples"},
    {"a_sample_picked", "N,3", [](Model& m) { m.add(int_tensor("i", {}, {0})).add(node("Gather", {"x", "i"}, {"y"})); }, "", "it picks from axis 0 of [11,3], which holds the samples"},
    {"elements_picked_of_each", "N,3", [](Model& m) { m.add(int_tensor("i", {1, 2}, {2, 0})).add(node("GatherElements", {"x", "i"}, {"y"}, {{"axis", std::int64_t{1}}})); }, "", "input 0 [11,3] and the output [1,2] differ along the axis that holds the samples"},
    {"elements_picked_of_one", "1,3", [](Model& m) { m.add(int_tensor("i", {1, 2}, {2, 0})).add(node("GatherElements", {"x", "i"}, {"y"}, {{"axis", std::int64_t{1}}})); }, "y", "[4,2]"},
    {"elements_of_a_table", "N,3", [](Model& m) { m.add(filled_tensor("t", {7, 3})).add(node("Cast", {"x"}, {"i"}, {{"to", std::int64_t{7}}})).add(node("GatherElements", {"t", "i"}, {"y"})); }, "y", "[4,3]"},
    {"elements_of_the_batch", "N,3", [](Model& m) { m.add(int_tensor("i", {1, 3}, {0, 0, 0})).add(node("GatherElements", {"x", "i"}, {"y"})); }, "", "it picks from axis 0 of [11,3], which holds the samples"},
    {"tuples_that_count", "N,3,2", [](Model& m) { arange(m, "x"); m.add(node("Unsqueeze", {"n", "last"}, {"n1"})).add(node("ArgMax", {"x"}, {"a"}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}})).add(int_tensor("z", {1}, {0})).add(node("Gather", {"a", "z"}, {"b"}, {{"axis", std::int64_t{1}}})).add(node("Concat", {"n1", "b"}, {"t"}, {{"axis", std::int64_t{-1}}})).add(node("GatherND", {"x", "t"}, {"y"})); }, "y", "[4,2]"},
    {"rows_of_each_sample", "N,3,2", [](Model& m) { rows_of_each(m); m.add(int_tensor("three", {1}, {3})).add(node("Mul", {"n", "three"}, {"c"})).add(node("Add", {"i", "c"}, {"t"})).add(node("Gather", {"f", "t"}, {"y"})); }, "y", "[4,2]"},
    {"segments_of_each_sample", "N,3,2", [](Model& m) { rows_of_each(m); m.add(int_tensor("six", {1}, {6})).add(node("Mul", {"n", "six"}, {"c"})).add(node("Add", {"i", "c"}, {"t"})); reshape(m, "x", "e", {-1}); m.add(node("Gather", {"a", "step"}, {"g"}, {{"axis", std::int64_t{1}}})).add(node("Cast", {"g"}, {"u"}, {{"to", std::int64_t{1}}})).add(node("ScatterElements", {"e", "t", "u"}, {"s"})); reshape(m, "s", "y", {-1, 6}); }, "y", "[4,6]"},
    {"segments_that_do_not_count", "N,3,2", [](Model& m) { rows_of_each(m); m.add(int_tensor("five", {1}, {5})).add(node("Mul", {"n", "five"}, {"c"})).add(node("Add", {"i", "c"}, {"t"})); reshape(m, "x", "e", {-1}); m.add(node("Cast", {"i"}, {"u"}, {{"to", std::int64_t{1}}})).add(node("ScatterElements", {"e", "t", "u"}, {"s"})); reshape(m, "s", "y", {-1, 6}); }, "", "is different for each of the file's 11 samples"},
    {"rows_of_each_of_two_samples", "2,3,2", [](Model& m) { rows_of_each(m); m.add(int_tensor("c", {2}, {0, 3})).add(node("Add", {"c", "i"}, {"t"})).add(node("Gather", {"f", "t"}, {"y"})); }, "y", "[4,2]"},
    {"known_rows_of_each_sample", "N,3,2", [](Model& m) { rows_of_each(m); m.add(int_tensor("three", {1}, {3})).add(node("Mul", {"n", "three"}, {"c"})).add(node("Unsqueeze", {"c", "last"}, {"u"})).add(int_tensor("k", {1, 2}, {2, 1})).add(node("Add", {"u", "k"}, {"t"})).add(node("Gather", {"f", "t"}, {"y"})); }, "y", "[4,2,2]"},
    {"known_rows_of_one_sample", "1,3,2", [](Model& m) { rows_of_each(m); m.add(int_tensor("t", {1, 2}, {2, 1})).add(node("Gather", {"f", "t"}, {"y"})); }, "y", "[4,2,2]"},
    {"known_rows_of_another_sample", "2,3,2", [](Model& m) { rows_of_each(m); m.add(int_tensor("t", {2, 2}, {2, 3, 4, 5})).add(node("Gather", {"f", "t"}, {"y"})); }, "", "it picks from axis 0 of [6,2], which holds the samples"},
    {"rows_that_do_not_count", "N,3,2", [](Model& m) { rows_of_each(m); m.add(int_tensor("two", {1}, {2})).add(node("Mul", {"n", "two"}, {"c"})).add(node("Add", {"i", "c"}, {"t"})).add(node("Gather", {"f", "t"}, {"y"})); }, "", "is different for each of the file's 11 samples"},
    {"tuples_that_count_two", "2,3", [](Model& m) { m.add(int_tensor("n", {2, 1}, {0, 1})).add(node("ArgMax", {"x"}, {"i"}, {{"axis", std::int64_t{1}}})).add(node("Concat", {"n", "i"}, {"t"}, {{"axis", std::int64_t{1}}})).add(node("GatherND", {"x", "t"}, {"y"})); }, "y", "[4]"},
    {"tuples_of_a_mask_of_two", "2,3", [](Model& m) { m.add(int_tensor("t", {2, 2, 2}, {0, 2, 0, 1, 1, 2, 1, 1})).add(node("GatherND", {"x", "t"}, {"y"})); }, "y", "[4,2]"},
    {"tuples_of_all_of_two", "2,3", [](Model& m) { m.add(int_tensor("t", {2, 1, 3, 2}, {0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2})).add(node("GatherND", {"x", "t"}, {"y"})); }, "y", "[4,1,3]"},
    {"tuples_of_two_samples", "2,3", [](Model& m) { m.add(int_tensor("t", {2, 1}, {0, 1})).add(node("GatherND", {"x", "t"}, {"y"})); }, "y", "[4,3]"},
    {"all_of_two_written", "2,3", [](Model& m) { m.add(int_tensor("t", {2, 3, 2}, {0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2})).add(node("Relu", {"x"}, {"r"})).add(node("ScatterND", {"x", "t", "r"}, {"y"})); }, "y", "[4,3]"},
    {"copies_expanded_and_cut", "2,3,2", [](Model& m) { m.add(filled_tensor("w", {7, 2})).add(int_tensor("p", {1, 3}, {0, 1, 2})).add(int_tensor("n", {2}, {2, 3})).add(node("Expand", {"p", "n"}, {"e"})).add(int_tensor("s", {1}, {-3})).add(int_tensor("t", {1}, {100})).add(int_tensor("a", {1}, {1})).add(node("Slice", {"e", "s", "t", "a"}, {"c"})).add(node("Gather", {"w", "c"}, {"g"})).add(node("Add", {"x", "g"}, {"y"})); }, "y", "[4,3,2]"},
    {"tuples_with_a_part_of_nothing", "2,3", [](Model& m) { m.add(int_tensor("e", {2, 0}, {})).add(int_tensor("n", {2, 1}, {0, 1})).add(node("ArgMax", {"x"}, {"i"}, {{"axis", std::int64_t{1}}})).add(node("Concat", {"e", "n", "i"}, {"t"}, {{"axis", std::int64_t{1}}})).add(node("GatherND", {"x", "t"}, {"y"})); }, "", "is different for each of the file's 2 samples"},
    {"tuples_that_differ", "2,3", [](Model& m) { m.add(int_tensor("t", {2, 2, 2}, {0, 2, 0, 1, 1, 2, 1, 0})).add(node("GatherND", {"x", "t"}, {"y"})); }, "", "is different for each of the file's 2 samples"},
    {"tuples_of_a_mask", "N,3", [](Model& m) { mask_of(m); m.add(node("GatherND", {"x", "t"}, {"y"})); }, "y", "[4,1,1,3]"},
    {"tuples_written", "N,3", [](Model& m) { mask_of(m); m.add(node("GatherND", {"x", "t"}, {"g"})).add(node("ScatterND", {"x", "t", "g"}, {"y"})); }, "y", "[4,3]"},
    {"tuples_of_all_samples", "N,3,2", [](Model& m) { places_of_ones(m, true); m.add(node("GatherND", {"x", "t"}, {"y"})); }, "y", "[4,3,2]"},
    {"tuples_of_all_places", "N,3,2", [](Model& m) { places_of_ones(m, false); m.add(node("GatherND", {"x", "t"}, {"y"})); }, "y", "[24]"},
    {"tuples_of_all_places_written", "N,3,2", [](Model& m) { places_of_ones(m, false); m.add(node("Exp", {"x"}, {"e"})); reshape(m, "e", "u", {-1}); m.add(node("ScatterND", {"x", "t", "u"}, {"y"})); }, "y", "[4,3,2]"},
    {"tuples_of_all_places_added_to", "N,3,2", [](Model& m) { places_of_ones(m, false); reshape(m, "x", "u", {-1}); m.add(node("ScatterND", {"x", "t", "u"}, {"y"}, {{"reduction", std::string("add")}})); }, "", "samples would write to the same"},
    {"tuples_of_samples_turned", "2,3", [](Model& m) { m.add(int_tensor("t", {2, 1}, {1, 0})).add(node("GatherND", {"x", "t"}, {"y"})); }, "", "it picks from axis 0 of [2,3], which holds the samples"},
    {"tuples_of_places", "N,3,2", [](Model& m) { m.add(int_tensor("t", {2, 1}, {0, 2})).add(node("GatherND", {"x", "t"}, {"y"})); }, "", "it picks from axis 0 of [11,3,2], which holds the samples"},
    {"rows_of_a_table", "N,3", [](Model& m) { m.add(filled_tensor("w", {7, 5})).add(node("Cast", {"x"}, {"i"}, {{"to", std::int64_t{7}}})).add(int_tensor("last", {1}, {-1})).add(node("Unsqueeze", {"i", "last"}, {"t"})).add(node("GatherND", {"w", "t"}, {"y"})); }, "y", "[4,3,5]"},
    {"rows_added_beside_samples", "N,3", [](Model& m) { transpose(m, "x", "u", {1, 0}); m.add(filled_tensor("z", {4, 1})).add(node("Shape", {"u"}, {"s"})).add(int_tensor("f", {1}, {4})).add(int_tensor("one", {1}, {1})).add(node("Gather", {"s", "one"}, {"n"})).add(node("Concat", {"f", "n"}, {"to"}, {{"axis", std::int64_t{0}}})).add(node("Expand", {"z", "to"}, {"e"})).add(int_tensor("t", {3, 1}, {0, 3, 0})).add(node("ScatterND", {"e", "t", "u"}, {"g"}, {{"reduction", std::string("add")}})); transpose(m, "g", "y", {1, 0}); }, "y", "[4,4]"},
    {"rows_added_over_samples", "N,3", [](Model& m) { m.add(filled_tensor("w", {7, 3})).add(node("ArgMax", {"x"}, {"i"}, {{"axis", std::int64_t{1}}})).add(node("ScatterND", {"w", "i", "x"}, {"y"}, {{"reduction", std::string("add")}})); }, "", "samples would write to the same"},
    {"elements_written", "N,3", [](Model& m) { m.add(node("ArgMax", {"x"}, {"i"}, {{"axis", std::int64_t{1}}})).add(node("ReduceMax", {"x"}, {"u"}, {{"axes", List{1}}})).add(node("ScatterElements", {"x", "i", "u"}, {"y"}, {{"axis", std::int64_t{1}}})); }, "y", "[4,3]"},
    {"elements_written_over_samples", "N,3", [](Model& m) { m.add(node("Cast", {"x"}, {"i"}, {{"to", std::int64_t{7}}})).add(node("ScatterElements", {"x", "i", "x"}, {"y"})); }, "", "samples would write to the same"},
    {"running_sums", "N,3", [](Model& m) { m.add(int_tensor("a", {}, {1})).add(node("CumSum", {"x", "a"}, {"y"})); }, "y", "[4,3]"},
    {"running_sums_of_samples", "N,3", [](Model& m) { m.add(int_tensor("a", {}, {0})).add(node("CumSum", {"x", "a"}, {"y"})); }, "", "it works along axis 0, which holds the samples"},
    {"largest_of_each", "N,3", [](Model& m) { m.add(int_tensor("k", {1}, {2})).add(node("TopK", {"x", "k"}, {"v", "y"})); }, "y", "[4,2]"},
    {"einsum_of_samples", "N,3,2", [](Model& m) { m.add(filled_tensor("w", {3, 5})).add(node("Einsum", {"x", "w"}, {"y"}, {{"equation", std::string("bij,ik->kbj")}})); }, "y/as_in_file", "[5,4,2]"},
    {"einsum_over_samples", "N,3", [](Model& m) { m.add(node("Einsum", {"x", "x"}, {"y"}, {{"equation", std::string("bi,bj->ij")}})); }, "", "it sums over axis 0, which holds the samples"},
    {"hot_places", "N,3", [](Model& m) { m.add(int_tensor("d", {}, {5})).add(float_tensor("v", {2}, {0, 1})).add(node("ArgMax", {"x"}, {"i"}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}})).add(node("OneHot", {"i", "d", "v"}, {"y"})); }, "y", "[4,5]"},
    {"sequences_reversed", "2,3,2", [](Model& m) { m.add(int_tensor("n", {2}, {3, 3})).add(node("ReverseSequence", {"x", "n"}, {"y"}, {{"batch_axis", std::int64_t{0}}, {"time_axis", std::int64_t{1}}})); }, "y", "[4,3,2]"},
    {"unpooled", "N,1,4,4", [](Model& m) { m.add(node("MaxPool", {"x"}, {"p", "i"}, {{"kernel_shape", List{2, 2}}, {"strides", List{2, 2}}})).add(node("MaxUnpool", {"p", "i"}, {"y"}, {{"kernel_shape", List{2, 2}}, {"strides", List{2, 2}}})); }, "y", "[4,1,4,4]"},
    {"samples_sliced", "8,3", [](Model& m) { m.add(int_tensor("s", {1}, {0})).add(int_tensor("e", {1}, {2})).add(node("Slice", {"x", "s", "e"}, {"y"})); }, "", "it cuts axis 0 of [8,3], which holds the samples"},
    {"samples_turned", "N,3", [](Model& m) { m.add(int_tensor("s", {1}, {-1})).add(int_tensor("e", {1}, {-100})).add(int_tensor("a", {1}, {0})).add(int_tensor("p", {1}, {-1})).add(node("Slice", {"x", "s", "e", "a", "p"}, {"y"})); }, "", "it cuts axis 0"},
    {"one_grid_for_all_images", "N,3,4,4", [](Model& m) { m.add(filled_tensor("g", {1, 2, 2, 2})).add(node("GridSample", {"x", "g"}, {"y"})); }, "y", "[4,3,2,2]"},
    {"a_grid_for_the_image_of_the_file", "1,3,4,4", [](Model& m) { m.add(filled_tensor("g", {1, 2, 2, 2})).add(node("GridSample", {"x", "g"}, {"y"})); }, "y", "[4,3,2,2]"},
    {"frames_of_signals", "N,20,1", [](Model& m) { m.add(int_tensor("t", {}, {5})).add(filled_tensor("w", {8})).add(node("STFT", {"x", "t", "w"}, {"y"})); }, "y", "[4,3,5,2]"},
    {"samples_transformed", "N,20,1", [](Model& m) { m.add(node("DFT", {"x"}, {"y"}, {{"axis", std::int64_t{0}}})); }, "", "it transforms axis 0, which holds the samples"},
    {"images_resized_to_sizes_of_the_file", "2,3,4,4", [](Model& m) { m.add(int_tensor("s", {4}, {2, 3, 8, 6})).add(node("Resize", {"x", "", "", "s"}, {"y"})); }, "y", "[4,3,8,6]"},
    {"images_resized_by_scales", "N,3,4,4", [](Model& m) { m.add(float_tensor("s", {4}, {1, 1, 2, 2})).add(node("Resize", {"x", "", "s"}, {"y"}, {{"mode", std::string("linear")}})); }, "y", "[4,3,8,8]"},
    {"samples_resized", "N,3", [](Model& m) { m.add(float_tensor("s", {2}, {2, 1})).add(node("Resize", {"x", "", "s"}, {"y"})); }, "", "it resizes axis 0 of [11,3], which holds the samples"},
    {"samples_padded", "N,3", [](Model& m) { m.add(int_tensor("p", {4}, {1, 0, 0, 0})).add(node("Pad", {"x", "p"}, {"y"})); }, "", "it pads axis 0 of [11,3], which holds the samples"},
    {"samples_as_channels", "N,3,4,4", [](Model& m) { transpose(m, "x", "t", {1, 0, 2, 3}); m.add(node("GlobalAveragePool", {"t"}, {"y"})); }, "", "the samples lie along axis 1, which it works on as a whole; its samples come from 'x' [11,3,4,4], Transpose 'node_t' [3,11,4,4]; shapes are for 11 samples"},
    {"filters_of_each_sample", "2,2,4,4", [](Model& m) { own_filters(m, 2); }, "c", "[1,12,4,4]"},
    {"filters_of_the_sample_of_a_file", "1,2,4,4", [](Model& m) { own_filters(m, 1); }, "c", "[1,12,4,4]"},
    {"transposed_filters_of_each_sample", "2,2,4,4", [](Model& m) { own_filters(m, 2, "ConvTranspose"); }, "c", "[1,12,4,4]"},
    {"filters_of_two_samples", "2,2,4,4", [](Model& m) { m.add(filled_tensor("w", {6, 4, 3, 3})); reshape(m, "x", "r", {1, 4, 4, 4}); m.add(node("Conv", {"r", "w"}, {"y"})); }, "", "the samples lie along axis 1, which it works on as a whole"},
    {"scales_by_samples", "3,4", [](Model& m) { m.add(float_tensor("s", {3}, {1, 2, 3})).add(node("QuantizeLinear", {"x", "s"}, {"q"}, {{"axis", std::int64_t{0}}})).add(node("DequantizeLinear", {"q", "s"}, {"y"}, {{"axis", std::int64_t{0}}})); }, "", "its scales are different along axis 0, which holds the samples"},
    {"scales_by_columns", "3,4", [](Model& m) { m.add(float_tensor("s", {4}, {1, 2, 3, 4})).add(node("QuantizeLinear", {"x", "s"}, {"q"}, {{"axis", std::int64_t{1}}})).add(node("DequantizeLinear", {"q", "s"}, {"y"}, {{"axis", std::int64_t{1}}})); }, "q", "[4,4]"},
    {"a_scale_of_all_samples", "N,4", [](Model& m) { m.add(node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"})).add(node("DequantizeLinear", {"q", "s", "z"}, {"y"})); }, "", "its scale is that of all samples together"},
    {"positions_of_one", "1,5,8", [](Model& m) { m.add(filled_tensor("c", {9, 2})).add(filled_tensor("s", {9, 2})).add(int_tensor("p", {1, 5}, {0, 1, 2, 3, 4})).add(node("RotaryEmbedding", {"x", "p", "c", "s"}, {"y"}, {{"num_heads", std::int64_t{2}}}, "com.microsoft")); }, "y", "[4,5,8]"},
    {"positions_of_two", "2,5,8", [](Model& m) { m.add(filled_tensor("c", {9, 2})).add(filled_tensor("s", {9, 2})).add(int_tensor("p", {2, 5}, {0, 1, 2, 3, 4, 0, 1, 2, 3, 4})).add(node("RotaryEmbedding", {"x", "p", "c", "s"}, {"y"}, {{"num_heads", std::int64_t{2}}}, "com.microsoft")); }, "y", "[4,5,8]"},
    {"heads_of_packed_weights", "2,5,8", [](Model& m) { m.add(filled_tensor("w", {8, 24})).add(filled_tensor("b", {24})).add(node("Attention", {"x", "w", "b"}, {"y"}, {{"num_heads", std::int64_t{2}}}, "com.microsoft")); }, "y", "[4,5,8]"},
    {"rows_of_features", "2,3", [](Model& m) { m.add(node("Scaler", {"x"}, {"y"}, {{"offset", std::vector<float>{1, 2, 3}}}, "ai.onnx.ml")); }, "y", "[4,3]"},
    {"rows_by_their_sum", "N,3", [](Model& m) { transpose(m, "x", "t", {1, 0}); m.add(node("Normalizer", {"t"}, {"y"}, {{"norm", std::string("L1")}}, "ai.onnx.ml")); }, "", "the samples lie along axis 1, its features"},
    {"normalised_over_samples", "N,3,4,4", one("MeanVarianceNormalization", {}), "", "it normalises axis 0, which holds the samples"},
};
// clang-format on

class FollowBatch : public testing::TestWithParam<Row> {};

TEST_P(FollowBatch, GoesSampleBySample) {
  Model m(17);
  m.input("x", GetParam().input).output("y");
  GetParam().build(m);
  if (GetParam().value.empty()) {
    const std::string report = m.report({.batch = 4});
    EXPECT_NE(report.find(GetParam().shape), std::string::npos) << report;
  } else {
    EXPECT_EQ(to_string(shape_of(m.graph(4), GetParam().value)), GetParam().shape);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, FollowBatch, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

TEST(FollowBatch, GridsAreMadeForEachSample) {
  Model m(20);
  m.input("x", "2,2,3").output("y").add(int_tensor("s", {4}, {2, 3, 5, 6})).add(node("AffineGrid", {"x", "s"}, {"y"}));
  EXPECT_EQ(to_string(shape_of(m.graph(4), "y")), "[4,5,6,2]");
}

TEST(FollowBatch, OutputsSayWhereTheirSamplesLie) {
  Model m;
  m.input("x", "N,5,8").output("sequence").output("rows").output("loss").output("table");
  transpose(m, "x", "sequence", {1, 0, 2});
  reshape(m, "x", "rows", {-1, 8});
  m.add(node("ReduceMean", {"x"}, {"loss"}, {{"keepdims", std::int64_t{0}}}));
  m.add(float_tensor("t", {2, 2}, {1, 2, 3, 4})).add(float_tensor("u", {2, 2}, {1, 2, 3, 4})).add(node("MatMul", {"t", "u"}, {"table"}));
  for (const std::int64_t batch : {1, 4}) {
    const Graph graph = m.graph(batch);
    const auto place = [&](std::size_t i) { return graph[graph.outputs.at(i)].batch; };
    EXPECT_EQ(place(0), (BatchPlace{.axis = 0}));  // turned, with the samples first
    EXPECT_EQ(place(1), (BatchPlace{.axis = 0}));
    EXPECT_EQ(place(2), (BatchPlace{.mixed = true}));
    EXPECT_EQ(place(3), (BatchPlace{}));
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(graph[graph.outputs[i]].depends_on_batch, i < 2) << i;
  }
}

// A weight that the file holds once for each of two samples: one is trained, and both are exported.
TEST(FollowBatch, AWeightHeldTwiceIsOne) {
  Model m;
  m.input("x", "2,2").output("y");
  m.add(float_tensor("c", {2, 2}, {1, 2, 1, 2})).add(filled_tensor("w", {4, 4}));
  m.add(node("Mul", {"x", "c"}, {"s"}))
      .add(node("Concat", {"s", "c"}, {"j"}, {{"axis", std::int64_t{1}}}))
      .add(node("MatMul", {"j", "w"}, {"y"}));
  const ModelFile file = m.parse();
  for (const std::int64_t batch : {1, 2, 4}) {
    const Graph graph = file.graph({.batch = batch});
    const ValueId c = *graph.find("c");
    ASSERT_EQ(graph[c].kind, ValueKind::parameter);
    EXPECT_EQ(graph[c].type.shape, (Shape{1, 2}));
    EXPECT_EQ(graph[c].template_shape, (Shape{1, 2}));
    EXPECT_EQ(shape_of(graph, "y"), (Shape{batch, 4}));
    ASSERT_FALSE(graph.warnings.empty());
    EXPECT_NE(graph.warnings.back().find("'c' [2,2] holds the same for each of the 2 samples"), std::string::npos) << graph.warnings.back();
  }
  const TemporaryFolder folder;
  file.write(folder / "out.onnx", {{"c", Tensor::of<float>(Shape{1, 2}, std::vector<float>{3, 4})}});
  onnx::ModelProto exported;
  ASSERT_TRUE(exported.ParseFromString(read_whole(folder / "out.onnx")));
  const Tensor c = ModelFile::read(folder / "out.onnx").graph({.batch = 2})[*file.graph({.batch = 2}).find("c")].data.value();
  EXPECT_EQ(c.to_doubles(), (std::vector<double>{3, 4}));
  EXPECT_EQ(exported.graph().initializer(0).dims(0), 2);
}

// A token that is expanded to the samples and laid beside them in two ways, and one that is expanded to each of their frames.
TEST(FollowBatch, ATokenExpandedOnceIsReadTwice) {
  Model m;
  m.input("x", "N,3,3,2")
      .output("y")
      .add(filled_tensor("t", {1, 1, 2}))
      .add(int_tensor("rest", {2}, {3, 2}))
      .add(int_tensor("one", {1}, {1}))
      .add(int_tensor("two", {1}, {2}));
  m.add(node("Shape", {"x"}, {"n"}, {{"end", std::int64_t{1}}}))
      .add(node("Concat", {"n", "rest"}, {"s"}, {{"axis", std::int64_t{0}}}))
      .add(node("Expand", {"t", "s"}, {"e"}));
  m.add(int_tensor("s1", {4}, {1, 3, 1, 1})).add(int_tensor("s2", {4}, {1, 1, 3, 1}));
  m.add(node("Unsqueeze", {"e", "one"}, {"u1"}))
      .add(node("Expand", {"u1", "s1"}, {"e1"}))
      .add(node("Unsqueeze", {"e", "two"}, {"u2"}))
      .add(node("Expand", {"u2", "s2"}, {"e2"}));
  m.add(node("Concat", {"e1", "e2", "x"}, {"y"}, {{"axis", std::int64_t{-1}}}));
  EXPECT_EQ(shape_of(m.graph(5), "y"), (Shape{5, 3, 3, 6}));
}
TEST(FollowBatch, ATokenExpandedToFramesOfSamples) {
  Model m;
  m.input("x", "N,4,3,2")
      .output("y")
      .add(filled_tensor("t", {1, 1, 2}))
      .add(int_tensor("rest", {2}, {1, 2}))
      .add(int_tensor("four", {1}, {4}));
  m.add(node("Shape", {"x"}, {"n"}, {{"end", std::int64_t{1}}}))
      .add(node("Mul", {"n", "four"}, {"frames"}))
      .add(node("Concat", {"frames", "rest"}, {"s"}, {{"axis", std::int64_t{0}}}));
  reshape(m, "x", "r", {-1, 3, 2});
  m.add(node("Expand", {"t", "s"}, {"e"})).add(node("Concat", {"e", "r"}, {"c"}, {{"axis", std::int64_t{1}}}));
  reshape(m, "c", "y", {-1, 4, 4, 2});
  EXPECT_EQ(shape_of(m.graph(5), "y"), (Shape{5, 4, 4, 2}));
}

// A weight of several rows (of each head, say), which the file holds once for each of two samples.
TEST(FollowBatch, AWeightOfSeveralRowsHeldTwiceIsOne) {
  Model m;
  m.input("x", "2,4").output("y");
  m.add(float_tensor("c", {4, 2}, {1, 2, 3, 4, 1, 2, 3, 4})).add(int_tensor("rows", {2}, {4, 2})).add(int_tensor("back", {2}, {2, 4}));
  m.add(node("Reshape", {"x", "rows"}, {"r"})).add(node("Mul", {"r", "c"}, {"s"})).add(node("Reshape", {"s", "back"}, {"y"}));
  const ModelFile file = m.parse();
  const Graph graph = file.graph({.batch = 3});
  const ValueId c = *graph.find("c");
  EXPECT_EQ(graph[c].type.shape, (Shape{2, 2}));
  EXPECT_EQ(shape_of(graph, "y"), (Shape{3, 4}));
  const TemporaryFolder folder;
  file.write(folder / "out.onnx", {{"c", Tensor::of<float>(Shape{2, 2}, std::vector<float>{5, 6, 7, 8})}});
  onnx::ModelProto exported;
  ASSERT_TRUE(exported.ParseFromString(read_whole(folder / "out.onnx")));
  const onnx::TensorProto& held = exported.graph().initializer(0);
  EXPECT_EQ(held.dims(0), 4);
  const float wanted[] = {5, 6, 7, 8, 5, 6, 7, 8};
  ASSERT_EQ(held.raw_data().size(), sizeof wanted);
  EXPECT_EQ(std::memcmp(held.raw_data().data(), wanted, sizeof wanted), 0);
}

// Many readings, none of which reaches the end: refused in bounded time, with the nodes on the way.
TEST(FollowBatch, ASearchWithoutEndIsGivenUp) {
  Model m;
  m.input("x", "1,2,2").output("y");
  std::string last = "x";
  for (int i = 0; i < 40; ++i) {
    const std::string next = concat("r", i);
    reshape(m, last, next, i % 2 ? List{1, 2, 2} : List{1, 1, 4});
    last = next;
  }
  transpose(m, last, "t", {2, 1, 0});
  reshape(m, "t", "f", {4});
  m.add(node("Softmax", {"f"}, {"y"}, {{"axis", std::int64_t{0}}}));
  const std::string report = m.report({.batch = 3});
  EXPECT_NE(report.find("nodes more"), std::string::npos) << report;
}

TEST(FollowBatch, CopiesAreFoundByPlace) {
  const Tensor rows = Tensor::of<float>(Shape{2, 2}, std::vector<float>{1, 2, 1, 2});
  EXPECT_TRUE(holds_copies(rows, {.axis = 0}, 2));
  EXPECT_FALSE(holds_copies(rows, {.axis = 1}, 2));
  const Tensor inside = Tensor::of<float>(Shape{4}, std::vector<float>{1, 1, 2, 2});
  EXPECT_TRUE(holds_copies(inside, {.axis = 0, .outer = 2}, 2));
  EXPECT_FALSE(holds_copies(inside, {.axis = 0}, 2));
}

}  // namespace
}  // namespace tandem::test
