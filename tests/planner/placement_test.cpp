// Placement by hand and by rule: what lies where, what moves, and that devices which do different things compute what one does.
#include <gtest/gtest.h>

#include <set>

#include "base/spec.h"
#include "graph/place.h"
#include "planner/plan/plan_file.h"
#include "tests/graph/notation.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;
using Kinds = std::multiset<std::string>;

// How a node's results lie where its operands lie so: "b" broadcast, "p" partial, "o" own, "0" split along axis 0, "0/4" with 4
// outside, "0/2:1:1" in runs of these widths. An operand that has to be moved first is written as it is needed, behind ">".
struct Rule {
  const char* name;
  const char* op;
  std::vector<std::string> inputs;  // in tests/graph/notation.h's form
  Attributes attributes;
  int outputs;
  std::vector<std::string> operands, results;
};
const Ints three{3, 3}, ones{1, 1}, pads{1, 1, 1, 1};
const Attributes window{{"kernel_shape", three}, {"strides", ones}, {"pads", pads}, {"dilations", ones}, {"group", std::int64_t{1}}};
Attributes with_shape(Attributes a, const char* name, Ints shape) {
  a.set(name, std::move(shape));
  return a;
}
Attributes with_groups(Attributes a, std::int64_t group) {
  a.set("group", group);
  return a;
}
const Attributes relu{{"activation", std::string("Relu")}};
const Attributes along_0{{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}}, along_1{{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}};
const Attributes lstm{{"cell", std::string("LSTM")}, {"direction", std::string("bidirectional")}};
Attributes slice_of(std::int64_t begin, std::int64_t end) {
  return {{"starts", Ints{begin}}, {"ends", Ints{end}}, {"axes", Ints{1}}, {"steps", Ints{1}}};
}
const Rule rules[] = {
    {"elementwise", "Mul", {"f[6,4]", "f[4]"}, {}, 1, {"0", "b"}, {"0"}},
    {"elementwise_of_a_part_and_all", "Mul", {"f[6,4]", "f[6,4]"}, {}, 1, {"0", "b>0"}, {"0"}},
    {"product_of_an_addend", "Mul", {"f[6,4]", "f[4]"}, {}, 1, {"p", "b"}, {"p"}},
    {"product_of_addends", "Mul", {"f[6,4]", "f[6,4]"}, {}, 1, {"p>b", "p>b"}, {"b"}},
    {"sum_of_addends", "Add", {"f[6,4]", "f[6,4]"}, {}, 1, {"p", "p"}, {"p"}},
    {"gradient_of_a_larger_weight", "InnerProductBackwardWeights", {"f[6,4]", "f[6,5]"}, {}, 2, {"b", "p"}, {"p", "p"}},
    {"dense_of_addends", "InnerProduct", {"f[6,4]", "f[3,4]"}, {}, 1, {"p", "b"}, {"p"}},
    {"dense_of_addends_with_a_bias", "InnerProduct", {"f[6,4]", "f[3,4]", "f[3]"}, {}, 1, {"p>b", "b", "b"}, {"b"}},
    {"gradient_of_a_weight_alone_of_addends", "InnerProductBackwardWeights", {"f[6,4]", "f[6,3]"}, {}, 1, {"p", "b"}, {"p"}},
    {"gradient_of_a_weight_and_a_bias_of_addends", "InnerProductBackwardWeights", {"f[6,4]", "f[6,3]"}, {}, 2, {"p>b", "b"}, {"b", "b"}},
    {"gradient_of_a_weight_larger_than_the_addends", "InnerProductBackwardWeights", {"f[2,4]", "f[2,5]"}, {}, 2, {"b", "p>b"}, {"b", "b"}},
    {"sum_of_an_addend_and_all", "Add", {"f[6,4]", "f[6,4]"}, {}, 1, {"p>b", "b"}, {"b"}},
    {"not_linear", "Exp", {"f[6,4]"}, {}, 1, {"p>b"}, {"b"}},
    {"of_its_own", "Exp", {"f[6,4]"}, {}, 1, {"o"}, {"o"}},
    {"view", "Reshape", {"f[6,4]"}, {{"shape", Ints{24}}}, 1, {"0"}, {"0"}},
    {"view_with_rows_outside", "Reshape", {"f[2,6,4]"}, {{"shape", Ints{12, 4}}}, 1, {"1"}, {"0/2"}},
    {"transpose", "Transpose", {"f[6,4]"}, {{"perm", Ints{1, 0}}}, 1, {"0"}, {"1"}},
    {"reduced_apart", "ReduceSum", {"f[6,4]"}, along_1, 1, {"0"}, {"0"}},
    {"summed", "ReduceSum", {"f[6,4]"}, along_0, 1, {"0"}, {"p"}},
    {"largest", "ReduceMax", {"f[6,4]"}, along_0, 1, {"0>b"}, {"b"}},
    {"product_by_rows", "MatMul", {"f[6,4]", "f[4,5]"}, {}, 1, {"0", "b"}, {"0"}},
    {"product_by_columns", "MatMul", {"f[4,5]", "f[5,6]"}, {}, 1, {"b", "1"}, {"1"}},
    {"product_over_parts", "MatMul", {"f[4,6]", "f[6,5]"}, {}, 1, {"1", "0"}, {"p"}},
    {"dense_by_samples", "InnerProduct", {"f[6,4]", "f[5,4]", "f[5]"}, {}, 1, {"0", "b", "b"}, {"0"}},
    {"dense_by_outputs", "InnerProduct", {"f[4,4]", "f[6,4]", "f[6]"}, {}, 1, {"b", "0", "b>0"}, {"1"}},
    {"dense_over_inputs", "InnerProduct", {"f[4,6]", "f[5,6]", "f[5]"}, {}, 1, {"1", "b>1", "b>p"}, {"p"}},
    {"dense_over_inputs_before_an_activation", "InnerProduct", {"f[4,6]", "f[5,6]"}, relu, 1, {"1", "b>1"}, {"b"}},
    {"dense_by_samples_with_what_is_bent", "InnerProduct", {"f[6,4]", "f[5,4]"}, relu, 2, {"0", "b"}, {"0", "0"}},
    {"dense_backward_data_by_samples", "InnerProductBackwardData", {"f[6,5]", "f[5,4]", "f[6,4]"}, with_shape(relu, "input_shape", {6, 4}), 1, {"0", "b", "b>0"}, {"0"}},
    {"dense_backward_data_over_outputs", "InnerProductBackwardData", {"f[4,6]", "f[6,5]", "f[4,5]"}, with_shape(relu, "input_shape", {4, 5}), 1, {"1", "b>0", "b"}, {"b"}},
    {"dense_backward", "InnerProductBackwardWeights", {"f[6,4]", "f[6,5]"}, {}, 2, {"0", "0"}, {"p", "p"}},
    {"convolution", "Conv", {"f[6,3,4,4]", "f[5,3,3,3]"}, window, 1, {"0", "b"}, {"0"}},
    {"convolution_backward_data", "ConvolutionBackwardData", {"f[6,5,4,4]", "f[5,3,3,3]"}, with_shape(window, "input_shape", {6, 3, 4, 4}), 1, {"0", "b"}, {"0"}},
    {"convolution_backward_weights", "ConvolutionBackwardWeights", {"f[6,3,4,4]", "f[6,5,4,4]"}, with_shape(window, "weight_shape", {5, 3, 3, 3}), 1, {"0", "0"}, {"p"}},
    {"convolution_by_filters", "Conv", {"f[2,4,4,4]", "f[6,4,3,3]", "f[6]"}, window, 1, {"b", "0", "b>0"}, {"1"}},
    {"convolution_over_channels", "Conv", {"f[2,6,4,4]", "f[5,6,3,3]", "f[5]"}, window, 1, {"1", "b>1", "b>p"}, {"p"}},
    {"convolution_backward_data_over_filters", "ConvolutionBackwardData", {"f[2,6,4,4]", "f[6,3,3,3]"}, with_shape(window, "input_shape", {2, 3, 4, 4}), 1, {"1", "b>0"}, {"p"}},
    {"convolution_backward_data_by_channels", "ConvolutionBackwardData", {"f[2,5,4,4]", "f[5,6,3,3]", "f[2,6,4,4]"}, with_shape(window, "input_shape", {2, 6, 4, 4}), 1, {"b", "1", "b>1"}, {"1"}},
    {"convolution_backward_weights_by_filters", "ConvolutionBackwardWeights", {"f[2,3,4,4]", "f[2,6,4,4]"}, with_shape(window, "weight_shape", {6, 3, 3, 3}), 2, {"b", "1"}, {"0", "0"}},
    {"convolution_backward_weights_by_channels", "ConvolutionBackwardWeights", {"f[2,6,4,4]", "f[2,5,4,4]"}, with_shape(window, "weight_shape", {5, 6, 3, 3}), 2, {"1", "b"}, {"1", "b"}},
    {"convolution_by_groups", "Conv", {"f[2,12,4,4]", "f[18,2,3,3]", "f[18]"}, with_groups(window, 6), 1, {"1", "0", "b>0"}, {"1"}},
    {"convolution_by_fewer_groups", "Conv", {"f[2,12,4,4]", "f[18,6,3,3]"}, with_groups(window, 2), 1, {"1>b", "0>b"}, {"b"}},
    {"convolution_backward_data_by_groups", "ConvolutionBackwardData", {"f[2,18,4,4]", "f[18,2,3,3]"}, with_shape(with_groups(window, 6), "input_shape", {2, 12, 4, 4}), 1, {"b>1", "0"}, {"1"}},
    {"convolution_backward_weights_by_groups", "ConvolutionBackwardWeights", {"f[2,12,4,4]", "f[2,18,4,4]"}, with_shape(with_groups(window, 6), "weight_shape", {18, 2, 3, 3}), 2, {"1", "1"}, {"0", "0"}},
    {"rows_by_samples", "RowNormalization", {"f[6,3,4]", "f[4]", "f[4]", "f[6,3,4]"}, {{"axis", std::int64_t{2}}}, 4, {"0", "b", "b", "b>0"}, {"0", "0", "0", "0"}},
    {"rows_by_places", "RowNormalization", {"f[3,6,4]"}, {{"axis", std::int64_t{2}}}, 3, {"1"}, {"1", "1", "1"}},
    {"rows_by_features", "RowNormalization", {"f[6,3,4]", "f[4]"}, {{"axis", std::int64_t{2}}}, 3, {"2>b", "b"}, {"b", "b", "b"}},
    {"rows_backward", "RowNormalizationBackward", {"f[6,4]", "f[6,4]", "f[4]", "f[6,1]", "f[6,1]", "f[6,4]"}, {{"axis", std::int64_t{1}}}, 3, {"0", "0", "b", "0", "0", "0"}, {"0", "p", "p"}},
    {"normalization", "BatchNormalizationTraining", {"f[6,3]", "f[3]", "f[3]"}, {{"epsilon", 1e-5F}}, 4, {"0", "b", "b"}, {"0", "o", "o", "o"}},
    {"normalization_by_channels", "BatchNormalizationTraining", {"f[2,6,3]", "f[6]", "f[6]"}, {{"epsilon", 1e-5F}}, 4, {"1", "b>0", "b>0"}, {"1", "0", "0", "o"}},
    {"running_statistic_by_channels", "RunningStatistics", {"f[6]", "f[6]"}, {{"momentum", 0.9F}}, 1, {"b>0", "0"}, {"0"}},
    {"pooled_by_channels", "AveragePool", {"f[2,6,4]"}, {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"pads", Ints{0, 0}}, {"dilations", Ints{1}}}, 1, {"1"}, {"1"}},
    {"pooled_over_parts", "AveragePool", {"f[2,3,6]"}, {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"pads", Ints{0, 0}}, {"dilations", Ints{1}}}, 1, {"2>b"}, {"b"}},
    {"loss_by_classes", "SoftmaxCrossEntropyTraining", {"f[4,6]", "i[4]"}, {{"scale", 1.0F}}, 2, {"1", "b"}, {"b", "1"}},
    {"loss_of_shares_by_classes", "SoftmaxCrossEntropyTraining", {"f[4,6]", "f[4,6]"}, {{"scale", 1.0F}}, 2, {"1>b", "b"}, {"b", "b"}},
    {"embedding_by_words", "Gather", {"f[6,4]", "i[5,2]"}, {{"axis", std::int64_t{0}}}, 1, {"0", "b"}, {"p"}},
    {"part_between_runs", "Slice", {"f[2,18]"}, {{"starts", Ints{6}}, {"ends", Ints{12}}, {"axes", Ints{1}}, {"steps", Ints{1}}}, 1, {"1/3"}, {"1"}},
    {"part_that_is_a_wide_run", "Slice", {"f[2,24]"}, slice_of(0, 12), 1, {"1/2:1:1"}, {"1"}},
    {"part_of_several_runs", "Slice", {"f[2,24]"}, slice_of(12, 24), 1, {"1/2:1:1"}, {"1/2"}},
    {"part_of_runs_of_two_widths", "Slice", {"f[2,24]"}, slice_of(0, 18), 1, {"1/2:1:1"}, {"1/2:1"}},
    {"part_that_cuts_a_wide_run", "Slice", {"f[2,24]"}, slice_of(6, 12), 1, {"1/2:1:1>b"}, {"b"}},
    {"part_of_rows_with_runs", "Slice", {"f[24,4]"}, slice_of(0, 2), 1, {"0/2:1:1"}, {"0/2:1:1"}},
    {"joined_runs", "Concat", {"f[2,12]", "f[2,6]", "f[2,6]"}, {{"axis", std::int64_t{1}}}, 1, {"1", "1", "1"}, {"1/2:1:1"}},
    {"joined_runs_of_one_width", "Concat", {"f[2,12]", "f[2,6]"}, {{"axis", std::int64_t{1}}}, 1, {"1/2", "1"}, {"1/3"}},
    {"joined_runs_of_which_one_is_whole", "Concat", {"f[2,12]", "f[2,6]"}, {{"axis", std::int64_t{1}}}, 1, {"1>b", "b"}, {"b"}},
    {"elementwise_in_runs", "Mul", {"f[2,24]", "f[24]"}, {}, 1, {"1/2:1:1", "b>0/2:1:1"}, {"1/2:1:1"}},
    {"elementwise_in_other_runs", "Mul", {"f[2,24]", "f[2,24]"}, {}, 1, {"1/2:1:1>b", "1/1:1:2>b"}, {"b"}},
    {"elementwise_in_as_many_equal_runs", "Mul", {"f[2,24]", "f[2,24]"}, {}, 1, {"1/2:1:1>b", "1/4>b"}, {"b"}},
    {"view_within_runs", "Reshape", {"f[2,24]"}, {{"shape", Ints{2, 12, 2}}}, 1, {"1/2:1:1"}, {"1/2:1:1"}},
    {"view_across_runs", "Reshape", {"f[2,24]"}, {{"shape", Ints{2, 4, 6}}}, 1, {"1/2:1:1>b"}, {"b"}},
    {"dense_by_outputs_in_runs", "InnerProduct", {"f[4,4]", "f[24,4]", "f[24]"}, {}, 1, {"b", "0/2:1:1", "b>0/2:1:1"}, {"1/2:1:1"}},
    {"dense_backward_data_over_runs", "InnerProductBackwardData", {"f[4,24]", "f[24,5]"}, {{"input_shape", Ints{4, 5}}}, 1, {"1/2:1:1", "b>0/2:1:1"}, {"p"}},
    {"dropped_in_runs", "DropoutTraining", {"f[2,24]", "i[4]"}, {{"ratio", 0.5F}, {"layer", std::int64_t{0}}}, 1, {"1/2:1:1>b", "b"}, {"b"}},
    {"loss", "SoftmaxCrossEntropyTraining", {"f[6,5]", "i[6]"}, {{"scale", 1.0F}}, 2, {"0", "0"}, {"p", "0"}},
    {"embedding", "Gather", {"f[9,4]", "i[6,2]"}, {{"axis", std::int64_t{0}}}, 1, {"b", "0"}, {"0"}},
    {"embedding_backward", "GatherBackward", {"f[6,2,4]", "i[6,2]"}, {{"axis", std::int64_t{0}}, {"input_shape", Ints{9, 4}}}, 1, {"0", "0"}, {"p"}},
    {"sampled_by_samples", "SampleRows", {"f[6,4,5]", "i[6,3,2]", "f[6,3,2]"}, {}, 1, {"0", "0", "b>0"}, {"0"}},
    {"sampled_over_parts", "SampleRows", {"f[2,6,5]", "i[2,3,2]", "f[2,3,2]"}, {}, 1, {"1>b", "b", "b"}, {"b"}},
    {"sampled_backward_data", "SampleRowsBackwardData", {"f[6,3,5]", "i[6,3,2]", "f[6,3,2]"}, {{"input_shape", Ints{6, 4, 5}}}, 1, {"0", "0", "0"}, {"0"}},
    {"sampled_backward_weights", "SampleRowsBackwardWeights", {"f[6,4,5]", "f[6,3,5]", "i[6,3,2]"}, {}, 1, {"0", "0", "0"}, {"0"}},
    {"resampled_by_samples", "Resample", {"f[6,4]", "s[4]", "s[5]", "f[5]"}, {{"axis", std::int64_t{1}}}, 1, {"0", "b", "b", "b"}, {"0"}},
    {"resampled_over_parts", "Resample", {"f[6,4]", "s[4]", "s[5]", "f[5]"}, {{"axis", std::int64_t{0}}}, 1, {"0>b", "b", "b", "b"}, {"b"}},
    {"resampled_addend", "Resample", {"f[6,4]", "s[4]", "s[5]", "f[5]"}, {{"axis", std::int64_t{0}}}, 1, {"p", "b", "b", "b"}, {"p"}},
    {"tuples_of_each_batch", "GatherND", {"f[6,4,2]", "i[6,3,1]"}, {{"batch_dims", std::int64_t{1}}}, 1, {"0", "b>0"}, {"0"}},
    {"tuples_into_a_table", "GatherND", {"f[9,4]", "i[6,1]"}, {}, 1, {"b", "0"}, {"0"}},
    {"tuples_of_a_split_axis", "GatherND", {"f[6,4]", "i[3,1]"}, {}, 1, {"0>b", "b"}, {"b"}},
    {"rows_written_beside_the_split", "ScatterND", {"f[4,6]", "i[3,1]", "f[3,6]"}, {}, 1, {"1", "b", "b>1"}, {"1"}},
    {"rows_added_by_parts", "ScatterND", {"f[9,4]", "i[6,1]", "f[6,4]"}, {{"reduction", std::string("add")}}, 1, {"b>p", "b>0", "0"}, {"p"}},
    {"rows_written_by_parts", "ScatterND", {"f[9,4]", "i[6,1]", "f[6,4]"}, {}, 1, {"b", "b", "0>b"}, {"b"}},
    {"elements_written", "ScatterElements", {"f[6,4]", "i[6,2]", "f[6,2]"}, {{"axis", std::int64_t{1}}}, 1, {"b>0", "0", "0"}, {"0"}},
    {"elements_added_by_parts", "ScatterElements", {"f[9,4]", "i[6,4]", "f[6,4]"}, {{"axis", std::int64_t{0}}, {"reduction", std::string("add")}}, 1, {"b>p", "0", "0"}, {"p"}},
    {"running_sums", "CumSum", {"f[6,4]"}, {{"axis", std::int64_t{1}}}, 1, {"0"}, {"0"}},
    {"running_sums_over_parts", "CumSum", {"f[6,4]"}, {{"axis", std::int64_t{0}}}, 1, {"0>b"}, {"b"}},
    {"running_products_backward", "CumProdBackward", {"f[6,4]", "f[6,4]"}, {{"axis", std::int64_t{1}}, {"exclusive", std::int64_t{0}}, {"reverse", std::int64_t{0}}}, 1, {"0", "0"}, {"0"}},
    {"largest_of_each", "TopK", {"f[6,4]"}, {{"axis", std::int64_t{1}}, {"k", std::int64_t{2}}}, 2, {"0"}, {"0", "0"}},
    {"softmax", "Softmax", {"f[6,4]"}, {{"axis", std::int64_t{1}}}, 1, {"0"}, {"0"}},
    {"softmax_over_parts", "Softmax", {"f[6,4]"}, {{"axis", std::int64_t{0}}}, 1, {"0"}, {"0"}},
    {"logarithm_of_softmax_over_runs", "LogSoftmax", {"f[4,12]"}, {{"axis", std::int64_t{1}}}, 1, {"1/2"}, {"1/2"}},
    {"attention_by_samples", "AttentionTraining", {"f[6,3,4,2]", "f[6,3,5,2]", "f[6,3,5,2]", "f[6,1,1,5]"}, {{"scale", 1.0F}}, 2, {"0", "0", "b>0", "b>0"}, {"0", "0"}},
    {"attention_with_one_mask", "AttentionTraining", {"f[6,3,4,2]", "f[6,3,5,2]", "f[6,3,5,2]", "f[1,1,4,5]"}, {{"scale", 1.0F}}, 2, {"0", "0", "0", "b"}, {"0", "0"}},
    {"attention_by_heads", "AttentionTraining", {"f[2,6,4,2]", "f[2,6,5,2]", "f[2,6,5,2]"}, {{"scale", 1.0F}}, 2, {"1", "1", "1"}, {"1", "1"}},
    {"attention_of_shared_keys_by_heads", "AttentionTraining", {"f[2,6,4,2]", "f[2,3,5,2]", "f[2,3,5,2]"}, {{"scale", 1.0F}}, 2, {"1", "b>1", "b>1"}, {"1", "1"}},
    {"attention_of_fewer_shared_keys_by_heads", "AttentionTraining", {"f[2,6,4,2]", "f[2,2,5,2]", "f[2,2,5,2]"}, {{"scale", 1.0F}}, 2, {"1>b", "b", "b"}, {"b", "b"}},
    {"attention_by_tokens", "AttentionTraining", {"f[2,3,6,2]", "f[2,3,5,2]", "f[2,3,5,2]"}, {{"scale", 1.0F}}, 2, {"2>b", "b", "b"}, {"b", "b"}},
    {"attention_backward", "AttentionBackward", {"f[6,3,4,2]", "f[6,3,5,2]", "f[6,3,5,2]", "f[6,3,4,2]", "f[6,3,4]", "f[6,3,4,2]"}, {{"scale", 1.0F}}, 3, {"0", "0", "0", "0", "0", "0"}, {"0", "0", "0"}},
    {"groups_by_samples", "GroupNormalizationTraining", {"f[6,4,5]", "f[4]", "f[4]"}, {{"groups", std::int64_t{2}}}, 3, {"0", "b", "b"}, {"0", "0", "0"}},
    {"groups_by_channels", "GroupNormalizationTraining", {"f[3,6,5]", "f[6]"}, {{"groups", std::int64_t{2}}}, 3, {"1>b", "b"}, {"b", "b", "b"}},
    {"groups_backward", "GroupNormalizationBackward", {"f[6,4,5]", "f[6,4,5]", "f[4]", "f[6,2]", "f[6,2]"}, {{"groups", std::int64_t{2}}}, 3, {"0", "0", "b", "0", "0"}, {"0", "p", "p"}},
    {"determinants_backward", "DetBackward", {"f[6,3,3]", "f[6]"}, {}, 1, {"0", "b>0"}, {"0"}},
    {"drawn_by_samples", "RandomNumbers", {"i[4]", "f[3,2]"}, {{"shape", Ints{4, 6}}, {"dtype", std::int64_t{1}}, {"axis", std::int64_t{1}}, {"outer", std::int64_t{2}}}, 1, {"o", "0"}, {"1/2"}},
    {"drawn_by_samples_on_other_parts", "RandomNumbers", {"i[4]", "f[2,3]"}, {{"shape", Ints{4, 6}}, {"dtype", std::int64_t{1}}, {"axis", std::int64_t{1}}, {"outer", std::int64_t{2}}}, 1, {"o", "1>b"}, {"o"}},
    {"dropped_by_samples", "DropoutTraining", {"f[4,6]", "i[4]", "f[3,2]"}, {{"ratio", 0.5F}, {"axis", std::int64_t{1}}, {"outer", std::int64_t{2}}}, 1, {"1/2", "o", "0"}, {"1/2"}},
    {"dropped_of_a_whole", "DropoutTraining", {"f[4,6]", "i[4]", "f[3,2]"}, {{"ratio", 0.5F}, {"axis", std::int64_t{1}}, {"outer", std::int64_t{2}}}, 1, {"b>1/2", "o", "0"}, {"1/2"}},
    {"dropped_along_another_axis", "DropoutTraining", {"f[4,6]", "i[4]", "f[6,2]"}, {{"ratio", 0.5F}, {"axis", std::int64_t{1}}}, 1, {"0>b", "o", "0>b"}, {"o"}},
    {"dropped_without_samples", "DropoutTraining", {"f[6,4]", "i[4]"}, {{"ratio", 0.5F}}, 1, {"0", "o"}, {"0"}},
    {"dropped_beside_samples", "DropoutTraining", {"f[4,6]", "i[4]", "f[4,2]"}, {{"ratio", 0.5F}, {"axis", std::int64_t{0}}}, 1, {"1", "b", "b"}, {"1"}},
    {"attention_that_drops", "AttentionTraining", {"f[6,3,4,2]", "f[6,3,5,2]", "f[6,3,5,2]", "-", "i[4]", "f[6,2]"}, {{"scale", 1.0F}, {"ratio", 0.5F}}, 2, {"b>0", "b>0", "b>0", "b", "o", "0"}, {"0", "0"}},
    {"attention_that_drops_without_samples", "AttentionTraining", {"f[6,3,4,2]", "f[6,3,5,2]", "f[6,3,5,2]", "-", "i[4]"}, {{"scale", 1.0F}, {"ratio", 0.5F}, {"inner", std::int64_t{0}}}, 2, {"0>b", "0>b", "0>b", "b", "o"}, {"o", "o"}},
    {"recurrence_by_samples", "RecurrentTraining", {"f[5,6,24]", "f[2,12,3]", "f[2,6,3]", "f[2,6,3]", "s[6]"}, lstm, 4, {"1", "b", "1", "b>1", "b>0"}, {"2", "1", "1", "2"}},
    {"recurrence_by_three_directions", "RecurrentTraining", {"f[5,6,24]", "f[2,12,3]"}, lstm, 4, {"2>b", "0>b"}, {"b", "b", "b", "b"}},
    {"recurrence_by_gates", "RecurrentTraining", {"f[5,6,24]", "f[2,12,3]"}, lstm, 4, {"2>b", "b"}, {"b", "b", "b", "b"}},
    {"recurrence_by_steps", "RecurrentTraining", {"f[6,5,24]", "f[2,12,3]"}, lstm, 4, {"0>b", "b"}, {"b", "b", "b", "b"}},
    {"recurrence_backward", "RecurrentBackward", {"f[2,12,3]", "f[2,5,6,18]", "s[6]", "f[5,2,6,3]", "f[2,6,3]"}, lstm, 4, {"b", "2", "0", "2", "1"}, {"1", "1", "1", "p"}},
    {"update", "SgdUpdate", {"f[16]", "f[6,4]!", "f[6,4]"}, {{"tensors", std::int64_t{1}}}, 1, {"b", "b", "p>b"}, {"b"}},
    {"update_of_a_part", "SgdUpdate", {"f[16]", "f[6,4]!", "f[6,4]"}, {{"tensors", std::int64_t{1}}}, 1, {"b", "0", "p>0"}, {"0"}},
};

Part part_of(const std::string& text) {
  if (text == "b") return {};
  if (text == "p") return {Spread::partial};
  if (text == "o") return {Spread::own};
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return Part::split(std::stoi(text));
  std::vector<std::int64_t> runs;
  for (const std::string& width : split(text.substr(slash + 1), ':')) runs.push_back(std::stoi(width));
  return runs.size() == 1 ? Part::split(std::stoi(text), runs[0]) : Part::runs(std::stoi(text), runs);
}

class PlaceRules : public testing::TestWithParam<Rule> {};

TEST_P(PlaceRules, SayWhatLiesWhere) {
  const Rule& rule = GetParam();
  const test::OneNode one(rule.op, rule.inputs, rule.attributes, rule.outputs);
  std::vector<Part> have, need;
  for (const std::string& text : rule.operands) {
    const std::size_t moved = text.find('>');
    have.push_back(part_of(text.substr(0, moved)));
    need.push_back(moved == std::string::npos ? have.back() : part_of(text.substr(moved + 1)));
  }
  const NodePlacement placed = place_node(one.graph, one.graph[one.node], have, {"parts", {2, 1}});
  ASSERT_EQ(placed.outputs.size(), rule.results.size());
  for (std::size_t i = 0; i < need.size(); ++i)
    EXPECT_EQ(to_string(placed.inputs[i]), to_string(need[i])) << "operand " << i << ' ' << placed.reason;
  for (std::size_t i = 0; i < rule.results.size(); ++i)
    EXPECT_EQ(to_string(placed.outputs[i]), to_string(part_of(rule.results[i]))) << "result " << i << ' ' << placed.reason;
}
INSTANTIATE_TEST_SUITE_P(Rows, PlaceRules, testing::ValuesIn(rules), [](const auto& info) { return std::string(info.param.name); });

// What each device exchanges in a step.
std::vector<Kinds> exchanges_of(const Plan& plan) {
  std::vector<Kinds> list;
  for (const PlanDevice& d : plan.devices) {
    list.emplace_back();
    for (const Step& s : plan.programs[d.program].steps)
      if (s.as<ExchangeStep>()) list.back().insert(std::string(kind_of(plan, s)));
  }
  return list;
}

std::vector<ParameterPart> parts_of(const Plan& plan, std::string_view name) {
  return plan.parts_of(
      *std::find_if(plan.parameters.begin(), plan.parameters.end(), [&](const PlanParameter& p) { return p.name == name; }));
}

CompileOptions placed(std::size_t devices, PlacementRequest request) {
  CompileOptions o = options_for(6, std::vector<double>(devices, 1));
  o.placement = std::move(request);
  return o;
}

// mlp's first layer by columns, its second by rows: each device has half of the hidden units.
const std::map<std::string, std::vector<Part>, std::less<>> halves_of_the_hidden_layer{
    {"w1", {Part::split(0)}}, {"b1", {Part::split(0)}}, {"w2", {Part::split(0)}}};

TEST(Placement, TensorParallelByHandTrainsAsOneDevice) {
  const PlacementRequest request{.groups = {{"all", {{"columns", {1, 1}}}, {0, 1}}}, .nodes = {}, .values = halves_of_the_hidden_layer};
  const Trained one = train(mlp, options_for(6, {1}), 8, 0.1), two = train(mlp, placed(2, request), 8, 0.1);
  expect_close(two, one);
  EXPECT_LT(two.losses.back(), 0.7F * two.losses.front());
  for (const char* name : {"w1", "b1", "w2"}) {
    const std::vector<ParameterPart> parts = parts_of(two.plan, name);
    ASSERT_EQ(parts.size(), 2U) << name;
    EXPECT_EQ(parts[0].ranges, (std::vector<AxisRange>{{0, 0, 16}})) << name;
    EXPECT_EQ(parts[1].ranges, (std::vector<AxisRange>{{0, 16, 16}})) << name;
    EXPECT_EQ(parts[0].operand.shape, parts[1].operand.shape) << name;
  }
  EXPECT_TRUE(parts_of(two.plan, "b2")[1].is_whole());
  // One sum a step, of the second layer's output: no gradient moves.
  EXPECT_EQ(exchanges_of(two.plan), (std::vector<Kinds>{{"all_reduce"}, {"all_reduce"}}));
}

TEST(Placement, UnequalPartsOfALayer) {
  const PlacementRequest request{.groups = {{"all", {{"columns", {3, 1}}}, {0, 1}}}, .nodes = {}, .values = halves_of_the_hidden_layer};
  const Trained one = train(mlp, options_for(6, {1}), 5, 0.1), two = train(mlp, placed(2, request), 5, 0.1);
  expect_close(two, one);
  EXPECT_EQ(parts_of(two.plan, "w1")[1].ranges[0].begin, 24);
}

TEST(Placement, TwoStagesByHandTrainAsOneDevice) {
  const PlacementRequest request{
      .groups = {{"first", {}, {0}}, {"second", {}, {1}}}, .nodes = {{"Gemm0", 0}, {"Relu1", 0}, {"Gemm2", 1}}, .values = {}};
  const Trained one = train(mlp, options_for(6, {1}), 8, 0.1), two = train(mlp, placed(2, request), 8, 0.1);
  ASSERT_EQ(two.losses.size(), one.losses.size());
  for (std::size_t s = 0; s < one.losses.size(); ++s) EXPECT_NEAR(two.losses[s], one.losses[s], 1e-4F * one.losses[0]) << "step " << s;
  // Hidden units there, their gradient back.
  EXPECT_EQ(exchanges_of(two.plan), (std::vector<Kinds>{{"receive", "send"}, {"receive", "send"}}));
  std::vector<std::string> moved;
  for (const PlanTransfer& t : two.plan.transfers) moved.push_back(concat(name_of(t.kind), ' ', t.bytes, " for ", t.node, ": ", t.reason));
  EXPECT_EQ(moved,
            (std::vector<std::string>{"send 768 for Gemm2: it works in group 'second'", "send 768 for Gemm0: it works in group 'first'"}));
  for (const auto& [name, device] : std::vector<std::pair<std::string, int>>{{"w1", 0}, {"b1", 0}, {"w2", 1}, {"b2", 1}}) {
    const std::vector<ParameterPart> parts = parts_of(two.plan, name);
    ASSERT_EQ(parts.size(), 1U) << name;
    EXPECT_EQ(parts[0].device, device) << name;
  }
  std::set<std::string> first, second;
  for (const Step& s : two.plan.program_of(0).steps) first.emplace(s.op());
  for (const Step& s : two.plan.program_of(1).steps) second.emplace(s.op());
  EXPECT_FALSE(first.contains("SoftmaxCrossEntropyTraining"));
  EXPECT_TRUE(second.contains("SoftmaxCrossEntropyTraining"));
}

// Samples along one axis of the mesh, the hidden layer along the other.
TEST(Placement, SamplesAndColumnsTogether) {
  const Part split = Part::split(0), whole;
  const PlacementRequest request{.groups = {{"all", {{"samples", {2, 1}}, {"columns", {1, 1}}}, {0, 1, 2, 3}}},
                                 .nodes = {},
                                 .values = {{"x", {split, whole}}, {"w1", {whole, split}}, {"b1", {whole, split}}, {"w2", {whole, split}}}};
  const Trained one = train(mlp, options_for(6, {1}), 5, 0.1), four = train(mlp, placed(4, request), 5, 0.1);
  expect_close(four, one);
  EXPECT_EQ(four.plan.devices[0].slice_size, 4);
  EXPECT_EQ(four.plan.devices[3].slice_begin, 4);
  for (const Exchange& e : four.plan.exchanges) {
    EXPECT_EQ(e.row_length(), 2U) << e.name;
    EXPECT_EQ(e.kind, ExchangeKind::all_reduce) << e.name;
  }
}

TEST(Placement, PlansOfProgramsThatDifferAreReadAsWritten) {
  const PlacementRequest request{
      .groups = {{"first", {}, {0}}, {"second", {}, {1}}}, .nodes = {{"Gemm0", 0}, {"Relu1", 0}, {"Gemm2", 1}}, .values = {}};
  const Backend* backends[] = {&cpu_backend()};
  const Plan plan = compile(mlp, placed(2, request), backends);
  EXPECT_EQ(serialize(parse_plan(serialize(plan))), serialize(plan));
  const std::string text = text_of_plan(plan, true);
  EXPECT_NE(text.find("send"), std::string::npos);
  EXPECT_NE(text.find("receive"), std::string::npos);
}

Graph with_loss(std::int64_t n, ValueId (*loss)(Builder&, ValueId scores, ValueId labels)) {
  Builder b;
  b.graph.name = "own loss";
  const ValueId x = b.graph.add_input("x", {DType::float32, {n, 20}}), labels = b.graph.add_input("labels", {DType::int64, {n}});
  b.graph.outputs = {loss(b, b.node("Gemm", {x, b.weight("w", {20, 5}, 0.3F), b.weight("b", {5}, 0.1F)}), labels)};
  return b.graph;
}
// Labels are 0 to 3: those of 0 do not count.
Graph mean_of_some(std::int64_t n) {
  return with_loss(n, [](Builder& b, ValueId scores, ValueId labels) {
    return b.node("SoftmaxCrossEntropyLoss", {scores, labels}, {{"reduction", std::string("mean")}, {"ignore_index", std::int64_t{0}}});
  });
}
Graph mean_of_squares(std::int64_t n) {
  return with_loss(n, [](Builder& b, ValueId scores, ValueId) {
    return b.node("ReduceMean", {b.node("Mul", {scores, scores})}, {{"axes", Ints{0, 1}}, {"keepdims", std::int64_t{0}}});
  });
}
// By the largest score of the batch, which no part of it knows.
Graph by_the_largest(std::int64_t n) {
  return with_loss(n, [](Builder& b, ValueId scores, ValueId) {
    const ValueId largest = b.node("ReduceMax", {scores}, {{"axes", Ints{0}}, {"keepdims", std::int64_t{1}}});
    return b.node("ReduceMean", {b.node("Mul", {b.node("Sub", {scores, largest}), scores})},
                  {{"axes", Ints{0, 1}}, {"keepdims", std::int64_t{0}}});
  });
}

Graph softmax_over_samples(std::int64_t n) {
  return with_loss(n, [](Builder& b, ValueId scores, ValueId) {
    const ValueId low = b.node("Add", {scores, b.graph.add_constant("below", Tensor::scalar(-200.0F))});
    const ValueId shares = b.node("Softmax", {low}, {{"axis", std::int64_t{0}}});
    return b.node("ReduceSum", {b.node("Mul", {shares, scores})}, {{"axes", Ints{0, 1}}, {"keepdims", std::int64_t{0}}});
  });
}

// Devices have some of what a softmax is over, or nothing.
TEST(Placement, SoftmaxOverTheSamplesOfAllDevices) {
  CompileOptions one = options_for(6, {1});
  one.loss.name = "output";
  const Trained alone = train(softmax_over_samples, one, 5, 0.1);
  for (const std::vector<double>& weights : {std::vector<double>{2, 1}, {2, 0, 1}}) {
    CompileOptions many = options_for(6, weights);
    many.loss.name = "output";
    expect_close(train(softmax_over_samples, many, 5, 0.1), alone);
  }
}

// A model's own loss is that of the whole batch, however samples meet in it.
TEST(Placement, OwnLossesAreOfTheWholeBatch) {
  struct {
    Graph (*model)(std::int64_t);
    std::size_t gathers;
  } const rows[] = {{mean_of_some, 0}, {mean_of_squares, 0}, {by_the_largest, 1}};
  for (const auto& row : rows) {
    CompileOptions one = options_for(6, {1}), two = options_for(6, {2, 1});
    one.loss.name = two.loss.name = "output";
    const Trained got = train(row.model, two, 5, 0.1);
    expect_close(got, train(row.model, one, 5, 0.1));
    EXPECT_EQ(exchanges_of(got.plan)[0].count("all_gather"), row.gathers);
    const auto warned = std::count_if(got.plan.warnings.begin(), got.plan.warnings.end(),
                                      [](const std::string& w) { return w.find("computed in full on every device") != std::string::npos; });
    EXPECT_EQ(warned, row.gathers > 0 ? 1 : 0);
  }
}

// For a viewer: every device's nodes, and each exchange read by all who get it.
TEST(Placement, IsDrawnAsOneGraph) {
  const auto drawn = [](const CompileOptions& o) {
    const Graph g = training_graph(mlp, o);
    verify(g);
    std::map<std::string, std::size_t> nodes;
    for (const Node& n : g.nodes) {
      ++nodes[n.name.substr(0, n.name.find('/'))];
      if (n.op->name == "AllReduce") EXPECT_EQ(n.inputs.size(), o.devices.size() * n.outputs.size());
      if (n.op->name == "Receive") {
        EXPECT_NE(g[n.inputs.at(0)].name.substr(0, 5), n.name.substr(0, 5)) << "what another device gives";
      }
    }
    return nodes;
  };
  std::map<std::string, std::size_t> three = drawn(options_for(6, {2, 1, 0}));
  EXPECT_EQ(three["cpu:0"], three["cpu:1"]);
  EXPECT_GT(three["cpu:0"], three["cpu:2"]);
  EXPECT_GT(three["cpu:2"], 2U) << "zeros, sums and updates";
  const PlacementRequest stages{
      .groups = {{"first", {}, {0}}, {"second", {}, {1}}}, .nodes = {{"Gemm0", 0}, {"Relu1", 0}, {"Gemm2", 1}}, .values = {}};
  EXPECT_EQ(drawn(placed(2, stages)).size(), 2U);
}

// Images that are resized, read at places that they say themselves, and pooled.
Graph sampled(std::int64_t n) {
  Builder b;
  b.graph.name = "sampled";
  const Attributes conv{{"kernel_shape", three}, {"strides", ones}, {"pads", pads}, {"dilations", ones}, {"group", std::int64_t{1}}};
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 3, 8, 8}});
  x = b.node("Relu", {b.node("Conv", {x, b.weight("c1", {6, 3, 3, 3}, 0.3F)}, conv)});
  x = b.node("Resize", {x}, {{"scales", Floats{1, 1, 1.5F, 2}}, {"mode", std::string("linear")}});
  const ValueId means = b.node("Flatten", {b.node("GlobalAveragePool", {x})}, {{"axis", std::int64_t{1}}});
  const ValueId theta =
      b.node("Reshape", {b.node("Gemm", {means, b.weight("t", {6, 6}, 0.3F), b.weight("tb", {6}, 0.5F)})}, {{"shape", Ints{n, 2, 3}}});
  x = b.node("GridSample", {x, b.node("AffineGrid", {theta}, {{"size", Ints{n, 6, 7, 7}}})});
  const ValueId offset = b.node("Conv", {x, b.weight("o", {18, 6, 3, 3}, 0.2F)}, conv);
  x = b.node("DeformConv", {x, b.weight("d", {6, 6, 3, 3}, 0.3F), offset}, {{"kernel_shape", three}, {"pads", pads}});
  x = b.node("LpPool", {b.node("Resize", {x}, {{"sizes", Ints{n, 6, 3, 9}}})}, {{"kernel_shape", Ints{2, 2}}});
  x = b.node("Flatten", {b.node("GlobalAveragePool", {x})}, {{"axis", std::int64_t{1}}});
  b.graph.outputs = {b.node("Gemm", {x, b.weight("w", {6, 5}, 0.5F), b.weight("b", {5}, 0.1F)})};
  return b.graph;
}

TEST(Placement, SampledImagesTrainByTheirSamples) {
  const Trained one = train(sampled, options_for(6, {1}), 6, 0.05), two = train(sampled, options_for(6, {2, 1}), 6, 0.05);
  expect_close(two, one);
  for (const Kinds& kinds : exchanges_of(two.plan)) EXPECT_EQ(kinds.count("all_reduce"), kinds.size()) << "something works on all samples";
}

// Inputs by their samples, gradients summed: what every plan for several devices does.
TEST(Placement, OfSamplesIsAsTheRulesSay) {
  std::map<std::string, std::string> placements;
  CompileOptions o = options_for(6, {2, 1, 0});
  o.passes.after = [&](const PassResult& r) {
    for (std::size_t i = 0; i < r.graph.values.size(); ++i)
      placements[r.graph.values[i].name] = to_string(r.graph.values[i].placement, r.graph.groups);
  };
  const Backend* backends[] = {&cpu_backend()};
  compile(normalized, o, backends);
  for (const auto& [name, where] : std::vector<std::pair<std::string, std::string>>{
           {"x", "split(0)"}, {"labels", "split(0)"}, {"c", "broadcast"}, {"running", ""}, {"mean", "broadcast"}})
    EXPECT_EQ(placements[name], where) << name;
  std::set<std::string> kinds;
  for (const auto& [name, where] : placements) kinds.insert(where);
  EXPECT_TRUE(kinds.contains("partial"));
  EXPECT_TRUE(kinds.contains("own")) << "statistics of a device's own samples";
}

}  // namespace
}  // namespace tandem
