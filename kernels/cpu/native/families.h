// Our own kernels, for kernels.cpp and the tests: each source defines its own and includes nothing of this. Dense ones are
// row-major, float and double, with every attribute: they serve gradient checks in double and the cases that oneDNN declines.
// One family is there for its speed: convolutions channels last.
#pragma once
#include "kernels/cpu/describe.h"

namespace tandem::native {

Descriptions describe_convolution(const KernelRequest&);
Descriptions describe_convolution_backward_data(const KernelRequest&);
Descriptions describe_convolution_backward_weights(const KernelRequest&);
Descriptions describe_convolution_transpose(const KernelRequest&);
Descriptions describe_channels_last_convolution(const KernelRequest&);
Descriptions describe_channels_last_convolution_backward_data(const KernelRequest&);
Descriptions describe_inner_product(const KernelRequest&);
Descriptions describe_inner_product_backward_data(const KernelRequest&);
Descriptions describe_inner_product_backward_weights(const KernelRequest&);
Descriptions describe_matmul(const KernelRequest&);
Descriptions describe_max_pool(const KernelRequest&);  // MaxPool, MaxPoolTraining
Descriptions describe_max_pool_backward(const KernelRequest&);
Descriptions describe_average_pool(const KernelRequest&);
Descriptions describe_average_pool_backward(const KernelRequest&);
Descriptions describe_batch_normalization(const KernelRequest&);
Descriptions describe_batch_normalization_training(const KernelRequest&);
Descriptions describe_batch_normalization_backward(const KernelRequest&);
Descriptions describe_batch_normalization_factors(const KernelRequest&);
Descriptions describe_lrn(const KernelRequest&);  // LRN, LRNTraining
Descriptions describe_lrn_backward(const KernelRequest&);
Descriptions describe_softmax(const KernelRequest&);  // Softmax, LogSoftmax

Descriptions describe_elementwise(const KernelRequest&);
bool has_formula(std::string_view op);  // which operators that serves
Descriptions describe_reorder(const KernelRequest&);
Descriptions describe_fill(const KernelRequest&);
Descriptions describe_reshape(const KernelRequest&);
Descriptions describe_transpose(const KernelRequest&);
Descriptions describe_slice(const KernelRequest&);
Descriptions describe_slice_backward(const KernelRequest&);
Descriptions describe_pad(const KernelRequest&);
Descriptions describe_pad_backward(const KernelRequest&);
Descriptions describe_expand(const KernelRequest&);
Descriptions describe_tile(const KernelRequest&);
Descriptions describe_concat(const KernelRequest&);
Descriptions describe_gather(const KernelRequest&);
Descriptions describe_gather_backward(const KernelRequest&);
Descriptions describe_gather_elements(const KernelRequest&);
Descriptions describe_gather_elements_backward(const KernelRequest&);
Descriptions describe_reduce(const KernelRequest&);   // ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd
Descriptions describe_arg_max(const KernelRequest&);  // ArgMax, ArgMin
Descriptions describe_softmax_cross_entropy_training(const KernelRequest&);
Descriptions describe_negative_log_likelihood(const KernelRequest&);
Descriptions describe_negative_log_likelihood_backward(const KernelRequest&);
Descriptions describe_count_correct(const KernelRequest&);
Descriptions describe_dropout_training(const KernelRequest&);
Descriptions describe_dropout_backward(const KernelRequest&);
Descriptions describe_update(const KernelRequest&);   // SgdUpdate, AdamUpdate, RmspropUpdate
Descriptions describe_running_statistics(const KernelRequest&);
Descriptions describe_all_finite(const KernelRequest&);
Descriptions describe_loss_scale(const KernelRequest&);
Descriptions describe_loss_scale_update(const KernelRequest&);
Descriptions describe_scaled_scalars(const KernelRequest&);

}  // namespace tandem::native
