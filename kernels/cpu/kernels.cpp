// The CPU's list of kernels. Within an operator the best comes first: oneDNN's, then our own, which take every type and shape.
#include "kernels/cpu/kernels.h"

#include "kernels/cpu/native/families.h"
#include "kernels/cpu/onednn/families.h"

namespace tandem {
namespace {

constexpr CpuKernelRow rows[] = {
    // Dense and convolution
    {"Conv", "onednn.convolution", onednn::describe_convolution},
    {"Conv", "native.convolution.channels_last", native::describe_channels_last_convolution},
    {"Conv", "native.convolution", native::describe_convolution},
    {"ConvTranspose", "onednn.convolution_transpose", onednn::describe_convolution_transpose},
    {"ConvTranspose", "native.convolution_transpose", native::describe_convolution_transpose},
    {"ConvolutionBackwardData", "onednn.convolution_backward_data", onednn::describe_convolution_backward_data},
    {"ConvolutionBackwardData", "native.convolution_backward_data.channels_last", native::describe_channels_last_convolution_backward_data},
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
    {"BatchNormalizationFactors", "native.batch_normalization_factors", native::describe_batch_normalization_factors},
    {"BatchNormalizationTraining", "onednn.batch_normalization_training", onednn::describe_batch_normalization_training},
    {"BatchNormalizationTraining", "native.batch_normalization_training", native::describe_batch_normalization_training},
    {"LRN", "onednn.lrn", onednn::describe_lrn},
    {"LRN", "native.lrn", native::describe_lrn},
    {"LRNBackward", "onednn.lrn_backward", onednn::describe_lrn_backward},
    {"LRNBackward", "native.lrn_backward", native::describe_lrn_backward},
    {"LRNTraining", "onednn.lrn_training", onednn::describe_lrn},
    {"LRNTraining", "native.lrn_training", native::describe_lrn},
    {"LogSoftmax", "native.log_softmax", native::describe_softmax},
    {"MaxPool", "onednn.max_pool", onednn::describe_max_pool},
    {"MaxPool", "native.max_pool", native::describe_max_pool},
    {"MaxPoolBackward", "onednn.max_pool_backward", onednn::describe_max_pool_backward},
    {"MaxPoolBackward", "native.max_pool_backward", native::describe_max_pool_backward},
    {"MaxPoolTraining", "onednn.max_pool_training", onednn::describe_max_pool},
    {"MaxPoolTraining", "native.max_pool_training", native::describe_max_pool},
    {"Softmax", "onednn.softmax", onednn::describe_softmax},
    {"Softmax", "native.softmax", native::describe_softmax},

    // Elementwise: all that have a formula
    {"Cast", "onednn.cast", onednn::describe_cast},
    {"Elementwise", "native.elementwise", native::describe_elementwise, native::has_formula},

    // Movement
    {"Concat", "onednn.concat", onednn::describe_concat},
    {"Concat", "native.concat", native::describe_concat},
    {"Expand", "native.expand", native::describe_expand},
    {"Fill", "native.fill", native::describe_fill},
    {"Gather", "native.gather", native::describe_gather},
    {"GatherBackward", "native.gather_backward", native::describe_gather_backward},
    {"Pad", "native.pad", native::describe_pad},
    {"PadBackward", "native.pad_backward", native::describe_pad_backward},
    {"Reorder", "onednn.reorder", onednn::describe_reorder},
    {"Reorder", "native.reorder", native::describe_reorder},
    {"Reshape", "native.reshape", native::describe_reshape},
    {"Slice", "onednn.slice", onednn::describe_slice},
    {"Slice", "native.slice", native::describe_slice},
    {"SliceBackward", "native.slice_backward", native::describe_slice_backward},
    {"Tile", "native.tile", native::describe_tile},
    {"Transpose", "native.transpose", native::describe_transpose},

    // Reductions
    {"ArgMax", "native.arg_max", native::describe_arg_max},
    {"ArgMin", "native.arg_min", native::describe_arg_max},
    {"ReduceMax", "native.reduce", native::describe_reduce},
    {"ReduceMean", "native.reduce", native::describe_reduce},
    {"ReduceMin", "native.reduce", native::describe_reduce},
    {"ReduceProd", "native.reduce", native::describe_reduce},
    {"ReduceSum", "native.reduce", native::describe_reduce},

    // Losses, metrics, dropout
    {"CountCorrect", "native.count_correct", native::describe_count_correct},
    {"DropoutBackward", "native.dropout_backward", native::describe_dropout_backward},
    {"DropoutTraining", "native.dropout", native::describe_dropout_training},
    {"NegativeLogLikelihoodLoss", "native.negative_log_likelihood", native::describe_negative_log_likelihood},
    {"NegativeLogLikelihoodLossBackward", "native.negative_log_likelihood_backward", native::describe_negative_log_likelihood_backward},
    {"SoftmaxCrossEntropyTraining", "native.softmax_cross_entropy", native::describe_softmax_cross_entropy_training},

    // Updates
    {"AdamUpdate", "native.adam", native::describe_update},
    {"AllFinite", "native.all_finite", native::describe_all_finite},
    {"LossScale", "native.loss_scale", native::describe_loss_scale},
    {"LossScaleUpdate", "native.loss_scale_update", native::describe_loss_scale_update},
    {"RmspropUpdate", "native.rmsprop", native::describe_update},
    {"RunningStatistics", "native.running_statistics", native::describe_running_statistics},
    {"ScaledScalars", "native.scaled_scalars", native::describe_scaled_scalars},
    {"SgdUpdate", "native.sgd", native::describe_update},
};

}  // namespace

std::span<const CpuKernelRow> cpu_kernels() { return rows; }

}  // namespace tandem
