// ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd {axes, keepdims}, in any layout. The order of summation
// depends on shapes and the number of threads alone. Long sums run in blocks, whose sums are then summed, so that they
// keep their precision.
#include <limits>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/copy.h"

namespace tandem::native {
namespace {

using vector::Reduction;

struct Row {
  std::string_view op;
  Reduction reduction;
  bool mean = false;
};
constexpr Row rows[] = {
    {"ReduceSum", vector::reduce_sum}, {"ReduceMean", vector::reduce_sum, true}, {"ReduceMax", vector::reduce_max},
    {"ReduceMin", vector::reduce_min}, {"ReduceProd", vector::reduce_prod},
};

constexpr std::int64_t widest = 512;       // elements reduced side by side
constexpr std::int64_t longest = 4096;     // elements reduced to one in a row
constexpr std::int64_t rows_a_block = 256;

template <class T>
T neutral(Reduction reduction) {
  using Limits = std::numeric_limits<T>;
  switch (reduction) {
    case vector::reduce_sum: return T(0);
    case vector::reduce_prod: return T(1);
    case vector::reduce_max: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    default: return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
}

template <class T>
T combined(Reduction reduction, T a, T b) {
  switch (reduction) {
    case vector::reduce_sum: return static_cast<T>(a + b);
    case vector::reduce_prod: return static_cast<T>(a * b);
    case vector::reduce_max: return a > b || a != a ? a : b;
    default: return a < b || a != a ? a : b;
  }
}

// The loops over T: vector code for floats.
template <class T>
struct Loops {
  Reduction reduction;
  T (*row)(const T*, std::int64_t, T) = nullptr;
  void (*side_by_side)(T*, const T*, std::int64_t, std::int64_t, std::int64_t) = nullptr;
  void (*each)(T*, const T*, std::int64_t, std::int64_t, T) = nullptr;

  explicit Loops(Reduction r) : reduction(r) {
    if constexpr (std::is_floating_point_v<T>) {
      row = vector_table().of<T>().reductions->row[r];
      side_by_side = vector_table().of<T>().reductions->rows[r];
      each = vector_table().of<T>().reductions->each[r];
    }
  }
  T reduce(T start, const T* x, std::int64_t n, std::int64_t stride) const {
    if (stride == 1 && row) return combined(reduction, start, row(x, n, neutral<T>(reduction)));
    for (std::int64_t i = 0; i < n; ++i) start = combined(reduction, start, x[i * stride]);
    return start;
  }
  void reduce_into(T* y, const T* x, std::int64_t n, std::int64_t rows = 1, std::int64_t stride = 0) const {
    if (side_by_side) return side_by_side(y, x, n, rows, stride);
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < n; ++i) y[i] = combined(reduction, y[i], x[row * stride + i]);
  }
};

// One nest of the reduction. A unit is one choice of all kept loops; its rows are all choices of the reduced ones.
struct Work {
  std::int64_t from = 0, to = 0;
  std::vector<CopyLoop> kept, reduced;
  CopyLoop inner;  // to = 1: kept, side by side; to = 0: reduced to one
  std::int64_t units = 1, rows = 1;
  std::int64_t width() const { return inner.to == 1 ? inner.size : 1; }
};

std::vector<Work> works_of(std::span<const AxisLoops> axes) {
  std::vector<Work> works;
  const auto finish = [&](Work w) {
    for (const CopyLoop& loop : w.kept) w.units *= loop.size;
    for (const CopyLoop& loop : w.reduced) w.rows *= loop.size;
    works.push_back(std::move(w));
  };
  for (CopyNest& nest : copy_nests(axes)) {
    Work w{.from = nest.from, .to = nest.to, .kept = {}, .reduced = {}, .inner = {1, 1, 0}};
    std::vector<CopyLoop>& loops = nest.loops;
    const auto find = [&](auto&& good) { return std::find_if(loops.begin(), loops.end(), good); };
    auto inner = find([](const CopyLoop& l) { return l.from == 1 && l.to == 1; });
    if (inner == loops.end()) inner = find([](const CopyLoop& l) { return l.from == 1 && l.to == 0; });
    if (inner == loops.end()) inner = find([](const CopyLoop& l) { return l.to == 0; });
    if (inner != loops.end()) {
      w.inner = *inner;
      loops.erase(inner);
    }
    for (const CopyLoop& loop : loops) (loop.to == 0 ? w.reduced : w.kept).push_back(loop);
    // Long inner loops in pieces, and the rest by itself.
    const std::int64_t piece = w.inner.to == 1 ? widest : longest;
    if (w.inner.size > piece) {
      const CopyLoop loop = w.inner;
      const std::int64_t pieces = loop.size / piece, done = pieces * piece;
      if (done < loop.size) {
        Work rest = w;
        rest.from += done * loop.from;
        rest.to += done * loop.to;
        rest.inner.size = loop.size - done;
        finish(std::move(rest));
      }
      (loop.to == 1 ? w.kept : w.reduced).push_back({pieces, piece * loop.from, piece * loop.to});
      w.inner.size = piece;
    }
    finish(std::move(w));
  }
  return works;
}

// Threads take units where there are enough; else each takes rows, into sums of its own, which are then combined.
struct Sharing {
  int parts = 1;
  bool by_rows = false;
};
Sharing sharing_of(const Work& w, int threads) {
  const int parts = threads_for(w.units * w.rows * w.inner.size, threads);
  if (w.units >= parts || w.rows < 2 * parts)
    return {static_cast<int>(std::min<std::int64_t>(parts, std::max<std::int64_t>(1, w.units))), false};
  return {parts, true};
}

template <class T>
void reduce_unit(const Work& w, const Loops<T>& loops, const T* x, T* y, std::int64_t unit, Range rows_taken) {
  std::int64_t from = w.from, to = w.to, rest = unit;
  for (auto loop = w.kept.rbegin(); loop != w.kept.rend(); rest /= loop->size, ++loop) {
    from += rest % loop->size * loop->from;
    to += rest % loop->size * loop->to;
  }
  const CopyLoop line = w.reduced.empty() ? CopyLoop{1, 0, 0} : w.reduced.back();
  const std::int64_t width = w.width();
  const T start = neutral<T>(loops.reduction);
  T total[widest], block[widest];
  std::fill_n(total, width, start);
  for (std::int64_t row = rows_taken.begin; row < rows_taken.end;) {
    // Rows of one block lie along the innermost reduced loop.
    const std::int64_t first = row % line.size;
    const std::int64_t n = std::min({rows_taken.end - row, line.size - first, rows_a_block});
    std::int64_t at = from + first * line.from;
    std::int64_t outer = row / line.size;
    for (std::size_t k = w.reduced.size(); k-- > 1; outer /= w.reduced[k - 1].size)
      at += outer % w.reduced[k - 1].size * w.reduced[k - 1].from;
    std::fill_n(block, width, start);
    if (w.inner.to == 1)
      loops.reduce_into(block, x + at, width, n, line.from);
    else
      for (std::int64_t i = 0; i < n; ++i) block[0] = loops.reduce(block[0], x + at + i * line.from, w.inner.size, w.inner.from);
    loops.reduce_into(total, block, width);
    row += n;
  }
  loops.reduce_into(y + to, total, width);
}

// Rows that lie one after the other, each a unit reduced to one.
bool rows_in_a_row(const Work& w) {
  return w.reduced.empty() && w.inner.to == 0 && w.inner.from == 1 && w.kept.size() == 1 && w.kept[0].from == w.inner.size &&
         w.kept[0].to == 1;
}

template <class T>
void run_work(const Work& w, const Loops<T>& loops, const T* x, T* y, std::int64_t outputs, T* partials, int threads) {
  const Sharing sharing = sharing_of(w, threads);
  if (!sharing.by_rows) {
    parallel(sharing.parts, [&](int k) {
      const Range units = part_of(w.units, k, sharing.parts);
      if (loops.each && rows_in_a_row(w))
        return loops.each(y + w.to + units.begin, x + w.from + units.begin * w.inner.size, w.inner.size, units.end - units.begin,
                          neutral<T>(loops.reduction));
      for (std::int64_t unit = units.begin; unit < units.end; ++unit) reduce_unit(w, loops, x, y, unit, {0, w.rows});
    });
    return;
  }
  parallel(sharing.parts, [&](int k) {
    T* const mine = partials + k * outputs;
    std::fill_n(mine, outputs, neutral<T>(loops.reduction));
    for (std::int64_t unit = 0; unit < w.units; ++unit) reduce_unit(w, loops, x, mine, unit, part_of(w.rows, k, sharing.parts));
  });
  in_order(sharing.parts, outputs, threads, [&](std::int64_t k, const Range& r) {
    loops.reduce_into(y + r.begin, partials + k * outputs + r.begin, r.end - r.begin);
  });
}

// y's layout where the request leaves it open: x's, if that only blocks axes that stay.
Layout output_layout(const Operand& x, const Shape& y, const std::vector<bool>& reduced) {
  const Layout plain = Layout::row_major(y.rank());
  if (x.shape.rank() != y.rank() || x.layout.is_row_major()) return plain;
  for (const PhysicalDim& d : physical_dims(x.shape, x.layout))
    if (d.step != 1 && reduced[static_cast<std::size_t>(d.axis)]) return plain;
  return x.layout;
}

template <class T>
Descriptions describe(const Row& row, const KernelRequest& request) {
  const Operand x = with_layout(request.inputs[0], layout_or_row_major(request.inputs[0]));
  Operand y = request.outputs[0];
  std::vector<bool> reduced(static_cast<std::size_t>(x.shape.rank()));
  std::int64_t count = 1;
  for (const std::int64_t axis : request.attributes->ints("axes")) {
    reduced[static_cast<std::size_t>(axis)] = true;
    count *= x.shape[static_cast<int>(axis)];
  }
  const bool keep = request.attributes->integer("keepdims", 1) != 0;
  if (y.layout.any()) y.layout = output_layout(x, y.shape, reduced);

  std::vector<AxisLoops> axes;
  for (int axis = 0, out = 0; axis < x.shape.rank(); ++axis) {
    const bool gone = reduced[static_cast<std::size_t>(axis)];
    axes.push_back(loops_along(x.shape[axis], {x.shape, x.layout, axis}, gone ? AxisOffsets() : AxisOffsets(y.shape, y.layout, out)));
    if (!gone || keep) ++out;
  }
  const std::vector<Work> works = works_of(axes);
  const std::int64_t outputs = physical_elements(y.shape, y.layout);
  const int threads = request.options.threads;
  KernelDescription d{.kernel = "native.reduce", .inputs = {x}, .outputs = {y}, .efficiency = 0.3};
  for (const Work& w : works) {
    const Sharing sharing = sharing_of(w, threads);
    if (sharing.by_rows) d.workspace = std::max(d.workspace, sharing.parts * outputs * static_cast<std::int64_t>(sizeof(T)));
  }
  d.make = [=, reduction = row.reduction, mean = row.mean] {
    const Loops<T> loops(reduction);
    const PaddingZero padding(y);
    return make_kernel([=](const Memory& m) {
      T* const y = m.out<T>(0);
      in_order(1, outputs, threads, [&](std::int64_t, const Range& r) { std::fill(y + r.begin, y + r.end, neutral<T>(reduction)); });
      for (const Work& w : works) run_work(w, loops, m.in<T>(0), y, outputs, reinterpret_cast<T*>(m.workspace), threads);
      if (mean)
        in_order(1, outputs, threads, [&](std::int64_t, const Range& r) {
          for (std::int64_t i = r.begin; i < r.end; ++i) y[i] = static_cast<T>(y[i] / static_cast<T>(count));
        });
      if (padding.needed()) padding.run(m.outputs[0]);
    })();
  };
  return {d};
}

}  // namespace

Descriptions describe_reduce(const KernelRequest& request) {
  const Operand& x = request.inputs[0];
  if (x.layout.opaque() || request.outputs[0].layout.opaque()) return {};
  Descriptions all;
  for (const Row& row : rows)
    if (row.op == request.op && size_of(x.dtype) != 0 && x.dtype != DType::float16 && x.dtype != DType::bfloat16)
      visit_number(x.dtype == DType::boolean ? DType::uint8 : x.dtype, [&]<class T>() {
        if constexpr (!std::is_same_v<T, bool>) all = describe<T>(row, request);
      });
  return all;
}

}  // namespace tandem::native
