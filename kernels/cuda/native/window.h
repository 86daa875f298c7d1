// What kernels share that slide windows over tensors laid out channels last.
#pragma once
#include <optional>

#include "kernels/cuda/bodies/window.h"
#include "kernels/cuda/native/launches.h"

namespace tandem::cuda {

// Of the node's attributes; x is the tensor that the window slides over, y what it gives. Nothing where there are no or more
// than three spatial axes.
std::optional<WindowGeometry> window_geometry(const Attributes& attributes, const Shape& x, const Shape& y);
// All operands of the input's rank channels last. Nothing for types that are not floating-point.
std::optional<KernelDescription> channels_last_description(const KernelRequest& request, std::string_view kernel);

}  // namespace tandem::cuda
