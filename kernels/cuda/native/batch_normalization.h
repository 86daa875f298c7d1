// BatchNormalization's operands as cuDNN's kernels and our own share them: x, y and their gradients channels last, the
// opaque operand 1/√(variance + ε) in the statistics' type, so that either's backward reads either's forward.
#pragma once
#include <optional>

#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {

std::optional<KernelDescription> batch_normalization_description(const KernelRequest& request, std::string_view kernel);
std::optional<KernelDescription> batch_normalization_backward_description(const KernelRequest& request, std::string_view kernel);
// output 2 (the variance) from output 3 (the opaque operand).
Binder variance_binder(std::int64_t channels, float epsilon);

// What Conv's outputs 1 and 2, the sums of output 0 and of its squares by channel, take beside the convolution.
struct ChannelSums {
  KernelRequest request;         // of the convolution alone
  std::vector<Operand> outputs;  // 1 and 2, as they are written
  std::int64_t workspace = 0;
  Binder bind;                   // of launches that sum output 0, which lies channels last
};
std::optional<ChannelSums> channel_sums_of(const KernelRequest& request);  // nothing for a Conv that gives none

// What a convolution, or its weights' gradient, that is to normalize its input takes beside it: a normalized copy.
struct NormalizedInput {
  std::int64_t workspace = 0;
  Binder bind;  // of a launch that writes the copy there, channels last
};
// `factor`: the operand's number, its shift comes next. Nothing where there is none.
std::optional<NormalizedInput> normalized_input_of(const KernelRequest& request, std::size_t factor);

}  // namespace tandem::cuda
