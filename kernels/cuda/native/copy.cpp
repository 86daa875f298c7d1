// Chooses how a copy runs: as the widest elements that both sides' alignment allows, or in tiles where their innermost axes
// differ.
#include "kernels/cuda/native/copy.h"

#include <algorithm>
#include <bit>

#include "kernels/cuda/bodies/copy.h"
#include "kernels/cuda/bodies/fill.h"
#include "kernels/cuda/launch/launch.h"

namespace tandem::cuda {
namespace {

constexpr std::size_t y_of = 0, x_of = 1;
constexpr std::int64_t least_tile = 8;  // shorter edges are not worth tiles

// Elements that can be moved as one: both are contiguous innermost and everything else is a multiple.
std::int64_t group_of(const CopyPlan& p) {
  if (p.dims.empty()) return 1;
  const LoopDim& inner = p.dims.back();
  if (inner.strides[y_of] != 1 || inner.strides[x_of] != 1) return 1;
  for (std::int64_t group = 16 / static_cast<std::int64_t>(p.size); group > 1; group /= 2) {
    bool fits = inner.size % group == 0 && p.x_offset % group == 0 && p.y_offset % group == 0;
    for (std::size_t d = 0; d + 1 < p.dims.size(); ++d)
      fits &= p.dims[d].strides[y_of] % group == 0 && p.dims[d].strides[x_of] % group == 0;
    if (fits) return group;
  }
  return 1;
}

CopyPlan grouped(CopyPlan p, std::int64_t group) {
  for (LoopDim& d : p.dims)
    for (std::int64_t& s : d.strides) s /= group;
  LoopDim& inner = p.dims.back();
  inner.size /= group;
  inner.strides = {1, 1};
  p.x_offset /= group;
  p.y_offset /= group;
  p.size *= static_cast<std::size_t>(group);
  p.dims = merged(std::move(p.dims));
  return p;
}

template <class Unit>
std::optional<CopyLauncher> plan_elements(const CopyPlan& p) {
  const auto nest = nest_of<2>(p.dims, {0, 1});
  if (!nest) return std::nullopt;
  CopyBody<Unit> body{nullptr, nullptr, static_cast<std::uint32_t>(trips(p.dims)), *nest};
  return [body, p](const std::byte* x, std::byte* y) mutable -> Launches {
    body.x = reinterpret_cast<const Unit*>(x) + p.x_offset;
    body.y = reinterpret_cast<Unit*>(y) + p.y_offset;
    const std::int64_t blocks = blocks_for(body.elements, CopyBody<Unit>::threads);
    return [body = body, blocks](void* stream) { launch(body, blocks, stream); };
  };
}

// The loops in an order in which a side is one run, if there is one.
std::optional<std::vector<LoopDim>> as_run(const CopyPlan& p, std::size_t side) {
  std::vector<LoopDim> dims = p.dims;
  std::stable_sort(dims.begin(), dims.end(), [&](const LoopDim& a, const LoopDim& b) { return a.strides[side] > b.strides[side]; });
  std::int64_t stride = 1;
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (dims[d].strides[side] != stride) return std::nullopt;
    stride *= dims[d].size;
  }
  return dims.empty() ? std::nullopt : std::optional(std::move(dims));
}

// y as one run, or else x. Nothing where neither is, or it does not begin where packs do.
template <class Unit, bool gathers>
std::optional<CopyLauncher> plan_run(const CopyPlan& p) {
  using Body = RunCopyBody<Unit, gathers>;
  constexpr std::size_t run = gathers ? y_of : x_of, other = gathers ? x_of : y_of;
  std::optional<std::vector<LoopDim>> dims = as_run(p, run);
  if (!dims || (gathers ? p.y_offset : p.x_offset) % Body::width != 0) return std::nullopt;
  const LoopDim row = dims->back();
  dims->pop_back();
  const auto rows = nest_of<1>(*dims, {static_cast<int>(other)});
  if (!rows) return std::nullopt;
  Body body{nullptr, nullptr, static_cast<std::uint32_t>(trips(p.dims)), divider(row.size), static_cast<std::int32_t>(row.strides[other]),
            *rows};
  return [body, p](const std::byte* x, std::byte* y) mutable -> Launches {
    body.x = reinterpret_cast<const Unit*>(x) + p.x_offset;
    body.y = reinterpret_cast<Unit*>(y) + p.y_offset;
    const std::int64_t blocks = blocks_for(ceil_div(body.elements, Body::width), Body::threads);
    return [body = body, blocks](void* stream) { launch(body, blocks, stream); };
  };
}

// Whether both sides' lines begin at pairs of elements, and are pairs.
bool in_pairs(const CopyPlan& p, std::size_t a, std::size_t b) {
  bool even = p.dims[a].size % 2 == 0 && p.dims[b].size % 2 == 0 && p.x_offset % 2 == 0 && p.y_offset % 2 == 0;
  for (std::size_t d = 0; d < p.dims.size(); ++d)
    even &= (d == a || p.dims[d].strides[x_of] % 2 == 0) && (d == b || p.dims[d].strides[y_of] % 2 == 0);
  return even;
}

template <class Unit, int width, int tile>
std::optional<CopyLauncher> plan_tiles_of(const CopyPlan& p, std::size_t a, std::size_t b) {
  TransposeBody<Unit, width, tile> body{};
  std::vector<LoopDim> outer;
  for (std::size_t d = 0; d < p.dims.size(); ++d)
    if (d != a && d != b) outer.push_back(p.dims[d]);
  const auto nest = nest_of<2>(outer, {0, 1});
  if (!nest) return std::nullopt;
  body.size_a = static_cast<std::int32_t>(p.dims[a].size);
  body.size_b = static_cast<std::int32_t>(p.dims[b].size);
  body.tiles_a = static_cast<std::int32_t>(ceil_div(body.size_a, tile));
  body.tiles_b = static_cast<std::int32_t>(ceil_div(body.size_b, tile));
  body.x_stride_b = p.dims[b].strides[x_of];
  body.y_stride_a = p.dims[a].strides[y_of];
  body.outer = *nest;
  const std::int64_t blocks = trips(outer) * body.tiles_a * body.tiles_b;
  return [body, blocks, p](const std::byte* x, std::byte* y) mutable -> Launches {
    body.x = reinterpret_cast<const Unit*>(x) + p.x_offset;
    body.y = reinterpret_cast<Unit*>(y) + p.y_offset;
    return [body = body, blocks](void* stream) { launch(body, blocks, stream); };
  };
}

template <class Unit>
std::optional<CopyLauncher> plan_tiles(const CopyPlan& p, std::size_t a, std::size_t b) {
  if constexpr (sizeof(Unit) < 8)
    if (p.dims[a].size > 32 && p.dims[b].size > 32) {
      if constexpr (sizeof(Unit) == 2)
        if (in_pairs(p, a, b)) return plan_tiles_of<Unit, 2, 64>(p, a, b);
      return plan_tiles_of<Unit, 1, 64>(p, a, b);
    }
  return plan_tiles_of<Unit, 1, 32>(p, a, b);
}

}  // namespace

std::optional<CopyLauncher> plan_copy(CopyPlan plan) {
  plan.dims = ordered(std::move(plan.dims));
  if (trips(plan.dims) == 0) return [](const std::byte*, std::byte*) -> Launches { return [](void*) {}; };
  if (const std::int64_t group = group_of(plan); group > 1) {
    plan = grouped(std::move(plan), group);
    if (plan.size == 16) return plan_elements<Bytes16>(plan);
  }
  for (std::size_t a = 0; a < plan.dims.size(); ++a)
    for (std::size_t b = 0; b < plan.dims.size(); ++b)
      if (a != b && plan.dims[a].strides[x_of] == 1 && plan.dims[b].strides[y_of] == 1 && plan.dims[a].size >= least_tile &&
          plan.dims[b].size >= least_tile)
        return visit_bytes(plan.size, [&]<class Unit>() { return plan_tiles<Unit>(plan, a, b); });
  return visit_bytes(plan.size, [&]<class Unit>() {
    if (std::optional<CopyLauncher> run = plan_run<Unit, true>(plan)) return run;
    if (std::optional<CopyLauncher> run = plan_run<Unit, false>(plan)) return run;
    return plan_elements<Unit>(plan);
  });
}

Launches fill_launches(std::byte* y, std::int64_t elements, std::size_t size, std::uint64_t pattern) {
  return visit_bytes(size, [&]<class Unit>() -> Launches {
    const FillBody<Unit> body{reinterpret_cast<Unit*>(y), static_cast<Unit>(pattern), elements};
    const std::int64_t blocks = blocks_for(elements, FillBody<Unit>::threads);
    return [body, blocks](void* stream) { launch(body, blocks, stream); };
  });
}

std::uint64_t pattern_of(DType dtype, double value) {
  switch (dtype) {
    case DType::float32: return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case DType::float64: return std::bit_cast<std::uint64_t>(value);
    case DType::float16: return to_half(static_cast<float>(value)).bits;
    case DType::bfloat16: return to_bfloat16(static_cast<float>(value)).bits;
    case DType::boolean: return value != 0;
    default: return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  }
}

CopyPlan copy_along(const Shape& shape, DType dtype, const std::vector<std::int64_t>& y, const std::vector<std::int64_t>& x) {
  CopyPlan p;
  p.size = size_of(dtype);
  for (std::size_t axis = 0; axis < shape.dims.size(); ++axis) p.dims.push_back({shape.dims[axis], {y[axis], x[axis]}});
  return p;
}

Descriptions describe_copy(KernelDescription d, const CopyPlan& plan) {
  if (!fit_index(d) || plan.size == 0) return {};
  const std::optional<CopyLauncher> copy = plan_copy(plan);
  if (!copy) return {};
  d.efficiency = copy_efficiency;
  d.make = launches([copy = *copy](const Buffers& b) { return CopyLauncher(copy)(b.inputs[0], b.outputs[0]); });
  return {d};
}

}  // namespace tandem::cuda
