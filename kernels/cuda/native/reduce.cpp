// Reductions as one launch or two: how many blocks share an output depends on shapes alone.
#include "kernels/cuda/native/reduce.h"

#include <algorithm>
#include <bit>

#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/nest.h"

namespace tandem::cuda {
namespace {

constexpr int threads = ReductionBody<float, float>::threads;
constexpr std::int64_t blocks_of_one = 8;      // of a multiprocessor, that fill it
constexpr std::int64_t least_per_thread = 8;   // elements, before blocks share a reduction

struct Geometry {
  bool reduced_innermost;
  std::int64_t columns, splits, outputs, reduced;
  std::vector<LoopDim> kept, inner;
};

Geometry geometry_of(std::vector<LoopDim> kept, std::vector<LoopDim> inner, std::int64_t most_blocks) {
  Geometry g;
  g.outputs = trips(kept);
  g.reduced = trips(inner);
  const auto smallest = [](const std::vector<LoopDim>& dims) {
    std::int64_t s = std::numeric_limits<std::int64_t>::max();
    for (const LoopDim& d : dims) s = std::min(s, d.strides[0]);
    return s;
  };
  g.reduced_innermost = smallest(inner) < smallest(kept);
  const auto power_of_two = [](std::int64_t n, std::int64_t most) {
    return std::min<std::int64_t>(most, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1)))));
  };
  // Innermost reduced elements are read by neighbours, as many threads as there are elements; outputs else.
  g.columns = g.reduced_innermost ? threads / power_of_two(g.reduced, threads) : power_of_two(g.outputs, 32);
  const std::int64_t tiles = std::max<std::int64_t>(1, ceil_div(g.outputs, g.columns));
  const std::int64_t rows = threads / g.columns;
  g.splits = std::clamp<std::int64_t>(most_blocks / tiles, 1, std::max<std::int64_t>(1, g.reduced / (rows * least_per_thread)));
  g.kept = std::move(kept);
  g.inner = std::move(inner);
  return g;
}

template <class In, class Out>
std::optional<ReductionBody<In, Out>> body_of(Reduce op, const Geometry& g, std::int64_t divisor) {
  const auto kept = nest_of<1>(g.kept, {0});
  const auto inner = nest_of<1>(g.inner, {0});
  if (!kept || !inner) return std::nullopt;
  ReductionBody<In, Out> b{};
  b.op = op;
  b.reduced_innermost = g.reduced_innermost;
  b.columns = static_cast<std::int32_t>(g.columns);
  b.splits = static_cast<std::int32_t>(g.splits);
  b.outputs = static_cast<std::uint32_t>(g.outputs);
  b.reduced = static_cast<std::uint32_t>(g.reduced);
  b.scale = 1.0 / static_cast<double>(divisor);
  b.divisor = divisor;
  b.kept = *kept;
  b.inner = *inner;
  return b;
}

template <class Body>
Launches launches_of(const Body& body) {
  const std::int64_t blocks = ceil_div(body.outputs, body.columns) * body.splits;
  return [body, blocks](void* stream) { launch(body, blocks, stream); };
}

template <class T>
std::optional<ReductionPlan> plan(Reduce op, std::int64_t divisor, std::vector<LoopDim> kept, std::vector<LoopDim> inner,
                                  std::int64_t most_blocks) {
  using C = Compute<T>;
  const Geometry g = geometry_of(std::move(kept), std::move(inner), most_blocks);
  if (g.splits == 1) {
    const auto whole = body_of<T, T>(op, g, divisor);
    if (!whole) return std::nullopt;
    return ReductionPlan{0, [whole](const std::byte* x, std::byte* y, std::byte*) {
                           auto body = *whole;
                           body.x = reinterpret_cast<const T*>(x);
                           body.y = reinterpret_cast<T*>(y);
                           return launches_of(body);
                         }};
  }
  const auto first = body_of<T, C>(op, g, 1);
  Geometry rest = geometry_of({{g.outputs, {1}}}, {{g.splits, {g.outputs}}}, 1);
  const auto second = body_of<C, T>(op, rest, divisor);
  if (!first || !second) return std::nullopt;
  return ReductionPlan{align_up(g.splits * g.outputs * static_cast<std::int64_t>(sizeof(C))),
                       [first, second](const std::byte* x, std::byte* y, std::byte* workspace) -> Launches {
                         auto a = *first;
                         a.x = reinterpret_cast<const T*>(x);
                         a.y = reinterpret_cast<C*>(workspace);
                         auto b = *second;
                         b.x = reinterpret_cast<const C*>(workspace);
                         b.y = reinterpret_cast<T*>(y);
                         return [one = launches_of(a), two = launches_of(b)](void* stream) {
                           one(stream);
                           two(stream);
                         };
                       }};
}

struct ReduceRow {
  std::string_view op;
  Reduce reduce;
  bool mean;
};
constexpr ReduceRow reduce_rows[] = {
    {"ReduceSum", Reduce::sum, false},   {"ReduceMean", Reduce::sum, true},      {"ReduceMax", Reduce::max, false},
    {"ReduceMin", Reduce::min, false},   {"ReduceProd", Reduce::product, false},
};

}  // namespace

std::optional<ReductionPlan> plan_reduction(Reduce op, bool mean, const Operand& x, const std::vector<std::int64_t>& axes, const Operand& y,
                                            const KernelOptions& options) {
  if (!fits_index(x)) return std::nullopt;
  const std::int64_t most_blocks = multiprocessors_of(options) * blocks_of_one;
  const std::vector<std::int64_t> strides = strides_of(x);
  const bool same_rank = x.shape.rank() == y.shape.rank();
  const std::vector<std::int64_t> y_strides = strides_of(y);
  std::vector<LoopDim> kept, inner;
  std::int64_t count = 1;
  for (int axis = 0, place = 0; axis < x.shape.rank(); ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) {
      inner.push_back({x.shape[axis], {strides[a]}});
      count *= x.shape[axis];
    } else {
      kept.push_back({x.shape[axis], {y_strides[same_rank ? a : static_cast<std::size_t>(place)], strides[a]}});
      ++place;
    }
  }
  kept = ordered(std::move(kept));  // in y's order
  for (LoopDim& d : kept) d.strides.erase(d.strides.begin());
  inner = ordered(std::move(inner));
  const std::int64_t divisor = mean ? count : 1;
  switch (x.dtype) {
    case DType::int32: return plan<std::int32_t>(op, divisor, kept, inner, most_blocks);
    case DType::int64: return plan<std::int64_t>(op, divisor, kept, inner, most_blocks);
    default:
      if (!is_float(x.dtype)) return std::nullopt;
      return visit_storage(x.dtype, [&]<class T>() { return plan<T>(op, divisor, kept, inner, most_blocks); });
  }
}

std::optional<ReductionPlan> plan_channel_sum(const Operand& dy, const KernelOptions& options) {
  std::vector<std::int64_t> axes;
  for (int axis = 0; axis < dy.shape.rank(); ++axis)
    if (axis != 1) axes.push_back(axis);
  return plan_reduction(Reduce::sum, false, dy, axes, {dy.dtype, Shape{dy.shape[1]}, Layout::row_major(1)}, options);
}

Descriptions describe_reduction(const KernelRequest& request, Libraries*) {
  const ReduceRow* row = nullptr;
  for (const ReduceRow& r : reduce_rows)
    if (r.op == request.op) row = &r;
  const int rank = request.inputs[0].shape.rank();
  KernelDescription d = description_of(request, "native.reduction", layout_of(request, rank));
  if (!row || !fit_index(d)) return {};
  // A reduced axis that is kept may carry x's layout on; otherwise y is row-major, in whose order x is walked.
  const std::optional<ReductionPlan> plan =
      plan_reduction(row->reduce, row->mean, d.inputs[0], request.attributes->ints("axes"), d.outputs[0], request.options);
  if (!plan) return {};
  d.workspace = plan->workspace;
  d.efficiency = 0.7;
  d.make = launches([plan = *plan](const Buffers& b) { return plan.bind(b.inputs[0], b.outputs[0], b.workspace); });
  return {d};
}

}  // namespace tandem::cuda
