// What the native dense kernels share: a row-major description, and the walk of a window over a tensor.
#pragma once
#include "kernels/cpu/native/native.h"
#include "kernels/cpu/native/window.h"

namespace tandem::native {

inline bool is_real(const Operand& o) { return o.dtype == DType::float32 || o.dtype == DType::float64; }

// All operands row-major (opaque ones as they are).
inline KernelDescription dense_description(const KernelRequest& request, std::string kernel) {
  KernelDescription d{.kernel = std::move(kernel), .inputs = request.inputs, .outputs = request.outputs, .efficiency = 0.05};
  for (std::vector<Operand>* operands : {&d.inputs, &d.outputs})
    for (Operand& o : *operands)
      if (!o.layout.opaque()) o = row_major(o);
  return d;
}

inline std::int64_t product(const Ints& v) {
  std::int64_t n = 1;
  for (const std::int64_t i : v) n *= i;
  return n;
}

inline Ints spatial(const Shape& shape) { return Ints(shape.begin() + 2, shape.end()); }

// One axis of a window that slides from `in` over `out` places: output o meets input o·stride + tap·dilation − begin.
struct Axis {
  std::int64_t in = 1, out = 1, taps = 1, stride = 1, dilation = 1, begin = 0;

  Axis() = default;
  Axis(const Window& window, int axis, const Shape& x, const Shape& y) : in(x[2 + axis]), out(y[2 + axis]) {
    const auto k = static_cast<std::size_t>(axis);
    taps = window.kernel[k];
    stride = window.strides[k];
    dilation = window.dilations[k];
    begin = window.begin[k];
  }
  std::int64_t input(std::int64_t output, std::int64_t tap) const { return output * stride + tap * dilation - begin; }
  // The taps that output meets inside the image.
  Range taps_of(std::int64_t output) const { return within(input(output, 0), dilation, taps); }
  // The outputs whose `tap` is inside the image.
  Range outputs_of(std::int64_t tap) const { return within(input(0, tap), stride, out); }

 private:
  // Of `count` places from `first` on, `step` apart, those inside the image.
  Range within(std::int64_t first, std::int64_t step, std::int64_t count) const {
    const auto from = [&](std::int64_t place) { return std::clamp<std::int64_t>((place - first + step - 1) / step, 0, count); };
    return {from(0), from(in)};
  }
};

// Images of `rank` axes whose channels lie in blocks of 16: "aBcd16b".
inline Layout channel_blocks(int rank) {
  std::string tag = "aB";
  for (int i = 2; i < rank; ++i) tag += static_cast<char>('a' + i);
  return Layout(tag + "16b");
}

// Which elements of a plane (the spatial axes of one channel) each window covers.
class Windows {
 public:
  Windows() = default;
  Windows(const Shape& x, const Shape& y, Window window)
      : window_(std::move(window)),
        in_(spatial(x)),
        out_(spatial(y)),
        plane_(product(in_)),
        outputs_(product(out_)),
        taps_(product(window_.kernel)) {
    if (window_.rank() != x.rank() - 2 || x.rank() != y.rank())
      fail("window of ", window_.rank(), " axes over ", x, ", giving ", y);
  }
  std::int64_t plane() const { return plane_; }      // elements of a plane
  std::int64_t outputs() const { return outputs_; }  // windows of a plane
  std::int64_t taps() const { return taps_; }        // elements of a window

  // The place in the plane of tap `tap` of window `output`; -1 in the padding, -2 beyond it.
  std::int64_t place(std::int64_t output, std::int64_t tap) const {
    std::int64_t place = 0, stride = 1, outside = 0;
    for (std::size_t axis = in_.size(); axis-- > 0;) {
      const std::int64_t o = output % out_[axis], k = tap % window_.kernel[axis];
      output /= out_[axis];
      tap /= window_.kernel[axis];
      const std::int64_t i = o * window_.strides[axis] + k * window_.dilations[axis] - window_.begin[axis];
      if (i < 0 || i >= in_[axis]) outside = std::min<std::int64_t>(outside, i >= in_[axis] + window_.end[axis] ? -2 : -1);
      place += i * stride;
      stride *= in_[axis];
    }
    return outside < 0 ? outside : place;
  }

 private:
  Window window_;
  Ints in_, out_;
  std::int64_t plane_ = 1, outputs_ = 1, taps_ = 1;
};

}  // namespace tandem::native
