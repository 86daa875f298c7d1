// Convolutions of one tap, channels last: each place is a sample of a fully connected layer.
#include "kernels/cpu/native/dense.h"
#include "kernels/cpu/native/products.h"

namespace tandem::native {
namespace {

struct Problem {
  std::int64_t places, in, out;  // of the whole batch; channels
  bool narrow;
  int threads;
};

// One tap that moves by one place, no padding, one group; float32 or bfloat16 throughout.
bool fits(const KernelRequest& request, const Shape& x, const Shape& w, std::size_t inputs, std::size_t outputs) {
  const Window window = window_of(*request.attributes, w);
  const auto all = [](const Ints& list, std::int64_t value) {
    return std::all_of(list.begin(), list.end(), [&](std::int64_t v) { return v == value; });
  };
  const DType type = request.inputs[0].dtype;
  const auto same = [&](const Operand& o) { return !o.present() || o.dtype == type; };
  return (type == DType::float32 || type == DType::bfloat16) && x.rank() >= 3 && x.elements() > 0 && w.elements() > 0 &&
         request.inputs.size() <= inputs && request.outputs.size() <= outputs && request.attributes->integer("group", 1) == 1 &&
         all(window.kernel, 1) && all(window.strides, 1) && all(window.begin, 0) && all(window.end, 0) &&
         std::all_of(request.inputs.begin(), request.inputs.end(), same) &&
         std::all_of(request.outputs.begin(), request.outputs.end(), same);
}

Problem problem_of(const KernelRequest& request, const Shape& x, const Shape& w) {
  return {x.elements() / x[1], x[1], w[0], request.inputs[0].dtype == DType::bfloat16, request.options.threads};
}

// Images channels last; the filter in rows of channels, whichever of its layouts says that; what has one axis as it is.
void lay_out(std::vector<Operand>& operands, const Shape& filter) {
  for (Operand& o : operands) {
    if (!o.present()) continue;
    const bool rows = o.shape.rank() < 3 || o.shape == filter;
    if (!rows) o.layout = Layout::channels_last(o.shape.rank());
    else if (o.layout.any() || o.layout.opaque() || !same_memory(o.shape, o.layout, o.shape, Layout::row_major(o.shape.rank())))
      o.layout = Layout::row_major(o.shape.rank());
  }
}

// A guess of the share of the peak, from measurements: what is packed and stored takes the time of as many multiply-adds an element, and so
// costs more where few channels share it.
double efficiency(const MatrixProduct& p) {
  constexpr double packed = 26, stored = 13;
  constexpr double many = 1 + (packed + stored) / 256;  // of so many channels and more the whole share is reached
  const auto each = [](double cost, std::int64_t shared) { return cost / static_cast<double>(shared); };
  return product_efficiency() * std::min(1.0, many / (1 + each(packed, p.rows) + each(packed, p.columns) + each(stored, p.inner)));
}

Descriptions described(const KernelRequest& request, std::string kernel, const Shape& filter, const MatrixProduct& p,
                       std::function<std::unique_ptr<Kernel>()> make) {
  KernelDescription d{.kernel = std::move(kernel),
                      .inputs = request.inputs,
                      .outputs = request.outputs,
                      .workspace = p.workspace(),
                      .efficiency = efficiency(p),
                      .make = std::move(make)};
  lay_out(d.inputs, filter);
  lay_out(d.outputs, filter);
  return {std::move(d)};
}

}  // namespace

Descriptions describe_pointwise_convolution(const KernelRequest& request) {
  const Shape &x = request.inputs[0].shape, &w = request.inputs[1].shape;
  if (!fits(request, x, w, 3, 1)) return {};
  const Problem q = problem_of(request, x, w);
  const bool bias = operand_at(request.inputs, 2).present();
  const MatrixProduct p{q.places, q.out,    q.in, {q.narrow, q.in, 1}, {q.narrow, q.in, 1}, q.out, q.narrow, has_relu(*request.attributes),
                        false,    q.threads};
  return described(request, "native.convolution.pointwise", w, p, make_kernel([=](const Memory& m) {
                     p.run(m.inputs[0], m.inputs[1], m.outputs[0], bias ? m.inputs[2] : nullptr, nullptr, m.workspace);
                   }));
}

Descriptions describe_pointwise_convolution_backward_data(const KernelRequest& request) {
  const Shape &x = request.outputs[0].shape, &w = request.inputs[1].shape;
  if (!fits(request, x, w, 2, 1)) return {};
  const Problem q = problem_of(request, x, w);
  const MatrixProduct p{q.places, q.in, q.out, {q.narrow, q.out, 1}, {q.narrow, 1, q.in}, q.in, q.narrow, false, false, q.threads};
  return described(request, "native.convolution_backward_data.pointwise", w, p,
                   make_kernel([=](const Memory& m) { p.run(m.inputs[0], m.inputs[1], m.outputs[0], nullptr, nullptr, m.workspace); }));
}

Descriptions describe_pointwise_convolution_backward_weights(const KernelRequest& request) {
  const Shape &x = request.inputs[0].shape, &w = request.outputs[0].shape;
  if (!fits(request, x, w, 2, 2)) return {};
  const Problem q = problem_of(request, x, w);
  const bool bias = operand_at(request.outputs, 1).present();
  const MatrixProduct p{q.out, q.in, q.places, {q.narrow, 1, q.out}, {q.narrow, 1, q.in}, q.in, q.narrow, false, bias, q.threads};
  return described(request, "native.convolution_backward_weights.pointwise", w, p, make_kernel([=](const Memory& m) {
                     p.run(m.inputs[1], m.inputs[0], m.outputs[0], nullptr, bias ? m.outputs[1] : nullptr, m.workspace);
                   }));
}

}  // namespace tandem::native
