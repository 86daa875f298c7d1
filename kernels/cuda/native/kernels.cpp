// The list of our own kernels for GPUs, which need no library.
#include "kernels/cuda/kernels.h"

#include "kernels/cuda/native/families.h"

namespace tandem::cuda {
namespace {

constexpr Row rows[] = {
    // Dense and convolution
    {"Conv", "native.convolution", describe_convolution},
    {"ConvTranspose", "native.convolution_transpose", describe_convolution_backward_data},
    {"ConvolutionBackwardData", "native.convolution_backward_data", describe_convolution_backward_data},
    {"ConvolutionBackwardWeights", "native.convolution_backward_weights", describe_convolution_backward_weights},

    // Pooling and normalisation
    {"AveragePool", "native.average_pool", describe_average_pool},
    {"AveragePoolBackward", "native.average_pool_backward", describe_average_pool},
    {"BatchNormalization", "native.batch_norm_inference", describe_batch_norm_inference},
    {"BatchNormalizationBackward", "native.batch_norm_backward", describe_batch_norm_backward},
    {"BatchNormalizationFactors", "native.batch_norm_factors", describe_batch_norm_factors},
    {"BatchNormalizationTraining", "native.batch_norm", describe_batch_norm_training},
    {"LRN", "native.lrn", describe_lrn},
    {"LRNBackward", "native.lrn_backward", describe_lrn},
    {"LRNTraining", "native.lrn_training", describe_lrn},
    {"LogSoftmax", "native.log_softmax", describe_softmax},
    {"MaxPool", "native.max_pool", describe_max_pool},
    {"MaxPoolBackward", "native.max_pool_backward", describe_max_pool_backward},
    {"MaxPoolTraining", "native.max_pool_training", describe_max_pool},
    {"Softmax", "native.softmax", describe_softmax},

    // Elementwise: all that have a formula
    {"Elementwise", "native.elementwise", describe_elementwise, has_formula},
    {"Equal", "native.comparison", describe_comparison, is_comparison},
    {"Cast", "native.cast", describe_cast},
    {"Where", "native.where", describe_where},

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

std::span<const Row> native_kernels() { return rows; }

}  // namespace tandem::cuda
