// The attributes of a window are read once, with ONNX's defaults and auto_pad resolved, and written back: gradients and kernels then
// see explicit numbers only.
#include "graph/operators/window.h"

#include <algorithm>

namespace tandem {
namespace {

Ints list_of(InferContext& c, const char* name, std::size_t entries, std::int64_t absent, std::int64_t least) {
  Ints list = c.attributes().ints(name, Ints(entries, absent));
  if (list.empty()) list.assign(entries, absent);
  if (list.size() != entries) c.fail(name, " has ", list.size(), " entries, expected ", entries);
  for (const std::int64_t v : list)
    if (v < least || v > longest_axis) c.fail(name, " holds ", v, ", expected ", least, " to ", longest_axis);
  return list;
}

}  // namespace

WindowAttributes read_window(InferContext& c, const Ints& kernel) {
  const Shape& x = c.shape(0);
  if (x.rank() < 3) c.fail("input 0 is ", c.input(0), ", expected [N,C,...] with at least one spatial axis");
  for (const std::int64_t d : x)
    if (d > longest_axis) c.fail("input 0 is ", c.input(0), ": an axis is too long");
  const std::size_t rank = at(x.rank() - 2);
  WindowAttributes w;
  if (kernel.empty() && !c.attributes().has("kernel_shape")) c.fail("kernel_shape is missing");
  w.kernel = list_of(c, "kernel_shape", rank, 1, 1);
  if (!kernel.empty()) {
    if (kernel.size() != rank) c.fail("the weight has ", kernel.size(), " spatial axes, x ", x, " has ", rank);
    if (c.attributes().has("kernel_shape") && w.kernel != kernel)
      c.fail("kernel_shape is ", Shape(w.kernel), ", the weight's spatial axes are ", Shape(kernel));
    w.kernel = kernel;
  }
  w.strides = list_of(c, "strides", rank, 1, 1);
  w.dilations = list_of(c, "dilations", rank, 1, 1);
  w.pads = list_of(c, "pads", 2 * rank, 0, 0);
  for (int i = 0; i < w.rank(); ++i)
    if (w.kernel[at(i)] < 1 || w.extent(i) > longest_axis)
      c.fail("the kernel's axis ", i, " is ", w.kernel[at(i)], " with dilation ", w.dilations[at(i)]);
  return w;
}

void write_window(InferContext& c, const WindowAttributes& window) {
  const Shape& x = c.shape(0);
  for (int i = 0; i < window.rank(); ++i)
    if (const std::int64_t padded = x[i + 2] + window.pads[at(i)] + window.pads[at(i + window.rank())]; padded > longest_axis)
      c.fail("spatial axis ", i, " of x ", x, " with its pads has ", padded, " elements, expected at most ", longest_axis);
  Attributes& a = c.node().attributes;
  a.set("kernel_shape", window.kernel);
  a.set("strides", window.strides);
  a.set("pads", window.pads);
  a.set("dilations", window.dilations);
}

void resolve_pads(InferContext& c, WindowAttributes& window, const Shape& x) {
  const std::string mode = c.attributes().text("auto_pad", "NOTSET");
  c.node().attributes.erase("auto_pad");
  if (mode == "NOTSET" || mode.empty()) return;
  const int rank = window.rank();
  window.pads.assign(at(2 * rank), 0);
  if (mode == "VALID") return;
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") c.fail("auto_pad is '", mode, "', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  for (int i = 0; i < rank; ++i) {
    const std::int64_t size = x[i + 2], stride = window.strides[at(i)];
    const std::int64_t count = (size + stride - 1) / stride;
    const std::int64_t total = std::max<std::int64_t>(0, (count - 1) * stride + window.extent(i) - size);
    const std::int64_t small = total / 2, large = total - small;
    window.pads[at(i)] = mode == "SAME_UPPER" ? small : large;
    window.pads[at(i + rank)] = mode == "SAME_UPPER" ? large : small;
  }
}

Shape window_counts(const InferContext& c, const WindowAttributes& window, const Shape& x, bool ceil_mode) {
  Shape counts;
  const int rank = window.rank();
  for (int i = 0; i < rank; ++i) {
    const std::int64_t begin = window.pads[at(i)], padded = x[i + 2] + begin + window.pads[at(i + rank)];
    const std::int64_t stride = window.strides[at(i)], room = padded - window.extent(i);
    if (room < 0)
      c.fail("the window spans ", window.extent(i), " along spatial axis ", i, ", but x ", x, " with its pads has only ", padded);
    std::int64_t n = (ceil_mode ? (room + stride - 1) / stride : room / stride) + 1;
    if (ceil_mode && (n - 1) * stride >= x[i + 2] + begin) --n;
    counts.dims.push_back(n);
  }
  return counts;
}

namespace {

// Rounded up, a window larger than what it lies on is there once, and has what is there: how some models write a global pool.
void fit_window(WindowAttributes& window, const Shape& x) {
  for (int i = 0; i < window.rank(); ++i) {
    const std::int64_t size = x[i + 2], extent = window.extent(i);
    const bool bare = window.pads[at(i)] == 0 && window.pads[at(i + window.rank())] == 0 && window.dilations[at(i)] == 1;
    if (bare && size > 0 && extent > size && extent - size < window.strides[at(i)]) window.kernel[at(i)] = size;
  }
}

}  // namespace

// Tap t of window i lies at i·stride − begin + t·dilation.
void clip_window(WindowAttributes& window, const Shape& x, const Shape& counts) {
  for (int i = 0; i < window.rank(); ++i) {
    const std::int64_t size = x[i + 2], windows = counts[i], dilation = window.dilations[at(i)];
    std::int64_t &kernel = window.kernel[at(i)], &begin = window.pads[at(i)], &end = window.pads[at(i + window.rank())];
    if (size == 0 || windows == 0) continue;
    const auto leave_out = [&](std::int64_t taps, std::int64_t& pad) {
      taps = std::clamp<std::int64_t>(taps, 0, std::min(kernel - 1, pad / dilation));
      kernel -= taps;
      pad -= taps * dilation;
    };
    leave_out((begin - (windows - 1) * window.strides[at(i)]) / dilation, begin);
    leave_out(kernel - ((size - 1 + begin) / dilation + 1), end);
  }
}

Pooled pool_input(InferContext& c) {
  const Shape& x = c.shape(0);
  WindowAttributes window = read_window(c, {});
  const bool ceil_mode = c.attributes().integer("ceil_mode", 0) != 0 && c.attributes().text("auto_pad", "NOTSET") == "NOTSET";
  resolve_pads(c, window, x);
  if (ceil_mode) fit_window(window, x);
  Shape y = window_counts(c, window, x, ceil_mode);
  y.dims.insert(y.dims.begin(), {x[0], x[1]});
  return {std::move(window), std::move(y)};
}

bool follow_groups(FollowContext& c, const Ints& operands, const Ints& results) {
  std::int64_t outer = 0;
  for (int i = 0; i < c.inputs(); ++i) {
    if (!c.place(i).present()) continue;
    if (c.place(i).axis != operands[at(i)] || (outer > 0 && c.place(i).outer != outer)) return false;
    outer = c.place(i).outer;
  }
  if (c.attributes().integer("group", 1) % (outer * c.batch()) != 0) return false;
  for (int i = 0; i < c.inputs(); ++i)
    if (c.has_input(i) && !c.place(i).present()) c.repeat(i, static_cast<int>(operands[at(i)]), outer);
  for (int i = 0; i < c.outputs(); ++i) c.set(i, {.axis = static_cast<int>(results[at(i)]), .outer = outer});
  return true;
}

}  // namespace tandem
