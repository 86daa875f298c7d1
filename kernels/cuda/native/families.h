// The describe functions of our own kernels, for kernels.cpp: each source defines its own and includes nothing of this. None
// needs a library.
#pragma once
#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {

Descriptions describe_elementwise(const KernelRequest&, Libraries*);
bool has_formula(std::string_view op);  // which operators that serves
Descriptions describe_reduction(const KernelRequest&, Libraries*);  // ReduceSum, Mean, Max, Min, Prod
Descriptions describe_batch_norm_training(const KernelRequest&, Libraries*);
Descriptions describe_batch_norm_backward(const KernelRequest&, Libraries*);
Descriptions describe_batch_norm_factors(const KernelRequest&, Libraries*);
Descriptions describe_batch_norm_inference(const KernelRequest&, Libraries*);
Descriptions describe_reorder(const KernelRequest&, Libraries*);
Descriptions describe_reshape(const KernelRequest&, Libraries*);
Descriptions describe_transpose(const KernelRequest&, Libraries*);
Descriptions describe_expand(const KernelRequest&, Libraries*);
Descriptions describe_tile(const KernelRequest&, Libraries*);
Descriptions describe_slice(const KernelRequest&, Libraries*);
Descriptions describe_slice_backward(const KernelRequest&, Libraries*);
Descriptions describe_concat(const KernelRequest&, Libraries*);
Descriptions describe_fill(const KernelRequest&, Libraries*);
Descriptions describe_pad(const KernelRequest&, Libraries*);
Descriptions describe_pad_backward(const KernelRequest&, Libraries*);
Descriptions describe_gather(const KernelRequest&, Libraries*);
Descriptions describe_gather_backward(const KernelRequest&, Libraries*);
Descriptions describe_gather_elements(const KernelRequest&, Libraries*);
Descriptions describe_gather_elements_backward(const KernelRequest&, Libraries*);
Descriptions describe_comparison(const KernelRequest&, Libraries*);  // and logic
bool is_comparison(std::string_view op);
Descriptions describe_where(const KernelRequest&, Libraries*);
Descriptions describe_cast(const KernelRequest&, Libraries*);
Descriptions describe_softmax(const KernelRequest&, Libraries*);  // and LogSoftmax
Descriptions describe_softmax_cross_entropy(const KernelRequest&, Libraries*);
Descriptions describe_negative_log_likelihood(const KernelRequest&, Libraries*);  // and its gradient
Descriptions describe_count_correct(const KernelRequest&, Libraries*);
Descriptions describe_arg_max(const KernelRequest&, Libraries*);  // ArgMax, ArgMin
Descriptions describe_dropout(const KernelRequest&, Libraries*);
Descriptions describe_dropout_backward(const KernelRequest&, Libraries*);
Descriptions describe_update(const KernelRequest&, Libraries*);  // SgdUpdate, AdamUpdate, RmspropUpdate
Descriptions describe_running_statistics(const KernelRequest&, Libraries*);
Descriptions describe_all_finite(const KernelRequest&, Libraries*);
Descriptions describe_loss_scale(const KernelRequest&, Libraries*);
Descriptions describe_loss_scale_update(const KernelRequest&, Libraries*);
Descriptions describe_scaled_scalars(const KernelRequest&, Libraries*);
Descriptions describe_max_pool(const KernelRequest&, Libraries*);  // and MaxPoolTraining
Descriptions describe_max_pool_backward(const KernelRequest&, Libraries*);
Descriptions describe_average_pool(const KernelRequest&, Libraries*);  // and its gradient
Descriptions describe_convolution(const KernelRequest&, Libraries*);
Descriptions describe_convolution_backward_data(const KernelRequest&, Libraries*);  // and ConvTranspose
Descriptions describe_convolution_backward_weights(const KernelRequest&, Libraries*);
Descriptions describe_lrn(const KernelRequest&, Libraries*);  // LRN, LRNTraining, LRNBackward

}  // namespace tandem::cuda
