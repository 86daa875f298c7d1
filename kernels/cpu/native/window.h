// The sliding window of convolutions and pooling, from a node's attributes: one entry a spatial axis.
#pragma once
#include "graph/attributes.h"

namespace tandem {

struct Window {
  Ints kernel, strides, dilations, begin, end;  // begin, end: padding
  int rank() const { return static_cast<int>(kernel.size()); }
  std::int64_t reach(int axis) const {  // from a window's first to its last element
    const auto i = static_cast<std::size_t>(axis);
    return (kernel[i] - 1) * dilations[i] + 1;
  }
};

inline Window window_of(const Attributes& attributes, Ints kernel) {
  Window w;
  const std::size_t rank = kernel.size();
  w.kernel = std::move(kernel);
  w.strides = attributes.ints("strides", Ints(rank, 1));
  w.dilations = attributes.ints("dilations", Ints(rank, 1));
  const Ints pads = attributes.ints("pads", Ints(2 * rank, 0));
  if (w.strides.size() != rank || w.dilations.size() != rank || pads.size() != 2 * rank)
    fail("window of ", rank, " axes: strides has ", w.strides.size(), " entries, dilations ", w.dilations.size(), ", pads ", pads.size());
  w.begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  w.end.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  return w;
}

// Of a convolution, whose filter tells the kernel's size.
inline Window window_of(const Attributes& attributes, const Shape& filter) {
  return window_of(attributes, Ints(filter.begin() + 2, filter.end()));
}

// Fused activation: absent or "Relu".
inline bool has_relu(const Attributes& attributes) {
  const std::string activation = attributes.text("activation", "");
  if (!activation.empty() && activation != "Relu") fail("activation is '", activation, "', expected Relu");
  return !activation.empty();
}

}  // namespace tandem
