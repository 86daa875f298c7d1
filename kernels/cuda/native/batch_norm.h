// BatchNormalization's operands as cuDNN's kernels and our own share them: x, y and their gradients channels last, the
// opaque operand 1/√(variance + ε) in the statistics' type, so that either's backward reads either's forward.
#pragma once
#include <optional>

#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {

std::optional<KernelDescription> batch_norm_description(const KernelRequest& request, std::string_view kernel);
std::optional<KernelDescription> batch_norm_backward_description(const KernelRequest& request, std::string_view kernel);
// output 2 (the variance) from output 3 (the opaque operand).
Binder variance_binder(std::int64_t channels, float epsilon);

}  // namespace tandem::cuda
