// The rules by which a float tensor is a weight or a constant, each by the reason it gives; and what users say against them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/importer/exporter_notes.h"

namespace tandem::test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

onnx::NodeProto constant(const onnx::TensorProto& tensor, const std::string& output) {
  return node("Constant", {}, {output}, {{"value", tensor}});
}

std::vector<float> positions(std::int64_t rows, std::int64_t columns) {
  std::vector<float> values;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const double angle = static_cast<double>(r) / std::pow(10000.0, 2 * static_cast<double>(c / 2) / static_cast<double>(columns));
      values.push_back(static_cast<float>(c % 2 ? std::cos(angle) : std::sin(angle)));
    }
  return values;
}

struct Row {
  std::string name;
  std::function<void(Model&)> build;  // from x [N,8] to y; the tensor judged is `tensor`
  Holding holding;
  std::string reason;  // a part
  bool certain = true;
  std::string tensor = "w";
  WeightOptions options = {};
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

Model& binary(Model& m, const char* op, const onnx::TensorProto& w) {
  return m.add(w).add(node(op, {"x", w.name()}, {"y"}));
}
onnx::TensorProto number(const std::string& name, float value) { return float_tensor(name, {}, {value}); }

// A GRU of two units over the eight numbers of x as steps; without a bias or a first state where they have no name.
void recurrence(Model& m, onnx::TensorProto bias, onnx::TensorProto first) {
  m.add(int_tensor("s", {3}, {0, 8, 1}))
      .add(node("Reshape", {"x", "s"}, {"r"}))
      .add(node("Transpose", {"r"}, {"t"}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}}));
  m.add(float_tensor("W", {1, 6, 1}, arbitrary(6))).add(float_tensor("R", {1, 6, 2}, arbitrary(12)));
  for (const onnx::TensorProto* t : {&bias, &first})
    if (!t->name().empty()) m.add(*t);
  m.add(node("GRU", {"t", "W", "R", bias.name(), "", first.name()}, {"", "y"}, {{"hidden_size", std::int64_t{2}}}));
}

// Two iterations of v = v + w·x from v = w, or, where the body hands it on as it is, v = w itself.
void loop(Model& m, const onnx::TensorProto& first, bool handed_on) {
  onnx::GraphProto body;
  for (const char* name : {"i", "c", "v"}) body.add_input()->set_name(name);
  *body.add_node() = node("Identity", {"c"}, {"c2"});
  *body.add_node() = node("Add", {"v", "x"}, {"s"});
  *body.add_node() = node("Identity", {handed_on ? "v" : "s"}, {"v2"});
  for (const char* name : {"c2", "v2", "s"}) body.add_output()->set_name(name);
  m.add(int_tensor("turns", {}, {2}))
      .add(first)
      .add(node("Loop", {"turns", "", "w"}, {handed_on ? "" : "y", handed_on ? "y" : ""}, {{"body", body}}));
}

// x · w, with as many zeros behind each row as `op` makes of w's shape.
void padded_by_shape(Model& m, const char* op) {
  m.add(float_tensor("w", {8, 8}, arbitrary(64)))
      .add(int_tensor("one", {1}, {1}))
      .add(int_tensor("zeros", {3}, {0, 0, 0}))
      .add(node("MatMul", {"x", "w"}, {"h"}));
  m.add(node(op, {"w"}, {"s"}))
      .add(node("Cast", {"s"}, {"c"}, {{"to", std::int64_t{onnx::TensorProto::INT64}}}))
      .add(node("ReduceSum", {"c"}, {"n"}));
  m.add(node("Reshape", {"n", "one"}, {"r"}))
      .add(node("Concat", {"zeros", "r"}, {"pads"}, {{"axis", std::int64_t{0}}}))
      .add(node("Pad", {"h", "pads"}, {"y"}));
}

// [8,10] of cosines along the rows or along the columns, of frequencies that are none themselves.
std::vector<float> cosines(bool along_rows) {
  std::vector<float> values;
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 10; ++column)
      values.push_back(static_cast<float>(std::cos(along_rows ? 0.2 * row * row * column : 0.2 * column * column * row)));
  return values;
}

// [2,8,8]: by each head's rate to the power of the distance, zeros for what lies ahead.
std::vector<float> decays() {
  std::vector<float> values;
  for (const double rate : {0.5, 0.9})
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 8; ++j) values.push_back(j > i ? 0 : static_cast<float>(std::pow(rate, i - j)));
  return values;
}

// a + (b - a) * w, where a and b are elements of x·p, or b of something else.
void interpolation(Model& m, const std::vector<float>& shares, bool of_one) {
  m.add(vector_of(arbitrary(8), "p"))
      .add(node("Mul", {"x", "p"}, {"h"}))
      .add(vector_of(shares))
      .add(int_tensor("i", {4}, {0, 1, 2, 3}))
      .add(int_tensor("j", {4}, {1, 2, 3, 4}));
  m.add(node("Gather", {"h", "i"}, {"a"}, {{"axis", std::int64_t{1}}}))
      .add(node("Gather", {of_one ? "h" : "x", "j"}, {"b"}, {{"axis", std::int64_t{1}}}));
  m.add(node("Sub", {"b", "a"}, {"d"})).add(node("Mul", {"d", "w"}, {"s"})).add(node("Add", {"a", "s"}, {"y"}));
  state_kind(m, "p", "PARAMETER");
}

// The Fourier transform of x + i·w.
void transform(Model& m, const std::vector<float>& values) {
  m.add(float_tensor("w", {1, 8, 1}, values))
      .add(int_tensor("last", {1}, {2}))
      .add(node("Unsqueeze", {"x", "last"}, {"r"}))
      .add(node("Shape", {"r"}, {"s"}));
  m.add(node("Expand", {"w", "s"}, {"i"}))
      .add(node("Concat", {"r", "i"}, {"c"}, {{"axis", std::int64_t{-1}}}))
      .add(node("DFT", {"c"}, {"y"}, {{"axis", std::int64_t{1}}}));
}

// clang-format off
const Row rows[] = {
    // What the file says
    {"parameter", [](Model& m) { binary(m, "Mul", vector_of(arbitrary(8))); state_kind(m, "w", "InputKind.PARAMETER"); }, Holding::trained, "the file: PARAMETER"},
    {"buffer", [](Model& m) { binary(m, "Mul", vector_of(arbitrary(8))); state_kind(m, "w", "BUFFER"); }, Holding::constant, "the file: BUFFER"},
    {"buffer_in_a_matrix", [](Model& m) { m.add(float_tensor("w", {8, 8}, arbitrary(64))).add(node("MatMul", {"x", "w"}, {"y"})); state_kind(m, "w", "BUFFER"); }, Holding::constant, "the file: BUFFER"},
    {"constant_tensor", [](Model& m) { binary(m, "Add", vector_of(arbitrary(8))); state_kind(m, "w", "CONSTANT_TENSOR"); }, Holding::constant, "the file: CONSTANT_TENSOR"},
    {"parameter_of_one_number", [](Model& m) { binary(m, "Mul", number("w", 2)); state_kind(m, "w", "PARAMETER"); }, Holding::trained, "the file: PARAMETER"},
    {"parameter_that_is_a_mask_by_value", [](Model& m) { binary(m, "Add", vector_of({0, -1e4F, 0, 0, 0, 0, 0, 0})); state_kind(m, "w", "PARAMETER"); }, Holding::trained, "PARAMETER"},
    {"parameter_whose_shape_pads", [](Model& m) { padded_by_shape(m, "Shape"); state_kind(m, "w", "PARAMETER"); }, Holding::trained, "the file: PARAMETER"},
    {"parameter_whose_size_pads", [](Model& m) { padded_by_shape(m, "Size"); state_kind(m, "w", "PARAMETER"); }, Holding::trained, "the file: PARAMETER"},
    {"parameter_in_whose_shape_a_diagonal_is_made", [](Model& m) { padded_by_shape(m, "EyeLike"); state_kind(m, "w", "PARAMETER"); }, Holding::trained, "the file: PARAMETER"},
    {"matrix_whose_shape_pads", [](Model& m) { padded_by_shape(m, "Shape"); }, Holding::trained, "B of MatMul"},
    {"stated_of_the_initializer", [](Model& m) {
       onnx::TensorProto w = vector_of(arbitrary(8));
       add_note(*w.mutable_metadata_props(), kind_note, "BUFFER");
       binary(m, "Mul", w);
     }, Holding::constant, "BUFFER"},
    {"of_a_function", [](Model& m) {
       m.add(function("F", {"a", "p"}, {"b"}, {node("Mul", {"a", "p"}, {"b"})})).add(vector_of(arbitrary(8))).add(node("F", {"x", "w"}, {"y"}, {}, function_domain));
       state_kind(m, "w", "BUFFER");
     }, Holding::constant, "BUFFER"},
    {"computed_from_a_parameter", [](Model& m) { m.add(vector_of(arbitrary(8), "p")).add(vector_of(arbitrary(8))).add(node("Mul", {"x", "p"}, {"h"})).add(node("Mul", {"h", "w"}, {"y"})); state_kind(m, "p", "PARAMETER"); }, Holding::trained, "the gradient reaches it", false},
    {"number_expanded_to_a_matrix", [](Model& m) { m.add(vector_of(arbitrary(8), "p")).add(number("zero", 0)).add(int_tensor("s", {2}, {8, 3})).add(node("Mul", {"x", "p"}, {"h"})).add(node("Expand", {"zero", "s"}, {"e"})).add(node("MatMul", {"h", "e"}, {"y"})); state_kind(m, "p", "PARAMETER"); }, Holding::constant, "this number is none", true, "zero"},
    {"distances_by_head", [](Model& m) {
       std::vector<float> slopes;
       for (int h = 0; h < 3; ++h)
         for (int i = 0; i < 8; ++i)
           for (int j = 0; j < 8; ++j) slopes.push_back(static_cast<float>(j - i) * std::pow(0.5F, static_cast<float>(h)));
       m.add(float_tensor("w", {3, 8, 8}, slopes)).add(node("Add", {"x", "w"}, {"y"}));
     }, Holding::constant, "a table of sines or a progression", false},
    {"nothing_at_all", [](Model& m) { m.add(vector_of(arbitrary(8), "p")).add(filled_tensor("w", {0, 3})).add(int_tensor("s", {1}, {-1})).add(node("Mul", {"x", "p"}, {"h"})).add(node("Reshape", {"w", "s"}, {"e"})).add(node("ReduceSum", {"e"}, {"n"})).add(node("Mul", {"h", "n"}, {"y"})); state_kind(m, "p", "PARAMETER"); }, Holding::trained, "the gradient reaches it", false},
    {"places_on_a_plane", [](Model& m) {
       std::vector<float> places;
       for (int y = 0; y < 6; ++y)
         for (int x = 0; x < 8; ++x) places.insert(places.end(), {(2.0F * static_cast<float>(x) + 1) / 8 - 1, (2.0F * static_cast<float>(y) + 1) / 6 - 1, 1});
       m.add(vector_of(arbitrary(8), "p")).add(float_tensor("w", {48, 3, 1}, places)).add(node("Mul", {"x", "p"}, {"h"})).add(node("Mul", {"h", "w"}, {"y"}));
       state_kind(m, "p", "PARAMETER");
     }, Holding::constant, "a grid of places", false},
    {"grid", [](Model& m) { m.add(vector_of(arbitrary(8), "p")).add(vector_of({3, 4, 6, 5, 4, 3, 6, 5})).add(node("Mul", {"x", "p"}, {"h"})).add(node("Mul", {"h", "w"}, {"y"})); state_kind(m, "p", "PARAMETER"); }, Holding::constant, "whole numbers", false},
    {"number_of_the_exporter", [](Model& m) { m.add(vector_of(arbitrary(8), "p")).add(number("val_3", 0.5F)).add(node("Mul", {"x", "p"}, {"h"})).add(node("Mul", {"h", "val_3"}, {"y"})); state_kind(m, "p", "PARAMETER"); }, Holding::constant, "this number is none", true, "val_3"},
    {"number_computed_from_a_parameter", [](Model& m) { m.add(vector_of(arbitrary(8), "p")).add(number("tanh_1", 0.5F)).add(node("Mul", {"x", "p"}, {"h"})).add(node("Mul", {"h", "tanh_1"}, {"y"})); state_kind(m, "p", "PARAMETER"); }, Holding::trained, "the gradient reaches it", false, "tanh_1"},
    {"type_of_a_cast", [](Model& m) { m.add(vector_of(arbitrary(8))).add(number("one", 1)).add(node("CastLike", {"one", "w"}, {"c"})).add(node("Clip", {"w", "", "c"}, {"k"})).add(node("Mul", {"x", "k"}, {"y"})); }, Holding::trained, "the gradient reaches it", false},
    {"ones_of_a_group_norm", [](Model& m) { m.add(vector_of(arbitrary(8), "p")).add(filled_tensor("w", {2}, 1)).add(filled_tensor("z", {2}, 0)).add(node("Mul", {"x", "p"}, {"h"})).add(int_tensor("s", {3}, {0, 2, 4})).add(node("Reshape", {"h", "s"}, {"g"})).add(node("InstanceNormalization", {"g", "w", "z"}, {"y"})); state_kind(m, "p", "PARAMETER"); }, Holding::constant, "all its values are alike", false},
    {"mean_that_was_computed", [](Model& m) { m.add(vector_of(arbitrary(8), "p")).add(filled_tensor("mean_1", {8}, 0)).add(node("Mul", {"x", "p"}, {"h"})).add(node("Add", {"h", "mean_1"}, {"y"})); state_kind(m, "p", "PARAMETER"); }, Holding::constant, "all its values are alike", false, "mean_1"},
    {"computed_zeros_of_another_name", [](Model& m) { m.add(vector_of(arbitrary(8), "p")).add(filled_tensor("expand", {8}, 0)).add(node("Mul", {"x", "p"}, {"h"})).add(node("Add", {"h", "expand"}, {"y"})); state_kind(m, "p", "PARAMETER"); }, Holding::trained, "the gradient reaches it", false, "expand"},
    {"matrix_of_sines", [](Model& m) { m.add(vector_of(arbitrary(8), "p")).add(float_tensor("w", {8, 10}, cosines(false))).add(node("Mul", {"x", "p"}, {"h"})).add(node("MatMul", {"h", "w"}, {"y"})); state_kind(m, "p", "PARAMETER"); }, Holding::constant, "a table of sines", false},
    {"matrix_of_sines_in_rows", [](Model& m) { m.add(vector_of(arbitrary(8), "p")).add(float_tensor("w", {8, 10}, cosines(true))).add(node("Mul", {"x", "p"}, {"h"})).add(node("MatMul", {"h", "w"}, {"y"})); state_kind(m, "p", "PARAMETER"); }, Holding::constant, "a table of sines", false},
    {"matrix_of_sines_that_is_a_parameter", [](Model& m) { m.add(float_tensor("w", {8, 10}, cosines(true))).add(node("MatMul", {"x", "w"}, {"y"})); state_kind(m, "w", "PARAMETER"); }, Holding::trained, "PARAMETER"},
    {"bank_that_is_a_parameter", [](Model& m) {
       std::vector<float> sines;
       for (int row = 0; row < 8; ++row)
         for (int i = 0; i < 24; ++i) sines.push_back(static_cast<float>(std::sin(0.3 * (row + 1) * i + row)));
       m.add(float_tensor("w", {8, 24}, sines)).add(node("MatMul", {"x", "w"}, {"y"}));
       state_kind(m, "w", "PARAMETER");
     }, Holding::trained, "PARAMETER, but its values are those of a fixed filter bank", false},
    {"matrix_of_sines_where_nothing_is_named", [](Model& m) { m.add(float_tensor("w", {8, 10}, cosines(true))).add(node("MatMul", {"x", "w"}, {"y"})); }, Holding::constant, "a table of sines", false},
    {"imaginary_part", [](Model& m) { transform(m, std::vector<float>(8, 0)); }, Holding::constant, "the imaginary part", false},
    {"learned_imaginary_part", [](Model& m) { transform(m, arbitrary(8)); }, Holding::trained, "input of DFT", false},
    {"shares_of_an_interpolation", [](Model& m) { interpolation(m, {0, 0.25F, 0.75F, 0.3F}, true); }, Holding::constant, "it interpolates", false},
    {"shares_between_two_values", [](Model& m) { interpolation(m, {0, 0.25F, 0.75F, 0.3F}, false); }, Holding::trained, "the gradient reaches it", false},
    {"shares_beyond_one", [](Model& m) { interpolation(m, {0, 0.25F, 1.75F, 0.3F}, true); }, Holding::trained, "the gradient reaches it", false},
    // The signature
    {"computed_where_all_parameters_are_there", [](Model& m) { signed_products(m, "", "%exp", vector_of(arbitrary(8))); }, Holding::constant, "it is none of them", false},
    {"computed_where_one_is_missing", [](Model& m) { signed_products(m, "scale", "%exp", vector_of(arbitrary(8))); }, Holding::trained, "the gradient reaches it", false},
    {"parameter_in_another_form", [](Model& m) { signed_products(m, "scale", "%p_other", vector_of(arbitrary(8))); }, Holding::trained, "the gradient reaches it", false},
    {"called_after_a_parameter", [](Model& m) { signed_products(m, "v", "%exp", vector_of(arbitrary(8), "v_bias")); }, Holding::trained, "the gradient reaches it", false, "v_bias"},
    {"computed_without_a_note", [](Model& m) { signed_products(m, "", "", vector_of(arbitrary(8))); }, Holding::trained, "the gradient reaches it", false},
    {"noted_as_computed_from_no_parameter", [](Model& m) { signed_products(m, "scale", "%exp", vector_of(arbitrary(8))); state_computed(m, "w", "['arange', 'val_3']"); }, Holding::constant, "computed from no parameter"},
    {"noted_as_computed_from_one", [](Model& m) { signed_products(m, "scale", "%exp", vector_of(arbitrary(8))); state_computed(m, "w", "['exp', 'scale']"); }, Holding::trained, "computed from 'scale'"},
    {"noted_as_computed_from_one_that_is_there", [](Model& m) { signed_products(m, "", "%exp", vector_of(arbitrary(8))); state_computed(m, "w", "['p']"); }, Holding::trained, "computed from 'p'"},
    {"noted_as_computed_from_the_shape_of_one", [](Model& m) { signed_products(m, "", "%exp", filled_tensor("w", {8}, 0)); state_computed(m, "w", "['p', 'val_3']"); }, Holding::trained, "the gradient reaches it", false},
    {"noted_bias_of_one_value", [](Model& m) { signed_products(m, "scale", "%exp", vector_of(arbitrary(8), "v")); m.add(float_tensor("head", {8, 1}, arbitrary(8))).add(float_tensor("w", {1}, {0.3F})).add(node("Gemm", {"y", "head", "w"}, {"z"})).output("z"); state_kind(m, "head", "PARAMETER"); state_computed(m, "w", "['scale', 'val_3']"); }, Holding::trained, "C of Gemm"},
    {"noted_zero", [](Model& m) { signed_products(m, "scale", "%exp", vector_of(arbitrary(8), "v")); m.add(float_tensor("head", {8, 1}, arbitrary(8))).add(float_tensor("w", {1}, {0})).add(node("Gemm", {"y", "head", "w"}, {"z"})).output("z"); state_kind(m, "head", "PARAMETER"); state_computed(m, "w", "['scale', 'val_3']"); }, Holding::constant, "all its values are alike", false},
    {"noted_where_a_parameter_may_be_the_same", [](Model& m) { signed_products(m, "other", "%p_other", vector_of(arbitrary(8))); state_computed(m, "w", "['val_3']"); }, Holding::trained, "the gradient reaches it", false},
    {"noted_where_the_parameter_stands_elsewhere", [](Model& m) { signed_products(m, "other", "%p_other", filled_tensor("w", {8}, 0)); m.add(vector_of(arbitrary(8), "v")).add(node("Mul", {"y", "v"}, {"z"})).output("z"); state_computed(m, "v", "['other', 'val_2']"); state_computed(m, "w", "['val_3']"); }, Holding::constant, "computed from no parameter"},
    {"noted_matrix_of_no_parameter", [](Model& m) { signed_products(m, "scale", "%exp", vector_of(arbitrary(8), "v")); m.add(float_tensor("w", {8, 8}, arbitrary(64))).add(of_call(node("MatMul", {"y", "w"}, {"z"}), "mul.Tensor", "%y, %expand")).output("z"); state_computed(m, "w", "['eye']"); }, Holding::constant, "computed from no parameter"},
    {"computed_and_said_trainable", [](Model& m) { signed_products(m, "", "%exp", vector_of(arbitrary(8))); }, Holding::trained, "option trainable w", true, "w", {.trainable = {"w"}}},
    // Operands
    {"statistic_of_a_batch_norm", [](Model& m) { for (const char* n : {"s", "b", "v"}) m.add(filled_tensor(n, {8})); m.add(vector_of(arbitrary(8))).add(node("BatchNormalization", {"x", "s", "b", "w", "v"}, {"y"})); }, Holding::statistic, "input_mean of BatchNormalization"},
    {"weight_that_is_normalized", [](Model& m) { for (const char* n : {"s", "b"}) m.add(filled_tensor(n, {8})); m.add(float_tensor("w", {1, 8, 3}, arbitrary(24))).add(int_tensor("t", {2}, {8, 3})).add(node("Mul", {"w", "w"}, {"q"})); for (const auto& [of, to] : {std::pair("w", "m"), std::pair("q", "v")}) m.add(node("ReduceMean", {of}, {to}, {{"axes", std::vector<std::int64_t>{0, 2}}, {"keepdims", std::int64_t{0}}})); m.add(node("BatchNormalization", {"w", "s", "b", "m", "v"}, {"n"})).add(node("Reshape", {"n", "t"}, {"k"})).add(node("MatMul", {"x", "k"}, {"y"})); }, Holding::trained, "the gradient reaches it: X of BatchNormalization", false},
    {"epsilon_and_root", [](Model& m) { m.add(vector_of(arbitrary(8))).add(number("e", 1e-5F)).add(node("Add", {"w", "e"}, {"a"})).add(node("Sqrt", {"a"}, {"r"})).add(node("Div", {"x", "r"}, {"y"})); }, Holding::statistic, "written out"},
    {"mean_beside_it", [](Model& m) { m.add(vector_of(arbitrary(8))).add(vector_of(arbitrary(8), "v")).add(number("e", 1e-5F)).add(node("Sub", {"x", "w"}, {"d"})).add(node("Add", {"v", "e"}, {"a"})).add(node("Sqrt", {"a"}, {"r"})).add(node("Div", {"d", "r"}, {"y"})); }, Holding::statistic, "written out"},
    {"scale_beside_it", [](Model& m) { m.add(vector_of(arbitrary(8))).add(vector_of(arbitrary(8), "v")).add(number("e", 1e-5F)).add(node("Add", {"v", "e"}, {"a"})).add(node("Sqrt", {"a"}, {"r"})).add(node("Div", {"w", "r"}, {"f"})).add(node("Mul", {"x", "f"}, {"y"})); }, Holding::trained, "the gradient reaches it", false},
    {"beside_computed_statistics", [](Model& m) { m.add(vector_of(arbitrary(8))).add(node("Mul", {"x", "x"}, {"q"})).add(node("ReduceMean", {"q"}, {"v"})).add(number("e", 1e-5F)).add(node("Add", {"v", "e"}, {"a"})).add(node("Sqrt", {"a"}, {"r"})).add(node("Sub", {"x", "w"}, {"d"})).add(node("Div", {"d", "r"}, {"y"})); }, Holding::trained, "the gradient reaches it", false},
    {"epsilon", [](Model& m) { m.add(vector_of(arbitrary(8), "v")).add(number("w", 1e-5F)).add(node("Exp", {"v"}, {"q"})).add(node("Add", {"q", "w"}, {"a"})).add(node("Sqrt", {"a"}, {"r"})).add(node("Div", {"x", "r"}, {"y"})); }, Holding::constant, "an epsilon"},
    {"bound_of_a_clip", [](Model& m) { m.add(number("w", 1)).add(node("Clip", {"x", "", "w"}, {"y"})); }, Holding::constant, "max of Clip"},
    {"bound_that_is_a_parameter", [](Model& m) { m.add(number("w", 1)).add(node("Clip", {"x", "", "w"}, {"y"})); state_kind(m, "w", "PARAMETER"); }, Holding::trained, "the file: PARAMETER"},
    {"bound_picked_from_a_parameter", [](Model& m) { m.add(vector_of(arbitrary(8))).add(int_tensor("i", {}, {2})).add(node("Gather", {"w", "i"}, {"g"})).add(node("Clip", {"x", "g"}, {"y"})); state_kind(m, "w", "PARAMETER"); }, Holding::trained, "the file: PARAMETER"},
    {"bound_computed_from_a_parameter", [](Model& m) { signed_products(m, "alpha", "%add", vector_of(arbitrary(8), "v")); m.add(number("w", 0.3F)).add(node("Clip", {"y", "w"}, {"z"})).output("z"); state_computed(m, "w", "['alpha', 'val_3']"); }, Holding::trained, "computed from 'alpha'"},
    {"bound_that_arithmetic_makes", [](Model& m) { m.add(number("w", 1.3F)).add(node("Abs", {"w"}, {"a"})).add(node("Clip", {"x", "", "a"}, {"y"})); }, Holding::constant, "max of Clip"},
    {"bound_that_is_a_factor_too", [](Model& m) { m.add(number("alpha", 1.3F)).add(node("Clip", {"x", "", "alpha"}, {"c"})).add(node("Mul", {"c", "alpha"}, {"y"})); }, Holding::trained, "the gradient reaches it", false, "alpha"},
    {"bound_said_trainable", [](Model& m) { m.add(number("w", 1)).add(node("Clip", {"x", "", "w"}, {"y"})); }, Holding::trained, "option trainable w", true, "w", {.trainable = {"w"}}},
    {"only_compared", [](Model& m) { m.add(vector_of(arbitrary(8))).add(number("z", 0)).add(node("Greater", {"x", "w"}, {"c"})).add(node("Where", {"c", "x", "x"}, {"y"})); }, Holding::constant, "the gradient does not reach it"},
    {"cast_to_integers", [](Model& m) { m.add(vector_of(arbitrary(8))).add(node("Cast", {"w"}, {"i"}, {{"to", std::int64_t{7}}})).add(node("Cast", {"i"}, {"f"}, {{"to", std::int64_t{1}}})).add(node("Mul", {"x", "f"}, {"y"})); }, Holding::constant, "the gradient does not reach it"},
    {"bias_of_a_recurrence", [](Model& m) { recurrence(m, filled_tensor("w", {1, 12}, 0), {}); }, Holding::trained, "B of GRU"},
    {"unnamed_bias_of_a_recurrence", [](Model& m) { recurrence(m, filled_tensor("w", {1, 12}, 0), {}); state_kind(m, "W", "PARAMETER"); }, Holding::trained, "B of GRU"},
    {"first_state_of_zeros", [](Model& m) { recurrence(m, {}, filled_tensor("w", {1, 1, 2}, 0)); }, Holding::constant, "the first state of a recurrence", false},
    {"first_state_of_a_loop", [](Model& m) { loop(m, vector_of(std::vector<float>(8, 0)), false); }, Holding::constant, "the first state of a loop", false},
    {"learned_first_state_of_a_loop", [](Model& m) { loop(m, vector_of(arbitrary(8)), false); }, Holding::trained, "input 2 of Loop", false},
    {"zeros_that_a_loop_hands_on", [](Model& m) { loop(m, vector_of(std::vector<float>(8, 0)), true); }, Holding::trained, "input 2 of Loop", false},
    {"learned_first_state", [](Model& m) { recurrence(m, {}, float_tensor("w", {1, 1, 2}, arbitrary(2))); }, Holding::trained, "initial_h of GRU"},
    {"first_state_of_zeros_that_is_a_parameter", [](Model& m) { recurrence(m, {}, filled_tensor("w", {1, 1, 2}, 0)); state_kind(m, "w", "PARAMETER"); }, Holding::trained, "the file: PARAMETER"},
    {"unread", [](Model& m) { m.add(vector_of(arbitrary(8))).add(node("Relu", {"x"}, {"y"})); }, Holding::constant, "no output of the model depends on it"},
    {"matrix_through_a_view", [](Model& m) { m.add(float_tensor("w", {8, 8}, arbitrary(64))).add(node("Transpose", {"w"}, {"t"})).add(node("MatMul", {"x", "t"}, {"y"})); }, Holding::trained, "B of MatMul"},
    {"matrix_with_values_not_finite", [](Model& m) { m.add(filled_tensor("w", {8, 8}, inf)).add(node("MatMul", {"x", "w"}, {"y"})); }, Holding::trained, "B of MatMul"},
    {"bias_of_a_product", [](Model& m) { m.add(float_tensor("k", {8, 1}, arbitrary(8))).add(filled_tensor("470", {1})).add(node("MatMul", {"x", "k"}, {"h"})).add(node("Add", {"470", "h"}, {"y"})); }, Holding::trained, "A of Add", true, "470"},
    // Values
    {"mask_of_infinities", [](Model& m) { binary(m, "Add", vector_of({0, -inf, -inf, 0, 0, 0, 0, 0})); }, Holding::constant, "not finite"},
    {"mask_of_large_numbers", [](Model& m) { binary(m, "Add", vector_of({0, -1e4F, 1, 0, 0, -3e38F, 0, 0})); }, Holding::constant, "a mask", false},
    {"mask_of_hundreds", [](Model& m) { binary(m, "Add", vector_of({0, -100, -100, 0, 0, 0, 0, 0})); }, Holding::constant, "a mask", false},
    {"mask_of_pruning", [](Model& m) { binary(m, "Mul", vector_of({0, 1, 1, 0, 1, 0, 1, 1})); }, Holding::constant, "a mask", false},
    {"nearly_a_mask", [](Model& m) { binary(m, "Add", vector_of({0, -9e3F, 1, 0, 0, 0, 0, 0})); }, Holding::trained, "the gradient reaches it", false},
    {"only_ones", [](Model& m) { binary(m, "Mul", filled_tensor("w", {8}, 1)); }, Holding::trained, "the gradient reaches it", false},
    {"only_zeros", [](Model& m) { binary(m, "Add", filled_tensor("w", {8}, 0)); }, Holding::trained, "the gradient reaches it", false},
    {"table_of_sines", [](Model& m) { m.add(float_tensor("w", {1, 64, 8}, positions(64, 8))).add(node("Add", {"x", "w"}, {"y"})); }, Holding::constant, "table of sines", false},
    {"four_places_of_sines", [](Model& m) { m.add(float_tensor("w", {1, 4, 8}, positions(4, 8))).add(node("Add", {"x", "w"}, {"y"})); }, Holding::constant, "table of sines", false},
    {"four_places_of_too_few_sines", [](Model& m) { m.add(float_tensor("w", {1, 4, 1}, positions(4, 1))).add(node("Add", {"x", "w"}, {"y"})); }, Holding::trained, "the gradient reaches it", false},
    {"frozen_table_to_pick_from", [](Model& m) { m.input("i", "N", onnx::TensorProto::INT64).add(float_tensor("w", {64, 8}, positions(64, 8))).add(node("Gather", {"w", "i"}, {"g"})).add(node("Add", {"x", "g"}, {"y"})); state_kind(m, "w", "PARAMETER"); }, Holding::constant, "PARAMETER, but", false},
    {"parameter_to_pick_from", [](Model& m) { m.input("i", "N", onnx::TensorProto::INT64).add(float_tensor("w", {64, 8}, arbitrary(512))).add(node("Gather", {"w", "i"}, {"g"})).add(node("Add", {"x", "g"}, {"y"})); state_kind(m, "w", "PARAMETER"); }, Holding::trained, "the file: PARAMETER"},
    {"table_to_pick_from", [](Model& m) { m.input("i", "N", onnx::TensorProto::INT64).add(float_tensor("w", {64, 8}, positions(64, 8))).add(node("Gather", {"w", "i"}, {"g"})).add(node("Add", {"x", "g"}, {"y"})); }, Holding::constant, "table of sines", false},
    {"decays_by_head", [](Model& m) { m.add(float_tensor("w", {2, 8, 8}, decays())).add(node("Mul", {"x", "w"}, {"y"})); }, Holding::constant, "by the distance from a diagonal", false},
    {"nearly_decays", [](Model& m) { std::vector<float> w = decays(); w[8] += 0.01F; m.add(float_tensor("w", {2, 8, 8}, w)).add(node("Mul", {"x", "w"}, {"y"})); }, Holding::trained, "the gradient reaches it", false},
    {"learned_positions", [](Model& m) { m.add(float_tensor("w", {1, 64, 8}, arbitrary(512))).add(node("Add", {"x", "w"}, {"y"})); }, Holding::trained, "the gradient reaches it", false},
    {"frequencies", [](Model& m) { std::vector<float> f; for (int i = 0; i < 8; ++i) f.push_back(static_cast<float>(std::pow(10000.0, -i / 8.0))); binary(m, "Mul", vector_of(f)); }, Holding::constant, "progression", false},
    {"range", [](Model& m) { binary(m, "Sub", vector_of({0, 1, 2, 3, 4, 5, 6, 7})); }, Holding::constant, "progression", false},
    // Numbers
    {"number_of_a_module", [](Model& m) { binary(m, "Mul", number("block.0.alpha", 0)); }, Holding::trained, "the gradient reaches it", false, "block.0.alpha"},
    {"number_of_its_own_name", [](Model& m) { binary(m, "Mul", number("temperature", 1)); }, Holding::trained, "the gradient reaches it", false, "temperature"},
    {"number_counted", [](Model& m) { binary(m, "Mul", number("onnx::Mul_31", 0.5F)); }, Holding::constant, "by its name", false, "onnx::Mul_31"},
    {"number_of_a_graph", [](Model& m) { binary(m, "Mul", number("dense/mul/y:0", 0.5F)); }, Holding::constant, "by its name", false, "dense/mul/y:0"},
    {"number_of_a_variable", [](Model& m) { binary(m, "Mul", number("gate/ReadVariableOp:0", 0.5F)); }, Holding::trained, "the gradient reaches it", true, "gate/ReadVariableOp:0"},
    {"number_called_scalar", [](Model& m) { binary(m, "Mul", number("scalar_float_1", 1)); }, Holding::constant, "by its name", false, "scalar_float_1"},
    {"number_word", [](Model& m) { binary(m, "Mul", number("two", 2)); }, Holding::constant, "by its name", false, "two"},
    {"large_epsilon", [](Model& m) { m.add(vector_of(arbitrary(8), "v")).add(number("w", 0.25F)).add(node("Exp", {"v"}, {"q"})).add(node("Add", {"w", "q"}, {"a"})).add(node("Sqrt", {"a"}, {"r"})).add(node("Div", {"x", "r"}, {"y"})); }, Holding::constant, "an epsilon"},
    {"square", [](Model& m) { binary(m, "Pow", number("power", 2)); }, Holding::constant, "an exponent", false, "power"},
    {"learned_exponent", [](Model& m) { binary(m, "Pow", number("pool.p", 3)); }, Holding::trained, "the gradient reaches it", false, "pool.p"},
    {"tensor_counted", [](Model& m) { binary(m, "Mul", vector_of(arbitrary(8), "onnx::Mul_31")); }, Holding::trained, "the gradient reaches it", false, "onnx::Mul_31"},
    {"bias_by_name", [](Model& m) { binary(m, "Add", vector_of(arbitrary(8), "norm.bias")); }, Holding::trained, "the gradient reaches it", true, "norm.bias"},
    // Constant nodes
    {"node_of_a_formula", [](Model& m) { m.add(constant(vector_of(arbitrary(8), ""), "w")).add(node("Mul", {"x", "w"}, {"y"})); }, Holding::constant, "a Constant node", false},
    {"node_of_one_number", [](Model& m) { m.add(constant(number("", 2), "w")).add(node("Mul", {"x", "w"}, {"y"})); }, Holding::constant, "a Constant node"},
    {"matrix_in_a_node", [](Model& m) { m.add(constant(float_tensor("", {8, 8}, arbitrary(64)), "w")).add(node("MatMul", {"x", "w"}, {"y"})); }, Holding::trained, "B of MatMul"},
    {"fill_in_a_formula", [](Model& m) { m.add(int_tensor("s", {1}, {8})).add(node("ConstantOfShape", {"s"}, {"w"})).add(vector_of(arbitrary(8), "b")).add(node("Mul", {"x", "b"}, {"h"})).add(node("Add", {"h", "w"}, {"y"})); }, Holding::constant, "a Constant node", false},
    {"fill_where_matrices_are_nodes", [](Model& m) { m.add(int_tensor("s", {1}, {8})).add(int_tensor("t", {2}, {8, 8})).add(node("ConstantOfShape", {"s"}, {"w"})).add(node("ConstantOfShape", {"t"}, {"k"})).add(node("MatMul", {"x", "k"}, {"h"})).add(node("Mul", {"h", "w"}, {"y"})); }, Holding::trained, "the gradient reaches it", false},
    {"bias_in_a_node", [](Model& m) { m.add(constant(float_tensor("", {8, 8}, arbitrary(64)), "k")).add(constant(vector_of(arbitrary(8), ""), "w")).add(node("MatMul", {"x", "k"}, {"h"})).add(node("Add", {"h", "w"}, {"y"})); }, Holding::trained, "the gradient reaches it"},
    {"matrix_in_a_node_beside_initializers", [](Model& m) { m.add(constant(float_tensor("", {8, 8}, arbitrary(64)), "w")).add(float_tensor("k", {8, 8}, arbitrary(64))).add(node("MatMul", {"x", "w"}, {"h"})).add(node("MatMul", {"h", "k"}, {"y"})); }, Holding::constant, "the model's weights are initializers", false},
    {"bias_of_a_product_through_a_view", [](Model& m) { m.add(constant(float_tensor("", {8, 8}, arbitrary(64)), "k")).add(constant(vector_of(arbitrary(8), ""), "w")).add(int_tensor("s", {2}, {1, 8})).add(node("MatMul", {"x", "k"}, {"h"})).add(node("Reshape", {"w", "s"}, {"r"})).add(node("Add", {"h", "r"}, {"y"})); }, Holding::trained, "the gradient reaches it"},
    {"bias_of_one_number_in_a_node", [](Model& m) { m.add(constant(float_tensor("", {8, 1}, arbitrary(8)), "k")).add(constant(vector_of({0.3F}, ""), "w")).add(node("MatMul", {"x", "k"}, {"h"})).add(node("Add", {"h", "w"}, {"y"})); }, Holding::trained, "the gradient reaches it"},
    {"scale_through_a_view", [](Model& m) { m.add(constant(float_tensor("", {8, 8}, arbitrary(64)), "k")).add(constant(vector_of(arbitrary(8), ""), "w")).add(int_tensor("s", {2}, {1, 8})).add(node("MatMul", {"x", "k"}, {"h"})).add(node("Reshape", {"w", "s"}, {"r"})).add(node("Mul", {"h", "r"}, {"i"})).add(node("Softmax", {"i"}, {"y"})); }, Holding::trained, "the gradient reaches it", false},
    {"number_beside_a_matrix_in_a_node", [](Model& m) { m.add(constant(float_tensor("", {8, 8}, arbitrary(64)), "k")).add(constant(number("", 0.3F), "w")).add(node("MatMul", {"x", "k"}, {"h"})).add(node("Mul", {"h", "w"}, {"i"})).add(node("Softmax", {"i"}, {"y"})); }, Holding::constant, "a Constant node"},
    {"grid_in_a_node", [](Model& m) { m.add(constant(float_tensor("", {8, 8}, arbitrary(64)), "k")).add(constant(vector_of({3, 4, 6, 5, 4, 3, 6, 5}, ""), "w")).add(node("MatMul", {"x", "k"}, {"h"})).add(node("Mul", {"h", "w"}, {"i"})).add(node("Softmax", {"i"}, {"y"})); }, Holding::constant, "whole numbers", false},
    {"learnt_epsilon", [](Model& m) { signed_products(m, "eps", "%add", vector_of(arbitrary(8), "v")); m.add(number("w", 1e-3F)).add(node("Mul", {"y", "y"}, {"q"})).add(node("Add", {"q", "w"}, {"a"})).add(node("Sqrt", {"a"}, {"r"})).add(node("Div", {"y", "r"}, {"z"})).output("z"); state_computed(m, "w", "['eps']"); }, Holding::trained, "computed from 'eps'"},
    {"epsilon_of_a_module", [](Model& m) { m.add(vector_of(arbitrary(8), "v")).add(number("frn.eps", 1e-5F)).add(node("Exp", {"v"}, {"q"})).add(node("Add", {"q", "frn.eps"}, {"a"})).add(node("Sqrt", {"a"}, {"r"})).add(node("Div", {"x", "r"}, {"y"})); }, Holding::trained, "the gradient reaches it", false, "frn.eps"},
    {"moving_mean_as_keras_writes_it", [](Model& m) { for (const char* n : {"v", "g", "b"}) m.add(vector_of(arbitrary(8), n)); m.add(vector_of(arbitrary(8))).add(number("e", 1e-3F)).add(node("Add", {"v", "e"}, {"a"})).add(node("Sqrt", {"a"}, {"s"})).add(node("Reciprocal", {"s"}, {"r"})).add(node("Mul", {"r", "g"}, {"i"})).add(node("Mul", {"x", "i"}, {"h"})).add(node("Mul", {"w", "i"}, {"j"})).add(node("Sub", {"b", "j"}, {"k"})).add(node("Add", {"h", "k"}, {"y"})); }, Holding::statistic, "written out"},
    {"scale_as_keras_writes_it", [](Model& m) { for (const char* n : {"v", "m", "b"}) m.add(vector_of(arbitrary(8), n)); m.add(vector_of(arbitrary(8))).add(number("e", 1e-3F)).add(node("Add", {"v", "e"}, {"a"})).add(node("Sqrt", {"a"}, {"s"})).add(node("Reciprocal", {"s"}, {"r"})).add(node("Mul", {"r", "w"}, {"i"})).add(node("Mul", {"x", "i"}, {"h"})).add(node("Mul", {"m", "i"}, {"j"})).add(node("Sub", {"b", "j"}, {"k"})).add(node("Add", {"h", "k"}, {"y"})); }, Holding::trained, "the gradient reaches it", false},
    // What users say
    {"said_trainable", [](Model& m) { binary(m, "Add", vector_of({0, -1e4F, 1, 0, 0, 0, 0, 0})); }, Holding::trained, "option trainable w*", true, "w", {.trainable = {"w*"}}},
    {"said_constant", [](Model& m) { m.add(float_tensor("w", {8, 8}, arbitrary(64))).add(node("MatMul", {"x", "w"}, {"y"})); }, Holding::constant, "option constant ?", true, "w", {.constant = {"?"}}},
    {"said_against_the_file", [](Model& m) { binary(m, "Mul", vector_of(arbitrary(8))); state_kind(m, "w", "BUFFER"); }, Holding::trained, "option trainable w", true, "w", {.trainable = {"w"}}},
    {"node_said_trainable", [](Model& m) { m.add(constant(vector_of(arbitrary(8), ""), "w")).add(node("Mul", {"x", "w"}, {"y"})); }, Holding::trained, "option trainable w", true, "w", {.trainable = {"w"}}},
};
// clang-format on

class WeightRule : public testing::TestWithParam<Row> {};

TEST_P(WeightRule, Decides) {
  const Row& row = GetParam();
  Model m;
  m.input("x", "N,8").output("y");
  row.build(m);
  const ModelFile file = ModelFile::parse(m.bytes(), {}, row.options);
  const auto found =
      std::find_if(file.tensors().begin(), file.tensors().end(), [&](const TemplateTensor& t) { return t.name == row.tensor; });
  ASSERT_NE(found, file.tensors().end());
  EXPECT_EQ(name_of(found->holding), name_of(row.holding)) << found->reason;
  EXPECT_NE(found->reason.find(row.reason), std::string::npos) << found->reason;
  EXPECT_EQ(found->certain, row.certain) << found->reason;
  const std::vector<Problem> problems = file.problems({.batch = 2});
  const bool said = std::any_of(file.tensors().begin(), file.tensors().end(), [](const TemplateTensor& t) { return !t.certain; });
  if (!problems.empty()) return;
  const Graph graph = file.graph({.batch = 2});
  EXPECT_EQ(std::any_of(graph.warnings.begin(), graph.warnings.end(),
                        [](const std::string& s) { return s.starts_with("a guess, as the file does not say it: "); }),
            said);
  bool trainable = false;
  for (const Value& v : graph.values) trainable = trainable || (v.name == row.tensor && v.trainable);
  EXPECT_EQ(trainable, row.holding == Holding::trained);
}
INSTANTIATE_TEST_SUITE_P(Rows, WeightRule, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

struct Refused {
  const char* what;
  WeightOptions options;
  const char* message;
};

TEST(WeightOptions, ThatContradictTheModelAreRefused) {
  Model m;
  m.input("x", "N,8").output("y").add(float_tensor("w", {8, 8}, arbitrary(64))).add(float_tensor("v", {8, 4}, arbitrary(32)));
  m.add(vector_of(arbitrary(8), "b")).add(number("top", 6)).add(vector_of(arbitrary(8), "mean")).add(filled_tensor("one", {8}, 1));
  m.add(node("MatMul", {"x", "w"}, {"h"}))
      .add(node("Clip", {"h", "", "top"}, {"c"}))
      .add(node("BatchNormalization", {"c", "one", "b", "mean", "one"}, {"n"}));
  m.add(number("share", 0.5F)).add(node("MatMul", {"n", "v"}, {"p"})).add(node("Dropout", {"p", "share"}, {"y"}));
  const Refused refused[] = {
      {"both", {.trainable = {"w"}, .constant = {"w"}}, "'w' is named by option constant 'w' too"},
      {"a ratio", {.trainable = {"share"}}, "ratio of Dropout"},
      {"a statistic", {.trainable = {"mean"}}, "a running statistic"},
      {"an unknown leader", {.tie = {{"q", "w"}}}, "no initializer 'q'"},
      {"shapes", {.tie = {{"w", "v"}}}, "float32[8,8] and float32[8,4]"},
      {"itself", {.tie = {{"w", "w"}}}, "tied to itself"},
      {"one reader", {.untie = {"w"}}, "that several nodes read"},
  };
  for (const Refused& row : refused) {
    SCOPED_TRACE(row.what);
    try {
      ModelFile::parse(m.bytes(), {}, row.options);
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos) << error.what();
    }
  }
}

TEST(Outline, ShowsWhatItCanOfAModelThatCannotBeUsed) {
  Model m;
  m.input("x", "N,8")
      .output("y")
      .add(float_tensor("w", {8, 4}, arbitrary(32)))
      .add(node("MatMul", {"x", "w"}, {"h"}))
      .add(node("NoSuchOperator", {"h"}, {"g"}))
      .add(node("Relu", {"g"}, {"y"}));
  const std::vector<OutlineNode> nodes = m.parse().outline({.batch = 2});
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[0].output->shape, (Shape{2, 4}));
  EXPECT_EQ(nodes[0].reads, std::vector<std::string>{"w"});
  EXPECT_EQ(nodes[1].op, "NoSuchOperator");
  EXPECT_FALSE(nodes[1].output || nodes[2].output);
}

}  // namespace
}  // namespace tandem::test
