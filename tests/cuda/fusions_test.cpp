// Which forms of nodes the CUDA backend gains by; that there are kernels for each of them is seen by the tests of these.
#include <gtest/gtest.h>

#include "graph/operator.h"
#include "kernels/cuda/kernels.h"

namespace tandem::cuda {
namespace {

constexpr DType half = DType::float16, wide = DType::float32;

struct Row {
  const char* name;
  std::string_view op;
  Attributes attributes;
  std::vector<Operand> inputs, outputs;
  bool gains;
  int capability = 90;
  Gain gain = Gain::yes;
};
Operand heads(DType dtype, std::int64_t width) { return {dtype, {2, 4, 16, width}, {}}; }
Operand image(DType dtype, std::int64_t channels) { return {dtype, {2, channels, 4, 4}, {}}; }
const Operand random{DType::int64, {4}, {}};
const Operand absent, sums{wide, {16}, {}}, factor{half, {8}, {}}, filter{half, {16, 8, 3, 3}, {}}, x = image(half, 8), y = image(half, 16);
const Row rows[] = {
    {"sums", "Conv", {}, {x, filter}, {y, sums, sums}, true},
    {"sums_and_normalizes", "Conv", {}, {x, filter, absent, factor, factor}, {y, sums, sums}, true},
    {"normalizes_alone", "Conv", {}, {x, filter, absent, factor, factor}, {y}, false},
    {"sums_on_ampere", "Conv", {}, {x, filter}, {y, sums, sums}, false, 80},
    {"sums_of_float32", "Conv", {}, {image(wide, 8), {wide, {16, 8, 3, 3}, {}}}, {image(wide, 16), sums, sums}, false},
    {"sums_of_bfloat16", "Conv", {}, {image(DType::bfloat16, 8), filter}, {image(DType::bfloat16, 16), sums, sums}, false},
    {"sums_in_groups", "Conv", {{"group", std::int64_t{8}}}, {x, filter}, {y, sums, sums}, false},
    {"sums_behind_an_activation", "Conv", {{"activation", std::string("Relu")}}, {x, filter}, {y, sums, sums}, false},
    {"sums_with_a_bias", "Conv", {}, {x, filter, {half, {16}, {}}}, {y, sums, sums}, false},
    {"sums_of_an_image", "Conv", {}, {image(half, 3), filter}, {y, sums, sums}, false},
    {"sums_of_odd_channels", "Conv", {}, {x, filter}, {image(half, 12), sums, sums}, false},
    {"weights_of_what_is_normalized", "ConvolutionBackwardWeights", {}, {x, y, factor, factor}, {filter}, true},
    {"and_of_a_bias", "ConvolutionBackwardWeights", {}, {x, y, factor, factor}, {filter, sums}, false},
    {"masks", "ConvolutionBackwardData", {}, {image(wide, 16), filter, image(wide, 3)}, {image(wide, 3)}, true, 80},
    {"sums_gradients", "BatchNormalizationBackward", {{"activation", std::string("Relu")}}, {x, x, sums, sums, sums, sums, absent, x, x}, {x, sums, sums, x}, true, 80},
    {"sums_gradients_without_a_mask", "BatchNormalizationBackward", {}, {x, x, sums, sums, sums, sums, absent, absent, x}, {x, sums, sums}, false},
    {"adds", "BatchNormalizationTraining", {}, {x, sums, sums, x}, {x, sums, sums, absent}, true, 80},
    {"cuts_what_it_normalizes", "BatchNormalizationTraining", {{"activation", std::string("Clip")}}, {x, sums, sums}, {x, sums, sums, absent}, false, 80},
    {"normalizes_rows", "RowNormalization", {}, {image(wide, 3)}, {image(wide, 3), sums, sums}, true, 80},
    {"normalizes_rows_into_16_bits", "RowNormalization", {}, {image(wide, 3), sums, sums, image(half, 3)}, {image(half, 3), sums, sums, image(wide, 3)}, true, 80},
    {"normalizes_rows_behind_16_bits", "RowNormalization", {}, {image(wide, 3), sums, sums, image(half, 3)}, {image(wide, 3), sums, sums, image(wide, 3)}, true, 80},
    {"normalizes_rows_into_both", "RowNormalization", {}, {image(wide, 3), sums, sums, image(half, 3)}, {image(wide, 3), sums, sums, image(wide, 3), image(half, 3)}, true, 80},
    {"normalizes_a_wide_sum_into_both", "RowNormalization", {}, {image(wide, 3), sums, sums, image(wide, 3)}, {image(wide, 3), sums, sums, image(wide, 3), image(half, 3)}, false, 80},
    {"normalizes_a_wide_sum_into_16_bits", "RowNormalization", {}, {image(wide, 3), sums, sums, image(wide, 3)}, {image(half, 3), sums, sums, image(wide, 3)}, false, 80},
    {"gradients_of_rows_in_16_bits", "RowNormalizationBackward", {}, {image(half, 3), image(wide, 3), sums, sums, sums}, {image(wide, 3), sums, sums}, true, 80},
    {"gradients_of_rows_and_more_in_16_bits", "RowNormalizationBackward", {}, {image(wide, 3), image(wide, 3), sums, sums, sums, absent, image(half, 3)}, {image(wide, 3), sums, sums}, true, 80},
    {"gradients_of_rows_in_both_types", "RowNormalizationBackward", {}, {image(half, 3), image(wide, 3), sums, sums, sums}, {image(wide, 3), sums, sums, image(half, 3)}, true, 80},
    {"gradients_of_rows_and_more_in_both_types", "RowNormalizationBackward", {}, {image(wide, 3), image(wide, 3), sums, sums, sums, absent, image(half, 3)}, {image(wide, 3), sums, sums, image(half, 3)}, true, 80},
    {"gradients_of_wide_rows_in_both_types", "RowNormalizationBackward", {}, {image(wide, 3), image(wide, 3), sums, sums, sums}, {image(wide, 3), sums, sums, image(half, 3)}, false, 80},
    {"gradients_of_wide_rows_twice", "RowNormalizationBackward", {}, {image(wide, 3), image(wide, 3), sums, sums, sums}, {image(wide, 3), sums, sums, image(wide, 3)}, false, 80},
    {"gradients_of_wide_rows_that_are_dropped", "RowNormalizationBackward", {{"axis", std::int64_t{3}}}, {image(wide, 3), image(wide, 3), sums, sums, sums, absent, absent, random}, {image(wide, 3), sums, sums, image(wide, 3)}, true, 80},
    {"rows_behind_what_is_dropped", "RowNormalization", {{"axis", std::int64_t{3}}}, {image(wide, 3), sums, sums, image(half, 3), random}, {image(wide, 3), sums, sums, image(wide, 3)}, true, 80},
    {"odd_rows_behind_what_is_dropped", "RowNormalization", {{"axis", std::int64_t{1}}}, {{wide, {6, 10}, {}}, sums, sums, {wide, {6, 10}, {}}, random}, {{wide, {6, 10}, {}}, sums, sums, {wide, {6, 10}, {}}}, false, 80},
    {"narrow_rows_behind_what_is_dropped", "RowNormalization", {{"axis", std::int64_t{3}}}, {image(half, 3), sums, sums, image(half, 3), random}, {image(half, 3), sums, sums, image(half, 3)}, false, 80},
    {"gradients_of_rows_and_more_in_float32", "RowNormalizationBackward", {}, {image(wide, 3), image(wide, 3), sums, sums, sums, absent, image(wide, 3)}, {image(wide, 3), sums, sums}, false, 80},
    {"activates_a_product", "InnerProduct", {{"activation", std::string("GeluErf")}}, {{half, {4, 8}, {}}, {half, {16, 8}, {}}}, {{half, {4, 16}, {}}, {half, {4, 16}, {}}}, true, 80},
    {"activates_a_product_of_float32", "InnerProduct", {{"activation", std::string("GeluErf")}}, {{wide, {4, 8}, {}}, {wide, {16, 8}, {}}}, {{wide, {4, 16}, {}}}, false},
    {"slopes_of_a_product", "InnerProductBackwardData", {{"activation", std::string("Relu")}}, {{half, {4, 16}, {}}, {half, {16, 8}, {}}, {half, {4, 8}, {}}}, {{half, {4, 8}, {}}}, true, 80},
    {"normalizes_groups", "GroupNormalizationTraining", {}, {image(wide, 3)}, {image(wide, 3), sums, sums}, true, 80},
    {"attends", "AttentionTraining", {}, {heads(wide, 128), heads(wide, 128), heads(wide, 64)}, {heads(wide, 64)}, true, 80},
    {"attends_with_wide_heads", "AttentionTraining", {}, {heads(wide, 64), heads(wide, 64), heads(wide, 192)}, {heads(wide, 192)}, false},
    {"attends_in_float64", "AttentionTraining", {}, {heads(DType::float64, 64), heads(DType::float64, 64), heads(DType::float64, 64)}, {heads(DType::float64, 64)}, false},
    {"loss_of_16_bits", "SoftmaxCrossEntropyTraining", {}, {{half, {4, 9}, {}}, {DType::int64, {4}, {}}}, {{wide, {}, {}}, {half, {4, 9}, {}}}, true, 80},
    {"loss_of_16_bits_and_a_wide_gradient", "SoftmaxCrossEntropyTraining", {}, {{half, {4, 9}, {}}, {DType::int64, {4}, {}}}, {{wide, {}, {}}, {wide, {4, 9}, {}}}, false},
    {"loss_of_16_bits_and_dense_labels", "SoftmaxCrossEntropyTraining", {}, {{half, {4, 9}, {}}, {wide, {4, 9}, {}}}, {{wide, {}, {}}, {half, {4, 9}, {}}}, false},
    {"count_of_16_bits", "CountCorrect", {}, {{half, {4, 9}, {}}, {DType::int64, {4}, {}}}, {{wide, {}, {}}}, true, 80},
    {"softmax_of_16_bits", "Softmax", {}, {{half, {4, 9}, {}}}, {{wide, {4, 9}, {}}}, true, 80},
    {"softmax_into_16_bits", "LogSoftmax", {}, {{wide, {4, 9}, {}}}, {{half, {4, 9}, {}}}, true, 80},
    {"softmax_of_float32", "Softmax", {}, {{wide, {4, 9}, {}}}, {{wide, {4, 9}, {}}}, false},
    {"recurrence", "RecurrentTraining", {}, {{wide, {9, 64, 1024}, {}}, {wide, {1, 1024, 256}, {}}}, {{wide, {9, 1, 64, 256}, {}}, {wide, {1, 64, 256}, {}}}, true, 80},
    {"recurrence_of_large_products", "RecurrentTraining", {}, {{wide, {9, 256, 8192}, {}}, {wide, {1, 8192, 2048}, {}}}, {{wide, {9, 1, 256, 2048}, {}}, {wide, {1, 256, 2048}, {}}}, true, 80, Gain::optional},
    {"recurrence_in_float64", "RecurrentTraining", {}, {{DType::float64, {9, 64, 32}, {}}, {DType::float64, {1, 32, 8}, {}}}, {{DType::float64, {9, 1, 64, 8}, {}}, {DType::float64, {1, 64, 8}, {}}}, false},
    {"updates", "AdamUpdate", {}, {sums, filter, filter, sums, sums}, {filter, sums, sums}, true, 80},
    {"what_has_no_such_form", "Relu", {}, {x}, {x}, false},
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class CudaFusions : public testing::TestWithParam<Row> {};

TEST_P(CudaFusions, AreThoseThatStepsGainBy) {
  const Row& row = GetParam();
  EXPECT_EQ(fuses({.op = row.op, .attributes = &row.attributes, .inputs = row.inputs, .outputs = row.outputs}, row.capability),
            !row.gains                                                          ? Gain::no
            : row.op.starts_with("Conv") && row.op != "ConvolutionBackwardData" ? Gain::optional
                                                                                : row.gain);
}
INSTANTIATE_TEST_SUITE_P(Rows, CudaFusions, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::cuda
