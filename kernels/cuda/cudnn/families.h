// The describe functions of cuDNN's kernels, which kernels.cpp lists.
#pragma once
#include "kernels/cuda/kernels.h"

namespace tandem::cuda {

std::vector<KernelDescription> describe_cudnn_convolution(const KernelRequest&, Libraries*);
std::vector<KernelDescription> describe_cudnn_convolution_backward_data(const KernelRequest&, Libraries*);
std::vector<KernelDescription> describe_cudnn_convolution_backward_weights(const KernelRequest&, Libraries*);
std::vector<KernelDescription> describe_cudnn_convolution_transpose(const KernelRequest&, Libraries*);
std::vector<KernelDescription> describe_cudnn_pooling(const KernelRequest&, Libraries*);           // all four operators of pooling
std::vector<KernelDescription> describe_cudnn_batch_norm(const KernelRequest&, Libraries*);        // training
std::vector<KernelDescription> describe_cudnn_batch_norm_backward(const KernelRequest&, Libraries*);

}  // namespace tandem::cuda
