#include "kernels/cuda/kernels.h"

#include "kernels/cuda/cublas/families.h"
#include "kernels/cuda/cudnn/families.h"
#include "kernels/cuda/fused/elementwise.h"
#include "kernels/cuda/native/families.h"

namespace tandem::cuda {
namespace {

constexpr Row rows[] = {
    // Dense and convolution
    {"Conv", "cudnn.convolution", describe_cudnn_convolution},
    {"Conv", "native.convolution", describe_convolution},
    {"ConvTranspose", "cudnn.convolution_transpose", describe_cudnn_convolution_transpose},
    {"ConvTranspose", "native.convolution_transpose", describe_convolution_backward_data},
    {"ConvolutionBackwardData", "cudnn.convolution_backward_data", describe_cudnn_convolution_backward_data},
    {"ConvolutionBackwardData", "native.convolution_backward_data", describe_convolution_backward_data},
    {"ConvolutionBackwardWeights", "cudnn.convolution_backward_weights", describe_cudnn_convolution_backward_weights},
    {"ConvolutionBackwardWeights", "native.convolution_backward_weights", describe_convolution_backward_weights},
    {"InnerProduct", "cublaslt.inner_product", describe_inner_product},
    {"InnerProductBackwardData", "cublaslt.inner_product_backward_data", describe_inner_product_backward_data},
    {"InnerProductBackwardWeights", "cublaslt.inner_product_backward_weights", describe_inner_product_backward_weights},
    {"MatMul", "cublaslt.matmul", describe_matmul},

    // Pooling and normalisation
    {"AveragePool", "cudnn.average_pool", describe_cudnn_pooling},
    {"AveragePool", "native.average_pool", describe_average_pool},
    {"AveragePoolBackward", "cudnn.average_pool_backward", describe_cudnn_pooling},
    {"AveragePoolBackward", "native.average_pool_backward", describe_average_pool},
    {"BatchNormalization", "native.batch_norm_inference", describe_batch_norm_inference},
    {"BatchNormalizationBackward", "cudnn.batch_norm_backward", describe_cudnn_batch_norm_backward},
    {"BatchNormalizationBackward", "native.batch_norm_backward", describe_batch_norm_backward},
    {"BatchNormalizationFactors", "native.batch_norm_factors", describe_batch_norm_factors},
    {"BatchNormalizationTraining", "cudnn.batch_norm", describe_cudnn_batch_norm},
    {"BatchNormalizationTraining", "native.batch_norm", describe_batch_norm_training},
    {"LRN", "native.lrn", describe_lrn},
    {"LRNBackward", "native.lrn_backward", describe_lrn},
    {"LRNTraining", "native.lrn_training", describe_lrn},
    {"LogSoftmax", "native.log_softmax", describe_softmax},
    {"MaxPool", "native.max_pool", describe_max_pool},
    {"MaxPoolBackward", "cudnn.max_pool_backward", describe_cudnn_pooling},
    {"MaxPoolBackward", "native.max_pool_backward", describe_max_pool_backward},
    {"MaxPoolTraining", "cudnn.max_pool", describe_cudnn_pooling},
    {"MaxPoolTraining", "native.max_pool_training", describe_max_pool},
    {"Softmax", "native.softmax", describe_softmax},

    // Elementwise
    {"Abs", "native.elementwise", describe_fused_elementwise},
    {"Add", "native.elementwise", describe_fused_elementwise},
    {"And", "native.comparison", describe_comparison},
    {"Cast", "native.cast", describe_cast},
    {"Ceil", "native.elementwise", describe_fused_elementwise},
    {"Clip", "native.elementwise", describe_fused_elementwise},
    {"ClipBackward", "native.elementwise", describe_fused_elementwise},
    {"Cos", "native.elementwise", describe_fused_elementwise},
    {"Div", "native.elementwise", describe_fused_elementwise},
    {"Elementwise", "native.elementwise", describe_fused_elementwise},
    {"Elu", "native.elementwise", describe_fused_elementwise},
    {"EluBackward", "native.elementwise", describe_fused_elementwise},
    {"Equal", "native.comparison", describe_comparison},
    {"Erf", "native.elementwise", describe_fused_elementwise},
    {"Exp", "native.elementwise", describe_fused_elementwise},
    {"Floor", "native.elementwise", describe_fused_elementwise},
    {"Greater", "native.comparison", describe_comparison},
    {"GreaterOrEqual", "native.comparison", describe_comparison},
    {"HardSigmoid", "native.elementwise", describe_fused_elementwise},
    {"HardSigmoidBackward", "native.elementwise", describe_fused_elementwise},
    {"Identity", "native.elementwise", describe_fused_elementwise},
    {"LeakyRelu", "native.elementwise", describe_fused_elementwise},
    {"LeakyReluBackward", "native.elementwise", describe_fused_elementwise},
    {"Less", "native.comparison", describe_comparison},
    {"LessOrEqual", "native.comparison", describe_comparison},
    {"Log", "native.elementwise", describe_fused_elementwise},
    {"Max", "native.elementwise", describe_fused_elementwise},
    {"Min", "native.elementwise", describe_fused_elementwise},
    {"Mod", "native.elementwise", describe_fused_elementwise},
    {"Mul", "native.elementwise", describe_fused_elementwise},
    {"Neg", "native.elementwise", describe_fused_elementwise},
    {"Not", "native.comparison", describe_comparison},
    {"Or", "native.comparison", describe_comparison},
    {"Pow", "native.elementwise", describe_fused_elementwise},
    {"Reciprocal", "native.elementwise", describe_fused_elementwise},
    {"Relu", "native.elementwise", describe_fused_elementwise},
    {"ReluBackward", "native.elementwise", describe_fused_elementwise},
    {"Round", "native.elementwise", describe_fused_elementwise},
    {"Sigmoid", "native.elementwise", describe_fused_elementwise},
    {"SigmoidBackward", "native.elementwise", describe_fused_elementwise},
    {"Sign", "native.elementwise", describe_fused_elementwise},
    {"Sin", "native.elementwise", describe_fused_elementwise},
    {"Softplus", "native.elementwise", describe_fused_elementwise},
    {"Sqrt", "native.elementwise", describe_fused_elementwise},
    {"Sub", "native.elementwise", describe_fused_elementwise},
    {"Tanh", "native.elementwise", describe_fused_elementwise},
    {"TanhBackward", "native.elementwise", describe_fused_elementwise},
    {"Where", "native.where", describe_where},
    {"Xor", "native.comparison", describe_comparison},

    // Movement
    {"Concat", "native.concat", describe_concat},
    {"Expand", "native.expand", describe_expand},
    {"Fill", "native.fill", describe_fill},
    {"Gather", "native.gather", describe_gather},
    {"GatherBackward", "native.gather_backward", describe_gather_backward},
    {"Pad", "native.pad", describe_pad},
    {"PadBackward", "native.pad_backward", describe_pad_backward},
    {"Reorder", "native.reorder", describe_reorder},
    {"Reshape", "native.reshape", describe_reshape},
    {"Slice", "native.slice", describe_slice},
    {"SliceBackward", "native.slice_backward", describe_slice_backward},
    {"Tile", "native.tile", describe_tile},
    {"Transpose", "native.transpose", describe_transpose},

    // Reductions
    {"ArgMax", "native.arg_max", describe_arg_max},
    {"ArgMin", "native.arg_min", describe_arg_max},
    {"ReduceMax", "native.reduction", describe_reduction},
    {"ReduceMean", "native.reduction", describe_reduction},
    {"ReduceMin", "native.reduction", describe_reduction},
    {"ReduceProd", "native.reduction", describe_reduction},
    {"ReduceSum", "native.reduction", describe_reduction},

    // Losses, metrics, dropout
    {"CountCorrect", "native.count_correct", describe_count_correct},
    {"DropoutBackward", "native.dropout_backward", describe_dropout_backward},
    {"DropoutTraining", "native.dropout", describe_dropout},
    {"NegativeLogLikelihoodLoss", "native.negative_log_likelihood", describe_negative_log_likelihood},
    {"NegativeLogLikelihoodLossBackward", "native.negative_log_likelihood_backward", describe_negative_log_likelihood},
    {"SoftmaxCrossEntropyTraining", "native.softmax_cross_entropy", describe_softmax_cross_entropy},

    // Updates
    {"AdamUpdate", "native.adam", describe_update},
    {"AllFinite", "native.all_finite", describe_all_finite},
    {"LossScale", "native.loss_scale", describe_loss_scale},
    {"LossScaleUpdate", "native.loss_scale_update", describe_loss_scale_update},
    {"RmspropUpdate", "native.rmsprop", describe_update},
    {"RunningStatistics", "native.running_statistics", describe_running_statistics},
    {"ScaledScalars", "native.scaled_scalars", describe_scaled_scalars},
    {"SgdUpdate", "native.sgd", describe_update},
};

}  // namespace

std::span<const Row> kernels() { return rows; }

}  // namespace tandem::cuda
