// The sliding window that convolution and pooling share: kernel_shape, strides, pads (begins, then ends), dilations.
#pragma once
#include "base/size.h"
#include "graph/operators/rules.h"

namespace tandem {

struct WindowAttributes {
  Ints kernel, strides, pads, dilations;
  int rank() const { return static_cast<int>(kernel.size()); }
  // What one window spans along an axis.
  std::int64_t extent(int axis) const { return ((Size(kernel[at(axis)]) - 1) * dilations[at(axis)] + 1).value(); }
};

// Reads the attributes of a node whose input 0 is x[N,C,...], fills in what is absent, checks, and writes them back.
// Pads stay as given: auto_pad is for resolve_pads. kernel: of a convolution, its weight's spatial axes; empty: the attribute is needed.
WindowAttributes read_window(InferContext& c, const Ints& kernel);
void write_window(InferContext& c, const WindowAttributes& window);  // fails where x with its pads is longer than libraries count
// auto_pad SAME_* as pads such that there are ceil(size / stride) windows, VALID as none; erases the attribute.
void resolve_pads(InferContext& c, WindowAttributes& window, const Shape& x);
// Windows along each spatial axis: floor((x + pads − extent) / stride) + 1. With ceil_mode the ceiling, less a last
// window that would start in the end padding.
Shape window_counts(const InferContext& c, const WindowAttributes& window, const Shape& x, bool ceil_mode);
// Leaves out of the kernel, and of the pads, what lies beside x in all of the `counts` windows: for a pooling that does not count padding.
void clip_window(WindowAttributes& window, const Shape& x, const Shape& counts);
// Of a pooling node {ceil_mode, auto_pad, ...}: its window with pads resolved, and the shape of what the windows of input 0 give.
// Attributes stay.
struct Pooled {
  WindowAttributes window;
  Shape y;
};
Pooled pool_input(InferContext& c);

// Of a convolution, where it holds samples, or parts, as groups of channels: [.., N·C, ..] by filters [N·M, C, ..] in a multiple of N
// groups, each sample by filters of its own. `operands` and `results` have the axis that counts groups, by input and by output.
// False where the samples lie otherwise, by rows say.
bool follow_groups(FollowContext& c, const Ints& operands, const Ints& results);

}  // namespace tandem
