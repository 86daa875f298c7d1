#include "kernels/cuda/kernels.h"

#include "kernels/cuda/cudnn/families.h"
#include "kernels/cuda/fused/elementwise.h"
#include "kernels/cuda/native/native.h"

namespace tandem::cuda {
namespace {

constexpr Row rows[] = {
    // Convolution
    {"Conv", "cudnn.convolution", describe_cudnn_convolution},
    {"ConvolutionBackwardData", "cudnn.convolution_backward_data", describe_cudnn_convolution_backward_data},
    {"ConvolutionBackwardWeights", "cudnn.convolution_backward_weights", describe_cudnn_convolution_backward_weights},
    {"ConvTranspose", "cudnn.convolution_transpose", describe_cudnn_convolution_transpose},
    // Pooling and normalisation
    {"MaxPoolTraining", "cudnn.max_pool", describe_cudnn_pooling},
    {"MaxPoolBackward", "cudnn.max_pool_backward", describe_cudnn_pooling},
    {"AveragePool", "cudnn.average_pool", describe_cudnn_pooling},
    {"AveragePoolBackward", "cudnn.average_pool_backward", describe_cudnn_pooling},
    {"BatchNormalization", "native.batch_norm_inference", describe_batch_norm_inference},
    {"BatchNormalizationTraining", "cudnn.batch_norm", describe_cudnn_batch_norm},
    {"BatchNormalizationTraining", "native.batch_norm", describe_batch_norm_training},
    {"BatchNormalizationBackward", "cudnn.batch_norm_backward", describe_cudnn_batch_norm_backward},
    {"BatchNormalizationBackward", "native.batch_norm_backward", describe_batch_norm_backward},
    // Reductions and movement
    {"ReduceSum", "native.reduction", describe_reduction},
    {"ReduceMean", "native.reduction", describe_reduction},
    {"ReduceMax", "native.reduction", describe_reduction},
    {"ReduceMin", "native.reduction", describe_reduction},
    {"ReduceProd", "native.reduction", describe_reduction},
    {"Reshape", "native.reshape", describe_reshape},
    {"Transpose", "native.transpose", describe_transpose},
    {"Concat", "native.concat", describe_concat},
    {"Slice", "native.slice", describe_slice},
    {"SliceBackward", "native.slice_backward", describe_slice_backward},
    {"Pad", "native.pad", describe_pad},
    {"PadBackward", "native.pad_backward", describe_pad_backward},
    {"Expand", "native.expand", describe_expand},
    {"Tile", "native.tile", describe_tile},
    {"Gather", "native.gather", describe_gather},
    {"GatherBackward", "native.gather_backward", describe_gather_backward},
    {"Reorder", "native.reorder", describe_reorder},
    {"Fill", "native.fill", describe_fill},
    // Elementwise
    {"Elementwise", "native.elementwise", describe_fused_elementwise},
};

}  // namespace

std::span<const Row> kernels() { return rows; }

}  // namespace tandem::cuda
