// y = x·wᵀ + b over x[N, K], w[O, K]; dx = dy·w; dw = dyᵀ·x, db = Σ dy. A sample's features may lie in any order that the weight's
// follow: x as a convolution wrote it needs no reorder.
#include "graph/layout_tag.h"
#include "kernels/cpu/native/dense.h"
#include "kernels/cpu/native/gemm.h"
#include "kernels/cpu/native/products.h"

namespace tandem::native {
namespace {

bool in_panels(const Operand& o) { return o.dtype == DType::float32 || o.dtype == DType::bfloat16; }

// The operand's layout where each index of its first axis has its features together, in any order; else row-major.
Layout by_sample(const Operand& o) {
  if (o.layout.any() || o.layout.opaque()) return Layout::row_major(o.shape.rank());
  const LayoutTag tag = tag_of(o.layout);
  return tag.axes[0] == 0 && !tag.blocked(0) ? o.layout : Layout::row_major(o.shape.rank());
}

// Lays x[N, ...] and w[O, ...] out alike, by sample. Products of doubles take row-major ones.
struct Sizes {
  std::int64_t n, k, o;  // samples, features (with their layout's padding), outputs
};
Sizes lay_out(KernelDescription& d, Operand& x, Operand& w, const Operand& as) {
  const Layout layout = in_panels(x) ? by_sample(as) : Layout::row_major(x.shape.rank());
  x.layout = w.layout = layout;
  d.efficiency = in_panels(x) ? product_efficiency() : 0.05;
  return {x.shape[0], physical_elements(w.shape, layout) / std::max<std::int64_t>(1, w.shape[0]), w.shape[0]};
}

bool taken(const KernelRequest& request) {
  const DType type = request.inputs[0].dtype;
  const auto same = [&](const Operand& o) { return !o.present() || o.dtype == type; };
  return (in_panels(request.inputs[0]) || type == DType::float64) && std::all_of(request.inputs.begin(), request.inputs.end(), same) &&
         std::all_of(request.outputs.begin(), request.outputs.end(), same);
}

// a[rows×inner]·b[inner×columns], the rows split over the threads.
void split_gemm(int threads, std::int64_t rows, std::int64_t columns, std::int64_t inner, Matrix<double> a, Matrix<double> b, double* c) {
  const int parts = threads_for(rows * columns * inner, threads);
  parallel(parts, [&](int part) {
    const Range r = part_of(rows, part, parts);
    gemm<double>(r.end - r.begin, columns, inner, {a.data + r.begin * a.row, a.row, a.column}, b, c + r.begin * columns, columns, false);
  });
}

}  // namespace

Descriptions describe_inner_product(const KernelRequest& request) {
  if (!taken(request)) return {};
  KernelDescription d = row_major_description("native.inner_product", request, 0);
  const Sizes s = lay_out(d, d.inputs[0], d.inputs[1], request.inputs[0]);
  const bool bias = operand_at(request.inputs, 2).present(), relu = has_relu(*request.attributes);
  const int threads = request.options.threads;
  if (const Operand& x = d.inputs[0]; in_panels(x)) {
    const bool narrow = x.dtype == DType::bfloat16;
    const MatrixProduct p{s.n, s.o, s.k, {narrow, s.k, 1}, {narrow, s.k, 1}, s.o, narrow, relu, false, threads};
    d.workspace = p.workspace();
    d.make = make_kernel(
        [=](const Memory& m) { p.run(m.inputs[0], m.inputs[1], m.outputs[0], bias ? m.inputs[2] : nullptr, nullptr, m.workspace); });
    return {d};
  }
  d.make = make_kernel([=](const Memory& m) {
    double* const y = m.out<double>(0);
    split_gemm(threads, s.n, s.o, s.k, {m.in<double>(0), s.k, 1}, {m.in<double>(1), 1, s.k}, y);
    if (!bias && !relu) return;
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t o = 0; o < s.o; ++o) {
        const double v = y[n * s.o + o] + (bias ? m.in<double>(2)[o] : 0);
        y[n * s.o + o] = relu && v < 0 ? 0 : v;
      }
  });
  return {d};
}

Descriptions describe_inner_product_backward_data(const KernelRequest& request) {
  if (!taken(request)) return {};
  KernelDescription d = row_major_description("native.inner_product_backward_data", request, 0);
  const Sizes s = lay_out(d, d.outputs[0], d.inputs[1], request.inputs[1]);
  const int threads = request.options.threads;
  if (const Operand& dx = d.outputs[0]; in_panels(dx)) {
    const bool narrow = dx.dtype == DType::bfloat16;
    const MatrixProduct p{s.n, s.k, s.o, {narrow, s.o, 1}, {narrow, 1, s.k}, s.k, narrow, false, false, threads};
    d.workspace = p.workspace();
    d.make = make_kernel([=](const Memory& m) { p.run(m.inputs[0], m.inputs[1], m.outputs[0], nullptr, nullptr, m.workspace); });
    return {d};
  }
  d.make = make_kernel([=](const Memory& m) {
    split_gemm(threads, s.n, s.k, s.o, {m.in<double>(0), s.o, 1}, {m.in<double>(1), s.k, 1}, m.out<double>(0));
  });
  return {d};
}

Descriptions describe_inner_product_backward_weights(const KernelRequest& request) {
  if (!taken(request)) return {};
  KernelDescription d = row_major_description("native.inner_product_backward_weights", request, 0);
  const Sizes s = lay_out(d, d.inputs[0], d.outputs[0], request.inputs[0]);
  const bool bias = operand_at(request.outputs, 1).present();
  const int threads = request.options.threads;
  if (const Operand& x = d.inputs[0]; in_panels(x)) {
    const bool narrow = x.dtype == DType::bfloat16;
    const MatrixProduct p{s.o, s.k, s.n, {narrow, 1, s.o}, {narrow, 1, s.k}, s.k, narrow, false, bias, threads};
    d.workspace = p.workspace();
    d.make = make_kernel(
        [=](const Memory& m) { p.run(m.inputs[1], m.inputs[0], m.outputs[0], nullptr, bias ? m.outputs[1] : nullptr, m.workspace); });
    return {d};
  }
  d.make = make_kernel([=](const Memory& m) {
    const double* const dy = m.in<double>(1);
    split_gemm(threads, s.o, s.k, s.n, {dy, 1, s.o}, {m.in<double>(0), s.k, 1}, m.out<double>(0));
    if (!bias) return;
    double* const db = m.out<double>(1);
    std::fill_n(db, s.o, 0.0);
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t o = 0; o < s.o; ++o) db[o] += dy[n * s.o + o];
  });
  return {d};
}

}  // namespace tandem::native
