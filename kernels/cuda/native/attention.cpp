// AttentionTraining and its gradient (docs/internal-operators.md): heads of at most 128 numbers, of float32 and 16 bits.
#include "kernels/cuda/bodies/attention.h"

#include <algorithm>
#include <limits>

#include "kernels/cuda/libraries.h"
#include "kernels/cuda/native/attention.h"
#include "kernels/cuda/native/launches.h"

namespace tandem::cuda {
namespace {

constexpr const char* as_projected = "acbd";

}  // namespace

Layout in_rows(const Operand& o) {
  const bool whole = !o.layout.any() && o.layout.plain() && o.layout.tag().back() == 'd';
  return whole ? o.layout : Layout(as_projected);
}
Layout like(const Operand& o) { return o.layout.is_row_major() ? Layout(as_projected) : o.layout; }

namespace {

HeadRows rows_of(const Operand& o) {
  const std::vector<std::int64_t> strides = strides_of(o);
  return {strides[0], strides[1], strides[2]};
}

// Row-major, but for q, k and v.
std::optional<KernelDescription> describe_both(const KernelRequest& request, std::string_view kernel, const Libraries* libraries) {
  const std::int64_t widest = std::max(request.inputs[0].shape[3], request.inputs[2].shape[3]);
  const DType dtype = request.inputs[0].dtype;
  if (widest > 128 || !is_storage_float(dtype) || dtype == DType::float64) return std::nullopt;
  for (std::size_t i = 0; i < 3; ++i)
    if (request.inputs[i].shape.elements() == 0) return std::nullopt;
  KernelDescription d = row_major_description(request, kernel);
  for (std::size_t i = 0; i < 3; ++i) d.inputs[i].layout = in_rows(request.inputs[i]);
  d.efficiency = 0.3 * (libraries ? speed_of_products(libraries->device(), dtype, false) : 1);
  return d;
}

AttentionProblem problem_of(const KernelRequest& r, std::size_t mask_at) {
  const Shape &q = r.inputs[0].shape, &k = r.inputs[1].shape, &v = r.inputs[2].shape;
  const Attributes& a = *r.attributes;
  const auto number = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
  const auto packs = static_cast<std::int64_t>(16 / size_of(r.inputs[0].dtype));
  const double ratio = static_cast<double>(a.real("ratio", 0));
  AttentionProblem p{};
  p.B = number(q[0]), p.H = number(q[1]), p.S = number(q[2]), p.D = number(q[3]);
  p.T = number(k[2]), p.V = number(v[3]), p.shared = number(q[1] / k[1]);
  p.scale = a.real("scale");
  p.fill = a.real("fill", -std::numeric_limits<float>::infinity());
  p.kept = static_cast<float>(1 / (1 - ratio));
  p.offset = number(std::min<std::int64_t>(a.integer("offset", 0), p.T));
  p.guarded = number(a.integer("guarded", 0));
  p.threshold = static_cast<std::uint32_t>(std::min(ratio * 0x1p32, 0xffffffffp0));
  p.layer = static_cast<std::uint32_t>(a.integer("layer", 0));
  p.inner = number(a.integer("inner", 1));
  p.heads = a.has("part") ? number(a.ints("part")[2]) : p.H;
  p.head = a.has("part") ? number(a.ints("part")[1]) : 0;
  p.causal = a.integer("causal", 0) != 0;
  p.wide_d = p.D % packs == 0;
  p.wide_v = p.V % packs == 0;
  if (!has(r.inputs, mask_at)) return p;
  const Shape& mask = r.inputs[mask_at].shape;
  std::int64_t stride = mask[3];
  for (const auto& [axis, to] : {std::pair{2, &p.mask_row}, {1, &p.mask_head}, {0, &p.mask_sample}}) {
    *to = mask[axis] == 1 ? 0 : stride;
    stride *= mask[axis];
  }
  return p;
}

// Behind `mask_at` stand the random numbers.
AttentionProblem bound_to(AttentionProblem p, const Buffers& b, std::size_t mask_at, bool boolean) {
  if (boolean)
    p.keep = b.in<std::uint8_t>(mask_at);
  else
    p.bias = b.in<float>(mask_at);
  p.random = b.in<std::int64_t>(mask_at + 1);
  return p;
}
bool boolean_mask(const KernelRequest& r, std::size_t mask_at) {
  return has(r.inputs, mask_at) && r.inputs[mask_at].dtype == DType::boolean;
}

// visit_attention(dtype, widest, [&]<class T, int width>() {...}) with the storage type and the padded width of heads.
template <class F>
void visit_attention(const KernelRequest& request, F&& f) {
  const bool wide = std::max(request.inputs[0].shape[3], request.inputs[2].shape[3]) > 64;
  visit_storage(request.inputs[0].dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) wide ? f.template operator()<T, 128>() : f.template operator()<T, 64>();
  });
}
// Rows and columns of tiles that fit a block's 48 KiB of shared memory.
template <class T, int width>
constexpr int forward_rows = sizeof(T) == 4 && width == 128 ? 32 : 64;
template <class T, int width>
constexpr int forward_keys = width == 128 ? (sizeof(T) == 4 ? 16 : 32) : sizeof(T) == 4 ? 32 : 64;
template <class T, int width>
constexpr int gradient_tile = width == 128 ? (sizeof(T) == 4 ? 16 : 32) : sizeof(T) == 4 ? 32 : 64;
// Of the gradients of keys and values, which take the most registers.
template <class T, int width>
constexpr int gradient_queries = sizeof(T) == 2 && width == 128 ? 16 : gradient_tile<T, width>;

}  // namespace

Descriptions describe_attention(const KernelRequest& request, Libraries* libraries) {
  std::optional<KernelDescription> d = describe_both(request, "native.attention", libraries);
  if (!d) return {};
  d->outputs[0].layout = like(d->inputs[0]);
  visit_attention(request, [&]<class T, int width>() {
    constexpr int rows = forward_rows<T, width>;
    using Body = AttentionBody<T, width, rows, forward_keys<T, width>>;
    Body body{};
    body.p = problem_of(request, 3);
    body.q_at = rows_of(d->inputs[0]), body.k_at = rows_of(d->inputs[1]), body.v_at = rows_of(d->inputs[2]),
    body.y_at = rows_of(d->outputs[0]);
    d->make = launches([body, boolean = boolean_mask(request, 3)](const Buffers& b) {
      Body bound = body;
      bound.p = bound_to(body.p, b, 3, boolean);
      bound.q = b.in<T>(0), bound.k = b.in<T>(1), bound.v = b.in<T>(2), bound.y = b.out<T>(0), bound.log_sum = b.out<float>(1),
      bound.correction = b.out<float>(2);
      return launches_of(bound, std::int64_t{body.p.B} * body.p.H * ceil_div(body.p.S, rows));
    });
  });
  return {*d};
}

Descriptions describe_attention_backward(const KernelRequest& request, Libraries* libraries) {
  std::optional<KernelDescription> d = describe_both(request, "native.attention_backward", libraries);
  if (!d) return {};
  for (const std::size_t i : {3, 5}) d->inputs[i].layout = in_rows({request.inputs[i].dtype, request.inputs[i].shape, like(d->inputs[0])});
  for (std::size_t i = 0; i < 3; ++i) d->outputs[i].layout = like(d->inputs[i]);
  const AttentionProblem p = problem_of(request, 6);
  d->workspace = align_up(std::int64_t{p.B} * p.H * p.S * static_cast<std::int64_t>(sizeof(float)));
  visit_attention(request, [&]<class T, int width>() {
    constexpr int tile = gradient_tile<T, width>;
    d->make = launches([p, in = d->inputs, out = d->outputs, boolean = boolean_mask(request, 6)](const Buffers& b) {
      const AttentionProblem bound = bound_to(p, b, 6, boolean);
      float* const delta = reinterpret_cast<float*>(b.workspace);
      const std::int64_t queries = std::int64_t{p.B} * p.H * p.S;
      const AttentionGradientBody<T, width, tile, tile, false> of_queries{
          bound,   b.in<T>(0),     b.in<T>(1),     b.in<T>(2),     b.in<T>(5),     b.in<float>(4),  delta, b.out<T>(0),
          nullptr, rows_of(in[0]), rows_of(in[1]), rows_of(in[2]), rows_of(in[5]), rows_of(out[0]), {}};
      const AttentionGradientBody<T, width, tile, gradient_queries<T, width>, true> of_keys{
          bound,       b.in<T>(0),     b.in<T>(1),     b.in<T>(2),     b.in<T>(5),     b.in<float>(4),  delta,          b.out<T>(1),
          b.out<T>(2), rows_of(in[0]), rows_of(in[1]), rows_of(in[2]), rows_of(in[5]), rows_of(out[1]), rows_of(out[2])};
      using Delta = AttentionDeltaBody<T>;
      return in_turn(
          {launches_of(Delta{bound, b.in<T>(3), b.in<T>(5), delta, rows_of(in[3]), rows_of(in[5])}, ceil_div(queries, Delta::threads / 32)),
           launches_of(of_queries, std::int64_t{p.B} * p.H * ceil_div(p.S, tile)),
           launches_of(of_keys, std::int64_t{p.B} * (p.H / p.shared) * ceil_div(p.T, tile))});
    });
  });
  return {*d};
}

}  // namespace tandem::cuda
