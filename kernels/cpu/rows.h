// The describe functions that kernels.cpp lists. Each returns every way it can run the request, best first, and
// nothing where it cannot.
#pragma once
#include "kernels/kernel.h"

namespace tandem {

using Descriptions = std::vector<KernelDescription>;
using Describe = Descriptions (*)(const KernelRequest&);

namespace native {
Descriptions describe_elementwise(const KernelRequest&);
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
}  // namespace native

}  // namespace tandem
