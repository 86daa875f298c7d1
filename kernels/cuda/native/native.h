// The describe functions of our own kernels, which kernels.cpp and the emulated tests list. None needs a library.
#pragma once
#include "kernels/kernel.h"

namespace tandem::cuda {

class Libraries;
using Descriptions = std::vector<KernelDescription>;

Descriptions describe_elementwise(const KernelRequest&, Libraries*);
Descriptions describe_reduction(const KernelRequest&, Libraries*);  // ReduceSum, Mean, Max, Min, Prod
Descriptions describe_batch_norm_training(const KernelRequest&, Libraries*);
Descriptions describe_batch_norm_backward(const KernelRequest&, Libraries*);
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

}  // namespace tandem::cuda
