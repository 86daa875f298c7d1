// AttentionTraining and its gradient (docs/internal-operators.md) in 16 bits by cuDNN's fused engines, which know them as a graph of
// products, functions and reductions. What they keep, log Σ eˢ, is the operator's own, so that either pass may run on our own kernel.
// No dropout (its bits would be cuDNN's), no boolean masks, no shared keys.
#include <limits>

#include "kernels/cuda/cudnn/kernel.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/native/attention.h"

namespace tandem::cuda {
namespace {

constexpr double forward_efficiency = 0.3, backward_efficiency = 0.22;  // of the tensor cores' peak: measured on an H100
// Older ones give wrong gradients where the keys are no multiple of 128, or want the sum of dq cleared (cudnn-frontend's work-arounds).
constexpr std::size_t least_version = 91600;
using Tensor = CudnnGraph::TensorId;

struct Heads {
  std::int64_t samples, heads, queries, keys, width, values;
  bool causal;
  DType dtype;
  std::optional<Shape> mask;
  int mask_at;

  Dims of(std::int64_t rows, std::int64_t columns) const { return {samples, heads, rows, columns}; }
  static Dims packed(const Dims& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }
};

std::optional<Heads> heads_of(const KernelRequest& r, int mask_at) {
  const Shape &q = r.inputs[0].shape, &k = r.inputs[1].shape, &v = r.inputs[2].shape;
  const Attributes& a = *r.attributes;
  if (cudnnGetVersion() < least_version) return std::nullopt;
  const bool masked = has(r.inputs, static_cast<std::size_t>(mask_at)), causal = a.integer("causal", 0) != 0;
  if (size_of(r.inputs[0].dtype) != 2 || a.real("ratio", 0) > 0 || q[1] != k[1] || q[3] % 8 != 0 || v[3] % 8 != 0) return std::nullopt;
  if (q.elements() == 0 || k.elements() == 0 || (causal && a.integer("offset", 0) != 0)) return std::nullopt;
  // A row that reaches no key, which only a mask makes, gives what it may.
  if (masked && (r.inputs[static_cast<std::size_t>(mask_at)].dtype != DType::float32 || a.integer("guarded", 0) != 0)) return std::nullopt;
  Heads h{q[0], q[1], q[2], k[2], q[3], v[3], causal, r.inputs[0].dtype, {}, mask_at};
  if (masked) h.mask = r.inputs[static_cast<std::size_t>(mask_at)].shape;
  return h;
}

enum Number { scale, lowest, one };
std::vector<float> numbers_of(const KernelRequest& request) {
  return {request.attributes->real("scale"), -std::numeric_limits<float>::infinity(), 1};
}

Tensor rows(CudnnGraph& g, const Operand& o, int role) { return g.strided(o.dtype, o.shape.dims, strides_of(o), role); }
Tensor transposed_rows(CudnnGraph& g, const Operand& o, int role) {
  Dims dims = o.shape.dims, strides = strides_of(o);
  std::swap(dims[2], dims[3]);
  std::swap(strides[2], strides[3]);
  return g.strided(o.dtype, dims, strides, role);
}
Tensor virtual_of(CudnnGraph& g, DType dtype, const Dims& dims) { return g.strided(dtype, dims, Heads::packed(dims), std::nullopt); }
Tensor by_row(CudnnGraph& g, const Heads& h, std::optional<int> role) {
  return g.strided(DType::float32, h.of(h.queries, 1), Heads::packed(h.of(h.queries, 1)), role);
}

// What is out of a query's reach becomes −∞.
Tensor reached(CudnnGraph& g, const Heads& h, Tensor scores) {
  const Dims s = h.of(h.queries, h.keys);
  const Tensor row = virtual_of(g, DType::int32, s), column = virtual_of(g, DType::int32, s), reach = virtual_of(g, DType::boolean, s),
               result = virtual_of(g, DType::float32, s);
  g.pointwise({.mode = CUDNN_POINTWISE_GEN_INDEX, .compute = DType::int32, .axis = 2}, scores, std::nullopt, row);
  g.pointwise({.mode = CUDNN_POINTWISE_GEN_INDEX, .compute = DType::int32, .axis = 3}, scores, std::nullopt, column);
  g.pointwise({.mode = CUDNN_POINTWISE_CMP_GE, .compute = DType::boolean}, row, column, reach);
  g.pointwise({.mode = CUDNN_POINTWISE_BINARY_SELECT, .chooses = reach}, scores, g.number(number_role(lowest)), result);
  return result;
}

// scale · q·kᵀ + mask
Tensor scores_of(CudnnGraph& g, const Heads& h, Tensor q, Tensor kt) {
  const Dims s = h.of(h.queries, h.keys);
  Tensor product = virtual_of(g, DType::float32, s), scaled = virtual_of(g, DType::float32, s);
  g.matmul(q, kt, product);
  g.pointwise(CUDNN_POINTWISE_MUL, product, g.number(number_role(scale)), scaled);
  if (!h.mask) return scaled;
  const Tensor masked = virtual_of(g, DType::float32, s);
  g.pointwise(CUDNN_POINTWISE_ADD, scaled, g.strided(DType::float32, h.mask->dims, Heads::packed(h.mask->dims), input_role(h.mask_at)),
              masked);
  return masked;
}

CudnnGraph forward_graph(const Heads& h, const KernelDescription& d) {
  CudnnGraph g;
  const Dims s = h.of(h.queries, h.keys);
  Tensor x = scores_of(g, h, rows(g, d.inputs[0], input_role(0)), transposed_rows(g, d.inputs[1], input_role(1)));
  if (h.causal) x = reached(g, h, x);
  const Tensor most = by_row(g, h, {}), less = virtual_of(g, DType::float32, s), exp = virtual_of(g, DType::float32, s),
               sum = by_row(g, h, {}), log = by_row(g, h, {}), p = virtual_of(g, h.dtype, s);
  g.reduce(CUDNN_REDUCE_TENSOR_MAX, x, most);
  g.pointwise(CUDNN_POINTWISE_SUB, x, most, less);
  g.pointwise(CUDNN_POINTWISE_EXP, less, std::nullopt, exp);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, exp, sum);
  g.pointwise(CUDNN_POINTWISE_LOG, sum, std::nullopt, log);
  g.pointwise(CUDNN_POINTWISE_ADD, most, log, by_row(g, h, has(d.outputs, 1) ? std::optional(output_role(1)) : std::nullopt));
  g.pointwise(CUDNN_POINTWISE_DIV, exp, sum, p);
  g.matmul(p, rows(g, d.inputs[2], input_role(2)), rows(g, d.outputs[0], output_role(0)));
  return g;
}

// Inputs q, k, v, y, log Σ eˢ, dy. Σ dy·y and the sum of dq in float32 are in our own part of the workspace.
CudnnGraph backward_graph(const Heads& h, const KernelDescription& d) {
  CudnnGraph g;
  const Dims s = h.of(h.queries, h.keys), back = h.of(h.keys, h.queries),
             back_strides{h.heads * h.queries * h.keys, h.queries * h.keys, 1, h.keys};
  const Tensor q = rows(g, d.inputs[0], input_role(0)), kt = transposed_rows(g, d.inputs[1], input_role(1)),
               vt = transposed_rows(g, d.inputs[2], input_role(2)), dy = rows(g, d.inputs[5], input_role(5));
  const Tensor products = virtual_of(g, DType::float32, h.of(h.queries, h.values)), sums = by_row(g, h, {}),
               delta = by_row(g, h, scratch_role);
  g.pointwise(CUDNN_POINTWISE_MUL, dy, rows(g, d.inputs[3], input_role(3)), products);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
  g.pointwise(CUDNN_POINTWISE_MUL, sums, g.number(number_role(one)), delta);

  const Tensor less = virtual_of(g, DType::float32, s), p = virtual_of(g, DType::float32, s),
               pt = g.strided(h.dtype, back, back_strides, {});
  g.pointwise(CUDNN_POINTWISE_SUB, scores_of(g, h, q, kt), by_row(g, h, input_role(4)), less);
  g.pointwise(CUDNN_POINTWISE_EXP, h.causal ? reached(g, h, less) : less, std::nullopt, p);
  g.reshape(p, pt);
  g.matmul(pt, dy, rows(g, d.outputs[2], output_role(2)));

  const Tensor dp = virtual_of(g, DType::float32, s), from_mean = virtual_of(g, DType::float32, s),
               unscaled = virtual_of(g, DType::float32, s), ds = virtual_of(g, DType::float32, s),
               dst = g.strided(h.dtype, back, back_strides, {});
  g.matmul(dy, vt, dp);
  g.pointwise(CUDNN_POINTWISE_SUB, dp, delta, from_mean);
  g.pointwise(CUDNN_POINTWISE_MUL, from_mean, p, unscaled);
  g.pointwise(CUDNN_POINTWISE_MUL, unscaled, g.number(number_role(scale)), ds);
  g.reshape(ds, dst);
  g.matmul(dst, q, rows(g, d.outputs[1], output_role(1)));

  const Tensor k = g.strided(h.dtype, d.inputs[1].shape.dims, strides_of(d.inputs[1]), {}),
               dq = g.strided(DType::float32, d.inputs[0].shape.dims, Heads::packed(d.inputs[0].shape.dims), scratch_role + 1);
  g.reshape(kt, k);
  g.matmul(ds, k, dq);
  g.pointwise(CUDNN_POINTWISE_IDENTITY, dq, std::nullopt, rows(g, d.outputs[0], output_role(0)));
  return g;
}

KernelDescription description(const KernelRequest& request, std::string_view family, double efficiency, const Libraries& libraries) {
  KernelDescription d = row_major_description(request, family);
  for (std::size_t i = 0; i < 3; ++i) d.inputs[i].layout = in_rows(request.inputs[i]);
  d.efficiency = efficiency * speed_of_products(libraries.device(), d.inputs[0].dtype, false);
  return d;
}

}  // namespace

std::vector<KernelDescription> describe_cudnn_attention(const KernelRequest& request, Libraries* libraries) {
  const std::optional<Heads> h = heads_of(request, 3);
  if (!h || has(request.outputs, 2)) return {};
  KernelDescription d = description(request, "cudnn.attention", forward_efficiency, *libraries);
  d.outputs[0].layout = like(d.inputs[0]);
  const CudnnRecipe recipe{.family = "cudnn.attention",
                           .description = d,
                           .build = [h = *h, d] { return forward_graph(h, d); },
                           .filter = filter_of(request.options, h->dtype),
                           .numbers = numbers_of(request)};
  return descriptions_of(recipe, request, *libraries);
}

std::vector<KernelDescription> describe_cudnn_attention_backward(const KernelRequest& request, Libraries* libraries) {
  const std::optional<Heads> h = heads_of(request, 6);
  // cuDNN 9.19's gradients are wrong where numbers mask what is causal, too.
  if (!h || (h->causal && h->mask)) return {};
  KernelDescription d = description(request, "cudnn.attention_backward", backward_efficiency, *libraries);
  for (const std::size_t i : {3, 5}) d.inputs[i].layout = in_rows({request.inputs[i].dtype, request.inputs[i].shape, like(d.inputs[0])});
  for (std::size_t i = 0; i < 3; ++i) d.outputs[i].layout = like(d.inputs[i]);
  const std::int64_t queries = h->samples * h->heads * h->queries, delta = align_up(queries * 4), dq = align_up(queries * h->width * 4);
  const CudnnRecipe recipe{.family = "cudnn.attention_backward",
                           .description = d,
                           .build = [h = *h, d] { return backward_graph(h, d); },
                           .filter = filter_of(request.options, h->dtype),
                           .numbers = numbers_of(request),
                           .own_workspace = delta + dq,
                           .scratch = {0, delta}};
  return descriptions_of(recipe, request, *libraries);
}

}  // namespace tandem::cuda
