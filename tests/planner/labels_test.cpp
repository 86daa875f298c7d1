// What labels look like follows from loss, value and options alone; and what follows the batch from two batch sizes.
#include "planner/loss/labels.h"

#include <gtest/gtest.h>

#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using small_models::Builder;
using Make = ValueId (*)(Builder&, ValueId x, std::int64_t n);

struct Row {
  const char* name;
  Shape x;  // of one sample
  Make make;
  const char* loss;
  std::optional<int> class_axis;
  bool dense;
  const char* wanted;  // "scores axis sample classes"; or a part of the error
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

GraphSource source_of(const Row& row) {
  return [&row](std::int64_t n) {
    Builder b;
    Shape x = row.x;
    x.dims.insert(x.dims.begin(), n);
    const ValueId in = b.node("Relu", {b.graph.add_input("x", {DType::float32, x})});
    b.graph[in].name = "inner";
    b.graph.outputs = {row.make(b, in, n)};
    b.graph[b.graph.outputs[0]].name = "y";
    return b.graph;
  };
}

CompileOptions options_of(const Row& row) {
  CompileOptions o;
  o.batch = 4;
  o.loss.name = row.loss;
  o.loss.class_axis = row.class_axis;
  o.loss.dense_labels = row.dense;
  return o;
}

std::string text_of(const Labels& l) {
  return concat(l.scores, ' ', l.axis, ' ', l.sample ? to_string(*l.sample) : "none", ' ', l.classes);
}

ValueId same(Builder& b, ValueId x, std::int64_t) {
  return b.node("Neg", {x});
}
// Behind a layer of `classes` features along the last axis, and its bias.
template <std::int64_t classes>
ValueId projected(Builder& b, ValueId x, std::int64_t) {
  const Shape& from = b.graph[x].type.shape;
  return b.node("Add", {b.node("MatMul", {x, b.weight("w", {from[from.rank() - 1], classes}, 1)}), b.weight("b", {classes}, 1)});
}
ValueId reshaped(Builder& b, ValueId x, const Ints& shape) {
  return b.node("Reshape", {x}, {{"shape", shape}});
}
// The same, written as a product of rows whose samples are put together again.
ValueId by_rows(Builder& b, ValueId x, std::int64_t n) {
  const ValueId y = b.node("Gemm", {reshaped(b, x, {-1, 8}), b.weight("w", {8, 6}, 1), b.weight("b", {6}, 1)});
  return reshaped(b, y, {n, 6, 6});
}
ValueId turned(Builder& b, ValueId x, std::int64_t n) {
  return b.node("Transpose", {projected<6>(b, x, n)}, {{"perm", Ints{0, 2, 1}}});
}
ValueId softmax(Builder& b, ValueId x, std::int64_t) {
  return b.node("Softmax", {x}, {{"axis", std::int64_t{-1}}});
}
ValueId first_softmax(Builder& b, ValueId x, std::int64_t) {
  return b.node("Softmax", {x}, {{"axis", std::int64_t{1}}});
}
ValueId flat(Builder& b, ValueId x, std::int64_t n) {  // [n,T,C] as [n·T,C]
  const Shape& s = b.graph[x].type.shape;
  return b.node("Reshape", {x}, {{"shape", Ints{n * s[1], s[2]}}});
}
ValueId softmax_flat(Builder& b, ValueId x, std::int64_t n) {
  return flat(b, softmax(b, x, n), n);
}
ValueId flat_softmax(Builder& b, ValueId x, std::int64_t n) {
  return softmax(b, flat(b, x, n), n);
}
ValueId sigmoid(Builder& b, ValueId x, std::int64_t) {
  return b.node("Sigmoid", {x});
}
ValueId mean(Builder& b, ValueId x, std::int64_t) {
  return b.node("ReduceMean", {x}, {{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}});
}
ValueId elsewhere(Builder& b, ValueId x, std::int64_t) {
  return b.node("Transpose", {x}, {{"perm", Ints{1, 0}}});
}

constexpr const char *ce = "softmax-cross-entropy", *bce = "binary-cross-entropy";
// clang-format off
const Row rows[] = {
    {"classes", {10}, same, ce, {}, false, "[10] 0 int64[] 10"},
    {"ones_before", {1, 10}, same, ce, {}, false, "[1,10] 1 int64[] 10"},
    {"dense", {10}, same, ce, {}, true, "[10] 0 float32[10] 10"},
    {"ones_behind", {10, 1, 1}, same, ce, {}, false, "[10,1,1] 0 int64[] 10"},
    {"images", {5, 4, 3}, same, ce, {}, false, "[5,4,3] 0 int64[4,3] 5"},
    {"images_softmax", {5, 4, 3}, first_softmax, ce, {}, false, "[5,4,3] 0 int64[4,3] 5"},
    {"classes_last_by_softmax", {6, 20}, softmax, ce, {}, false, "[6,20] 1 int64[6] 20"},
    {"classes_last_asked", {6, 20}, same, ce, -1, false, "[6,20] 1 int64[6] 20"},
    {"axis_out_of_range", {6, 20}, same, ce, 3, false, "option class_axis 3: 'y' is float32[4,6,20], expected an axis of 1 to 2"},
    {"axis_of_the_batch", {6, 20}, same, ce, 0, false, "option class_axis 0"},
    {"axis_against_softmax", {6, 20}, softmax, ce, 1, false, "option class_axis 1: the softmax of 'y' float32[4,6,20] is over axis 2"},
    {"flattened", {7, 5}, flat, ce, {}, false, "[7,5] 1 int64[7] 5"},
    {"flattened_behind_softmax", {7, 5}, softmax_flat, ce, {}, false, "[7,5] 1 int64[7] 5"},
    {"flattened_before_softmax", {7, 5}, flat_softmax, ce, {}, false, "[7,5] 1 int64[7] 5"},
    {"flattened_dense", {7, 5}, flat, ce, {}, true, "[7,5] 1 float32[7,5] 5"},
    {"flattened_regression", {7, 5}, flat, "mse", {}, false, "[7,5] -1 float32[7,5] 0"},
    {"one_probability", {1}, sigmoid, bce, {}, false, "[1] -1 int64[] 2"},
    {"one_probability_dense", {1}, sigmoid, bce, {}, true, "[1] -1 float32[1] 2"},
    {"probabilities", {6}, sigmoid, bce, {}, false, "[6] -1 float32[6] 0"},
    {"regression", {3}, same, "mse", {}, false, "[3] -1 float32[3] 0"},
    {"no_batch", {3}, mean, "l1", {}, false, "'y' does not grow with the batch along axis 0: it is float32[3] for 4 samples, [3] for 8"},
    {"no_batch_of_its_size", {4}, mean, "l1", {}, false, "'y' does not grow with the batch"},
    {"batch_elsewhere", {4}, elsewhere, "mse", {}, false, "'y' does not grow with the batch along axis 0"},
    {"own_loss", {3}, mean, "output", {}, false, "[] -1 none 0"},
    {"unknown_loss", {3}, same, "softmax-cros-entropy", {}, false, "loss 'softmax-cros-entropy' is unknown, did you mean 'softmax-cross-entropy'?"},
    {"of_a_layer", {6, 8}, projected<20>, ce, {}, false, "[6,20] 1 int64[6] 20"},
    {"of_a_layer_turned", {6, 8}, turned, ce, {}, false, "[6,6] 0 int64[6] 6"},
    {"of_keras", {10}, same, "sparse_categorical_crossentropy", {}, false, "[10] 0 int64[] 10"},
    {"of_pytorch", {1}, same, "BCEWithLogitsLoss", {}, false, "[1] -1 int64[] 2"},
    {"shares", {10}, same, "KLDivLoss", {}, false, "[10] 0 float32[10] 10"},
    {"three", {3, 4}, same, "triplet", {}, false, "[3,4] -1 none 0"},
    {"not_three", {4}, same, "triplet", {}, false, "loss triplet needs a value [N,3,...]"},
    {"ctc", {4}, same, "CTCLoss", {}, false, "loss ctc needs a value [N,"},
    {"a_parameter", {4}, same, "huber:delta=0.5", {}, false, "[4] -1 float32[4] 0"},
    {"not_its_parameter", {4}, same, "huber:beta=0.5", {}, false, "loss 'huber:beta=0.5': huber takes no 'beta=0.5'"},
    {"of_an_output", {4}, same, "y=mse*0.3", {}, false, "[4] -1 float32[4] 0"},
    {"outputs_unsaid", {4}, same, "mse,l1", {}, false, "loss 'mse,l1': with several losses, name the output of each"},
};
// clang-format on

class LabelRows : public testing::TestWithParam<Row> {};
TEST_P(LabelRows, FollowLossAndValue) {
  const Row& row = GetParam();
  std::string got;
  try {
    got = text_of(labels_of(source_of(row), options_of(row)));
  } catch (const Error& e) {
    got = e.what();
  }
  EXPECT_EQ(got.substr(0, std::string(row.wanted).size()), row.wanted);
}
INSTANTIATE_TEST_SUITE_P(All, LabelRows, testing::ValuesIn(rows), [](const auto& info) { return info.param.name; });

struct FitRow {
  const char* name;
  Shape x;
  Make make;
  TensorType given;
  std::optional<int> class_axis;  // what comes of it
  bool dense, says;
};
void PrintTo(const FitRow& row, std::ostream* out) {
  *out << row.name;
}
const DType i64 = DType::int64, f32 = DType::float32;
const FitRow fit_rows[] = {
    {"plain", {10}, same, {i64, {}}, {}, false, false},
    {"one_hot", {10}, same, {f32, {10}}, {}, true, false},
    {"one_hot_of_integers", {10}, same, {i64, {10}}, {}, true, false},
    {"classes_first", {5, 4, 3}, same, {i64, {4, 3}}, 1, false, false},
    {"classes_last", {6, 20}, same, {i64, {6}}, 2, false, false},
    {"classes_last_with_one", {6, 20}, same, {i64, {6, 1}}, 2, false, false},
    {"one_before", {1, 20}, same, {i64, {}}, {}, false, false},
    {"both_fit", {6, 6}, same, {i64, {6}}, 1, false, true},
    {"none_fits", {6, 20}, same, {i64, {7}}, {}, false, false},
    {"both_fit_behind_a_layer", {6, 8}, projected<6>, {i64, {6}}, 2, false, true},
    {"both_fit_behind_rows", {6, 8}, by_rows, {i64, {6}}, 2, false, true},
    {"both_fit_behind_a_turned_layer", {6, 8}, turned, {i64, {6}}, 1, false, true},
    {"flattened", {7, 7}, flat, {i64, {7}}, {}, false, false},
    {"softmax_says", {6, 6}, softmax, {i64, {6}}, {}, false, false},
};

class FitRows : public testing::TestWithParam<FitRow> {};
TEST_P(FitRows, ChooseTheAxisByTheLabels) {
  const FitRow& row = GetParam();
  const Row model{row.name, row.x, row.make, ce, {}, false, ""};
  CompileOptions o = options_of(model);
  const std::string assumed = fit_labels(source_of(model), o, row.given);
  EXPECT_EQ(o.loss.class_axis, row.class_axis);
  EXPECT_EQ(o.loss.dense_labels, row.dense);
  EXPECT_EQ(!assumed.empty(), row.says) << assumed;
  if (row.says) {
    EXPECT_NE(assumed.find(concat("axis ", *row.class_axis, " is taken; option class_axis names another")), std::string::npos) << assumed;
  }
}
INSTANTIATE_TEST_SUITE_P(All, FitRows, testing::ValuesIn(fit_rows), [](const auto& info) { return info.param.name; });

TEST(Labels, AnAssumedAxisIsSaid) {
  const Row row{"", {6, 20}, same, ce, {}, false, ""};
  EXPECT_EQ(labels_of(source_of(row), options_of(row)).assumed,
            "the classes of 'y' float32[4,6,20] are taken to stand on axis 1; option class_axis names another");
  const Row plain{"", {6}, same, ce, {}, false, ""}, images{"", {6, 1, 1}, same, ce, {}, false, ""};
  EXPECT_EQ(labels_of(source_of(plain), options_of(plain)).assumed, "");
  EXPECT_EQ(labels_of(source_of(images), options_of(images)).assumed, "");
}

TEST(Labels, ScoresOfOneClassAreRefused) {
  for (const char* loss : {ce, "focal"}) {
    const Row row{"", {1}, same, loss, {}, false, ""};
    try {
      labels_of(source_of(row), options_of(row));
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      EXPECT_EQ(std::string(e.what()), concat("'y' float32[4,1] holds scores of one class alone, of which the loss ", loss,
                                              " is always the same; option loss mse is for numbers, binary-cross-entropy for yes and no"));
    }
  }
}

// Of one number a sample, where nobody chose.
TEST(Labels, OneNumberHasALossOfItsOwn) {
  struct {
    Shape x;
    Make make;
    const char* wanted;
  } const rows[] = {{{1}, same, "mse"}, {{1}, sigmoid, "binary-cross-entropy"}, {{}, same, "mse"}, {{}, sigmoid, "binary-cross-entropy"}, {{1, 5, 6}, same, "mse"}, {{1, 5, 6}, sigmoid, "binary-cross-entropy"},
                    {{2}, same, ""}, {{2}, softmax, ""}, {{5, 4, 4}, same, ""}};
  for (const auto& r : rows) {
    const Row row{"", r.x, r.make, ce, {}, false, ""};
    CompileOptions o = options_of(row);
    EXPECT_EQ(loss_of_one_number(source_of(row), o), "");
    o.loss.assumed = true;
    EXPECT_EQ(loss_of_one_number(source_of(row), o), r.wanted) << to_string(r.x);
  }
}

ValueId sum_of(Builder& b, ValueId x) { return b.node("ReduceSum", {x}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{1}}}); }
ValueId constant_of(Builder& b, float value) { return b.graph.add_constant(concat("c", b.graph.values.size()), Tensor::scalar(value)); }
ValueId one_against_all(Builder& b, ValueId x) {
  const ValueId p = b.node("Sigmoid", {x});
  return b.node("Div", {p, sum_of(b, p)});
}
ValueId smoothed(Builder& b, ValueId x) {
  const ValueId p = b.node("Relu", {x});
  return b.node("Div", {p, b.node("Add", {sum_of(b, p), constant_of(b, 1e-6F)})});
}
ValueId of_counts(Builder& b, ValueId x) {
  const ValueId p = b.node("Mul", {x, x});
  return b.node("Identity", {b.node("Div", {p, b.node("Max", {sum_of(b, p), constant_of(b, 1e-12F)})})});
}
ValueId naive_bayes(Builder& b, ValueId x) {
  return b.node("Exp", {b.node("Sub", {x, b.node("ReduceLogSumExp", {x}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{1}}})})});
}
ValueId exponential(Builder& b, ValueId x) { return b.node("Exp", {b.node("LogSoftmax", {x}, {{"axis", std::int64_t{1}}})}); }
ValueId any_sign(Builder& b, ValueId x) { return b.node("Div", {x, sum_of(b, x)}); }
ValueId other_sum(Builder& b, ValueId x) {
  const ValueId p = b.node("Sigmoid", {x});
  return b.node("Div", {p, sum_of(b, b.node("Exp", {x}))});
}
ValueId over_the_batch(Builder& b, ValueId x) {
  const ValueId p = b.node("Sigmoid", {x});
  return b.node("Div", {p, b.node("ReduceSum", {p}, {{"axes", Ints{0}}, {"keepdims", std::int64_t{1}}})});
}

TEST(Labels, ProbabilitiesWithoutASoftmaxAreKnownByTheirFormula) {
  struct {
    const char* name;
    ValueId (*make)(Builder&, ValueId);
    OutputKind kind;
    bool normalized;
  } const rows[] = {{"one_against_all", one_against_all, OutputKind::softmax, true}, {"smoothed", smoothed, OutputKind::softmax, true}, {"of_counts", of_counts, OutputKind::softmax, true},
                    {"naive_bayes", naive_bayes, OutputKind::softmax, false}, {"exponential", exponential, OutputKind::softmax, false}, {"any_sign", any_sign, OutputKind::plain, false},
                    {"other_sum", other_sum, OutputKind::plain, false}, {"over_the_batch", over_the_batch, OutputKind::plain, false}};
  for (const auto& row : rows) {
    Builder b;
    const ValueId x = b.graph.add_input("x", {DType::float32, {4, 3}});
    b.graph.outputs = {row.make(b, x)};
    const FinalScores s = find_scores(b.graph, b.graph.outputs[0], loss_row(ce));
    EXPECT_EQ(s.kind, row.kind) << row.name;
    EXPECT_EQ(s.normalized, row.normalized) << row.name;
    EXPECT_EQ(s.axis, row.kind == OutputKind::softmax ? 1 : -1) << row.name;
    EXPECT_EQ(find_scores(b.graph, b.graph.outputs[0], loss_row("mse")).kind, OutputKind::plain) << row.name;
  }
}

// As classifiers have it that give the class before the scores.
TEST(Labels, IntegersAreNoScores) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::float32, {4, 3}});
  const ValueId best = graph[graph.add_node(*find_operator("ArgMax"), "best", {{"axis", std::int64_t{1}}}, {x}, 1)].outputs[0];
  const ValueId y = graph[graph.add_node(*find_operator("Relu"), "y", {}, {x}, 1)].outputs[0];
  graph.outputs = {best, y};
  EXPECT_EQ(loss_value(graph, {}), y);
  graph.outputs = {best};
  EXPECT_EQ(loss_value(graph, {}), best);
}

TEST(Labels, TheLossMayStandOnAnyValue) {
  const Row row{"", {6}, mean, ce, {}, false, ""};
  CompileOptions o = options_of(row);
  o.loss.on = "inner";
  const Labels l = labels_of(source_of(row), o);
  EXPECT_EQ(l.value, "inner");
  EXPECT_EQ(text_of(l), "[6] 0 int64[] 6");
}

TEST(Labels, RowsOfASampleByTwoBatches) {
  EXPECT_EQ(rows_per_sample({4, 3}, 4, {8, 3}, 8), 1);
  EXPECT_EQ(rows_per_sample({28, 3}, 4, {56, 3}, 8), 7);
  EXPECT_EQ(rows_per_sample({4, 3}, 4, {4, 3}, 8), 0);
  EXPECT_EQ(rows_per_sample({1}, 1, {1}, 2), 0);
  EXPECT_EQ(rows_per_sample({3, 4}, 4, {3, 8}, 8), 0);
  EXPECT_EQ(rows_per_sample({4, 4}, 4, {8, 8}, 8), 0);
  EXPECT_EQ(rows_per_sample({5}, 4, {9}, 8), 0);
  EXPECT_EQ(rows_per_sample({}, 4, {}, 8), 0);
}

}  // namespace
}  // namespace tandem
