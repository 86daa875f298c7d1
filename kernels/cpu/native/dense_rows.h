// The native dense kernels: row-major, float and double, every attribute. They serve gradient checks in double and the
// cases that oneDNN declines. And one family that is there for its speed: convolutions channels last.
#pragma once
#include "kernels/cpu/rows.h"

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

}  // namespace tandem::native
