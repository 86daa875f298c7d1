#include "kernels/cpu/kernels.h"

#include "kernels/cpu/native/dense_rows.h"
#include "kernels/cpu/onednn/rows.h"

namespace tandem {
namespace {

constexpr CpuKernelRow rows[] = {
    // Dense and convolution
    {"Conv", "onednn.convolution", onednn::describe_convolution},
    {"Conv", "native.convolution", native::describe_convolution},
    {"ConvTranspose", "onednn.convolution_transpose", onednn::describe_convolution_transpose},
    {"ConvTranspose", "native.convolution_transpose", native::describe_convolution_transpose},
    {"ConvolutionBackwardData", "onednn.convolution_backward_data", onednn::describe_convolution_backward_data},
    {"ConvolutionBackwardData", "native.convolution_backward_data", native::describe_convolution_backward_data},
    {"ConvolutionBackwardWeights", "onednn.convolution_backward_weights", onednn::describe_convolution_backward_weights},
    {"ConvolutionBackwardWeights", "native.convolution_backward_weights", native::describe_convolution_backward_weights},
    {"InnerProduct", "onednn.inner_product", onednn::describe_inner_product},
    {"InnerProduct", "native.inner_product", native::describe_inner_product},
    {"InnerProductBackwardData", "onednn.inner_product_backward_data", onednn::describe_inner_product_backward_data},
    {"InnerProductBackwardData", "native.inner_product_backward_data", native::describe_inner_product_backward_data},
    {"InnerProductBackwardWeights", "onednn.inner_product_backward_weights", onednn::describe_inner_product_backward_weights},
    {"InnerProductBackwardWeights", "native.inner_product_backward_weights", native::describe_inner_product_backward_weights},
    {"MatMul", "onednn.matmul", onednn::describe_matmul},
    {"MatMul", "native.matmul", native::describe_matmul},

    // Pooling and normalisation
    {"AveragePool", "onednn.average_pool", onednn::describe_average_pool},
    {"AveragePool", "native.average_pool", native::describe_average_pool},
    {"AveragePoolBackward", "onednn.average_pool_backward", onednn::describe_average_pool_backward},
    {"AveragePoolBackward", "native.average_pool_backward", native::describe_average_pool_backward},
    {"BatchNormalization", "onednn.batch_normalization", onednn::describe_batch_normalization},
    {"BatchNormalization", "native.batch_normalization", native::describe_batch_normalization},
    {"BatchNormalizationBackward", "onednn.batch_normalization_backward", onednn::describe_batch_normalization_backward},
    {"BatchNormalizationBackward", "native.batch_normalization_backward", native::describe_batch_normalization_backward},
    {"BatchNormalizationTraining", "onednn.batch_normalization_training", onednn::describe_batch_normalization_training},
    {"BatchNormalizationTraining", "native.batch_normalization_training", native::describe_batch_normalization_training},
    {"LRN", "onednn.lrn", onednn::describe_lrn},
    {"LRN", "native.lrn", native::describe_lrn},
    {"LRNBackward", "onednn.lrn_backward", onednn::describe_lrn_backward},
    {"LRNBackward", "native.lrn_backward", native::describe_lrn_backward},
    {"LRNTraining", "onednn.lrn_training", onednn::describe_lrn},
    {"LRNTraining", "native.lrn_training", native::describe_lrn},
    {"LogSoftmax", "onednn.log_softmax", onednn::describe_softmax},
    {"LogSoftmax", "native.log_softmax", native::describe_softmax},
    {"MaxPool", "onednn.max_pool", onednn::describe_max_pool},
    {"MaxPool", "native.max_pool", native::describe_max_pool},
    {"MaxPoolBackward", "onednn.max_pool_backward", onednn::describe_max_pool_backward},
    {"MaxPoolBackward", "native.max_pool_backward", native::describe_max_pool_backward},
    {"MaxPoolTraining", "onednn.max_pool_training", onednn::describe_max_pool},
    {"MaxPoolTraining", "native.max_pool_training", native::describe_max_pool},
    {"Softmax", "onednn.softmax", onednn::describe_softmax},
    {"Softmax", "native.softmax", native::describe_softmax},

    // Elementwise
    {"Abs", "native.elementwise", native::describe_elementwise},
    {"Add", "native.elementwise", native::describe_elementwise},
    {"And", "native.elementwise", native::describe_elementwise},
    {"Cast", "native.elementwise", native::describe_elementwise},
    {"Ceil", "native.elementwise", native::describe_elementwise},
    {"Clip", "native.elementwise", native::describe_elementwise},
    {"ClipBackward", "native.elementwise", native::describe_elementwise},
    {"Cos", "native.elementwise", native::describe_elementwise},
    {"Div", "native.elementwise", native::describe_elementwise},
    {"Elementwise", "native.elementwise", native::describe_elementwise},
    {"Elu", "native.elementwise", native::describe_elementwise},
    {"EluBackward", "native.elementwise", native::describe_elementwise},
    {"Equal", "native.elementwise", native::describe_elementwise},
    {"Erf", "native.elementwise", native::describe_elementwise},
    {"Exp", "native.elementwise", native::describe_elementwise},
    {"Floor", "native.elementwise", native::describe_elementwise},
    {"Greater", "native.elementwise", native::describe_elementwise},
    {"GreaterOrEqual", "native.elementwise", native::describe_elementwise},
    {"HardSigmoid", "native.elementwise", native::describe_elementwise},
    {"HardSigmoidBackward", "native.elementwise", native::describe_elementwise},
    {"Identity", "native.elementwise", native::describe_elementwise},
    {"LeakyRelu", "native.elementwise", native::describe_elementwise},
    {"LeakyReluBackward", "native.elementwise", native::describe_elementwise},
    {"Less", "native.elementwise", native::describe_elementwise},
    {"LessOrEqual", "native.elementwise", native::describe_elementwise},
    {"Log", "native.elementwise", native::describe_elementwise},
    {"Max", "native.elementwise", native::describe_elementwise},
    {"Min", "native.elementwise", native::describe_elementwise},
    {"Mul", "native.elementwise", native::describe_elementwise},
    {"Neg", "native.elementwise", native::describe_elementwise},
    {"Not", "native.elementwise", native::describe_elementwise},
    {"Or", "native.elementwise", native::describe_elementwise},
    {"Pow", "native.elementwise", native::describe_elementwise},
    {"Reciprocal", "native.elementwise", native::describe_elementwise},
    {"Relu", "native.elementwise", native::describe_elementwise},
    {"ReluBackward", "native.elementwise", native::describe_elementwise},
    {"Round", "native.elementwise", native::describe_elementwise},
    {"Sigmoid", "native.elementwise", native::describe_elementwise},
    {"SigmoidBackward", "native.elementwise", native::describe_elementwise},
    {"Sign", "native.elementwise", native::describe_elementwise},
    {"Sin", "native.elementwise", native::describe_elementwise},
    {"Softplus", "native.elementwise", native::describe_elementwise},
    {"Sqrt", "native.elementwise", native::describe_elementwise},
    {"Sub", "native.elementwise", native::describe_elementwise},
    {"Tanh", "native.elementwise", native::describe_elementwise},
    {"TanhBackward", "native.elementwise", native::describe_elementwise},
    {"Where", "native.elementwise", native::describe_elementwise},
    {"Xor", "native.elementwise", native::describe_elementwise},

    // Movement
    {"Concat", "onednn.concat", onednn::describe_concat},
    {"Fill", "native.fill", native::describe_fill},
    {"Reorder", "onednn.reorder", onednn::describe_reorder},
    {"Reorder", "native.reorder", native::describe_reorder},
    {"Slice", "onednn.slice", onednn::describe_slice},
};

}  // namespace

std::span<const CpuKernelRow> cpu_kernels() { return rows; }

}  // namespace tandem
