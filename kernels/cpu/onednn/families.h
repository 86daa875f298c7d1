// The operators oneDNN runs, for kernels.cpp and the tests. Each function returns the descriptions of every way to run the request, best first;
// none where oneDNN has no kernel for it or computes something else than ONNX does.
#pragma once
#include "kernels/cpu/describe.h"

namespace tandem::onednn {

Descriptions describe_convolution(const KernelRequest& request);
Descriptions describe_convolution_backward_data(const KernelRequest& request);
Descriptions describe_convolution_backward_weights(const KernelRequest& request);
Descriptions describe_convolution_transpose(const KernelRequest& request);
Descriptions describe_inner_product(const KernelRequest& request);
Descriptions describe_inner_product_backward_data(const KernelRequest& request);
Descriptions describe_inner_product_backward_weights(const KernelRequest& request);
Descriptions describe_matmul(const KernelRequest& request);
Descriptions describe_max_pool(const KernelRequest& request);  // MaxPool, MaxPoolTraining
Descriptions describe_average_pool(const KernelRequest& request);
Descriptions describe_max_pool_backward(const KernelRequest& request);
Descriptions describe_average_pool_backward(const KernelRequest& request);
Descriptions describe_batch_normalization(const KernelRequest& request);
Descriptions describe_batch_normalization_training(const KernelRequest& request);
Descriptions describe_batch_normalization_backward(const KernelRequest& request);
Descriptions describe_lrn(const KernelRequest& request);  // LRN, LRNTraining
Descriptions describe_lrn_backward(const KernelRequest& request);
Descriptions describe_softmax(const KernelRequest& request);
Descriptions describe_concat(const KernelRequest& request);
Descriptions describe_slice(const KernelRequest& request);  // of whole blocks, in steps of one
Descriptions describe_reorder(const KernelRequest& request);
Descriptions describe_cast(const KernelRequest& request);  // into another layout

// The library's name of what runs behind a kernel ("jit:avx512_core"); empty for kernels that are not of this family.
std::string implementation_of(const Kernel& kernel);

}  // namespace tandem::onednn
