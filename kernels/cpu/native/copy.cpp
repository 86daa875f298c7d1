// Finds the nest of loops for a pair of arrangements, orders it for the caches, and shares it out to threads.
#include "kernels/cpu/native/copy.h"

#include <numeric>

#include "kernels/cpu/isa.h"

namespace tandem::native {
namespace {

constexpr std::int64_t flat_piece = 4096;  // elements that a contiguous copy is cut into, for threads
constexpr std::int64_t many_rows = 256;    // enough for threads; fewer long ones are cut
constexpr std::int64_t tile = 16;          // of a transposing copy

bool same(const std::vector<CopyLoop>& a, const std::vector<CopyLoop>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const CopyLoop& x, const CopyLoop& y) { return x.size == y.size && x.from == y.from && x.to == y.to; });
}

// Groups neighbours of equal loops and equal distance into one nest with a loop more, until nothing groups.
std::vector<CopyNest> compress(std::vector<CopyNest> items) {
  for (;;) {
    std::vector<CopyNest> grouped;
    for (std::size_t i = 0; i < items.size();) {
      std::size_t n = 1;
      std::int64_t from = 0, to = 0;
      if (i + 1 < items.size() && same(items[i].loops, items[i + 1].loops)) {
        from = items[i + 1].from - items[i].from;
        to = items[i + 1].to - items[i].to;
        while (i + n < items.size() && same(items[i].loops, items[i + n].loops) && items[i + n].from - items[i + n - 1].from == from &&
               items[i + n].to - items[i + n - 1].to == to)
          ++n;
      }
      CopyNest nest = std::move(items[i]);
      if (n > 1) nest.loops.insert(nest.loops.begin(), {static_cast<std::int64_t>(n), from, to});
      grouped.push_back(std::move(nest));
      i += n;
    }
    const bool done = grouped.size() == items.size();
    items = std::move(grouped);
    if (done) return items;
  }
}

// The indices [begin, end), whose places on both sides `at` tells; those before all are left out.
template <class At>
AxisLoops loops_of(std::int64_t begin, std::int64_t end, const At& at) {
  AxisLoops items;
  for (std::int64_t i = begin; i < end;) {
    const CopyNest first = at(i);
    if (first.from < 0) {
      ++i;
      continue;
    }
    std::int64_t n = 1, from = 0, to = 0;
    for (CopyNest before = first; i + n < end; ++n) {
      const CopyNest next = at(i + n);
      if (next.from < 0) break;
      if (n == 1) {
        from = next.from - first.from;
        to = next.to - first.to;
      }
      if (next.from - before.from != from || next.to - before.to != to) break;
      before = next;
    }
    CopyNest nest = first;
    if (n > 1) nest.loops.push_back({n, from, to});
    items.push_back(std::move(nest));
    i += n;
  }
  return compress(std::move(items));
}

void order_and_merge(std::vector<CopyLoop>& loops) {
  std::stable_sort(loops.begin(), loops.end(), [](const CopyLoop& a, const CopyLoop& b) {
    return std::pair(std::abs(a.to), std::abs(a.from)) > std::pair(std::abs(b.to), std::abs(b.from));
  });
  std::vector<CopyLoop> merged;
  for (const CopyLoop& loop : loops) {
    if (!merged.empty() && merged.back().from == loop.from * loop.size && merged.back().to == loop.to * loop.size)
      merged.back() = {merged.back().size * loop.size, loop.from, loop.to};
    else
      merged.push_back(loop);
  }
  loops = std::move(merged);
}

// Cuts few long rows, which lie side by side on both sides, into equal pieces, where a number of them divides their length.
void cut_rows(std::vector<CopyLoop>& loops) {
  const CopyLoop row = loops.back();
  std::int64_t rows = 1;
  for (std::size_t k = 0; k + 1 < loops.size(); ++k) rows *= loops[k].size;
  if (row.from != 1 || row.to != 1 || rows >= many_rows) return;
  for (std::int64_t pieces = (many_rows + rows - 1) / rows; pieces <= row.size / flat_piece; ++pieces)
    if (row.size % pieces == 0) {
      const std::int64_t piece = row.size / pieces;
      loops.back() = {pieces, piece, piece};
      return loops.push_back({piece, 1, 1});
    }
}

// The innermost loop writes side by side; the one around it reads side by side where there is one; at least two.
void shape_for_running(std::vector<CopyNest>& nests) {
  std::vector<CopyNest> rests;
  for (CopyNest& nest : nests) {
    std::vector<CopyLoop>& loops = nest.loops;
    if (loops.empty()) loops.push_back({1, 0, 0});
    if (loops.size() == 1 && loops[0].size > flat_piece) {
      const CopyLoop loop = loops[0];
      const std::int64_t pieces = loop.size / flat_piece, done = pieces * flat_piece;
      loops = {{pieces, loop.from * flat_piece, loop.to * flat_piece}, {flat_piece, loop.from, loop.to}};
      if (done < loop.size)
        rests.push_back({nest.from + done * loop.from, nest.to + done * loop.to, {{1, 0, 0}, {loop.size - done, loop.from, loop.to}}});
    }
    if (loops.size() > 1) cut_rows(loops);
    if (loops.size() == 1) loops.insert(loops.begin(), {1, 0, 0});
    if (loops.back().from != 1)
      for (std::size_t i = 0; i + 2 < loops.size(); ++i)
        if (loops[i].from == 1) {
          std::rotate(loops.begin() + static_cast<std::ptrdiff_t>(i), loops.begin() + static_cast<std::ptrdiff_t>(i) + 1, loops.end() - 1);
          break;
        }
  }
  nests.insert(nests.end(), rests.begin(), rests.end());
}

// Long rows are copies of a short one: the C library's copies need not read the memory that they overwrite.
template <class T>
void fill_row(T* to, std::int64_t n, T value) {
  constexpr std::int64_t piece = 4096 / sizeof(T);
  if (n < piece) {
    std::fill_n(to, n, value);
    return;
  }
  T pattern[piece];
  std::fill_n(pattern, piece, value);
  for (std::int64_t i = 0; i < n; i += piece) std::memcpy(to + i, pattern, static_cast<std::size_t>(std::min(piece, n - i)) * sizeof(T));
}

template <class T>
void copy_row(const T* from, T* to, const CopyLoop& loop) {
  if (loop.from == 1 && loop.to == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(loop.size) * sizeof(T));
  } else if (loop.from == 0 && loop.to == 1) {
    fill_row(to, loop.size, *from);
  } else {
    for (std::int64_t j = 0; j < loop.size; ++j) to[j * loop.to] = from[j * loop.from];
  }
}

struct Store {
  template <class T>
  static void row(const T* from, T* to, const CopyLoop& loop) {
    copy_row(from, to, loop);
  }
};
struct Accumulate {
  template <class T>
  static void row(const T* from, T* to, const CopyLoop& loop) {
    for (std::int64_t j = 0; j < loop.size; ++j) to[j * loop.to] += from[j * loop.from];
  }
};

// As the vector code transposes, where it does.
template <class Action, class T>
bool transposed(const T* from, T* to, const CopyLoop& outer, const CopyLoop& inner, std::int64_t rows) {
  if constexpr (std::is_same_v<Action, Store> && (sizeof(T) == 2 || sizeof(T) == 4)) {
    if (inner.to != 1) return false;
    vector_table().transposes[sizeof(T) / 4](from, to, rows, inner.size, inner.from, outer.to);
    return true;
  }
  return false;
}

// Short runs, such as a block of channels: to call memcpy for each takes longer than the copy.
template <std::size_t bytes, class T>
bool copy_runs(const T* from, T* to, const CopyLoop& outer, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i) std::memcpy(to + i * outer.to, from + i * outer.from, bytes);
  return true;
}
template <class Action, class T>
bool copied_in_short_runs(const T* from, T* to, const CopyLoop& outer, const CopyLoop& inner, std::int64_t rows) {
  if (!std::is_same_v<Action, Store> || inner.from != 1 || inner.to != 1) return false;
  switch (static_cast<std::size_t>(inner.size) * sizeof(T)) {
    case 8: return copy_runs<8>(from, to, outer, rows);
    case 16: return copy_runs<16>(from, to, outer, rows);
    case 32: return copy_runs<32>(from, to, outer, rows);
    case 64: return copy_runs<64>(from, to, outer, rows);
    default: return false;
  }
}

template <class Action, class T>
void copy_rows(const T* from, T* to, const CopyLoop& outer, const CopyLoop& inner, std::int64_t rows) {
  if (copied_in_short_runs<Action>(from, to, outer, inner, rows)) return;
  if (outer.from != 1 || inner.from == 1) {
    for (std::int64_t i = 0; i < rows; ++i) Action::row(from + i * outer.from, to + i * outer.to, inner);
    return;
  }
  if (transposed<Action>(from, to, outer, inner, rows)) return;
  for (std::int64_t i = 0; i < rows; i += tile)
    for (std::int64_t j = 0; j < inner.size; j += tile)
      for (std::int64_t ii = i; ii < std::min(rows, i + tile); ++ii)
        Action::row(from + ii * outer.from + j * inner.from, to + ii * outer.to + j * inner.to,
                 {std::min(tile, inner.size - j), inner.from, inner.to});
}

// Rows [begin, end) of the nest, a row being one run of the innermost loop.
template <class Action, class T>
void run_rows(const CopyNest& nest, const T* from, T* to, std::int64_t begin, std::int64_t end) {
  const std::size_t last = nest.loops.size() - 2;
  const CopyLoop& outer = nest.loops[last];
  const CopyLoop& inner = nest.loops.back();
  while (begin < end) {
    std::int64_t rest = begin / outer.size;
    const std::int64_t row = begin % outer.size;
    const std::int64_t rows = std::min(end - begin, outer.size - row);
    std::int64_t f = nest.from + row * outer.from, t = nest.to + row * outer.to;
    for (std::size_t k = last; k-- > 0; rest /= nest.loops[k].size) {
      const std::int64_t i = rest % nest.loops[k].size;
      f += i * nest.loops[k].from;
      t += i * nest.loops[k].to;
    }
    copy_rows<Action>(from + f, to + t, outer, inner, rows);
    begin += rows;
  }
}

}  // namespace

AxisOffsets::AxisOffsets(const Shape& shape, const Layout& layout, int axis) {
  for (const PhysicalDim& d : physical_dims(shape, layout))
    if (d.axis == axis) dims_.push_back(d);
}

std::int64_t AxisOffsets::operator[](std::int64_t index) const {
  std::int64_t offset = 0;
  for (const PhysicalDim& d : dims_) offset += index / d.step % d.size * d.stride;
  return offset;
}

std::int64_t AxisOffsets::period() const {
  std::int64_t period = 1;
  for (const PhysicalDim& d : dims_) period = std::max(period, d.step);
  return period;
}

std::vector<std::int64_t> axis_offsets(const Shape& shape, const Layout& layout, int axis) {
  const AxisOffsets at(shape, layout, axis);
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i < shape[axis]; ++i) offsets.push_back(at[i]);
  return offsets;
}

// Those of one period, as often as it is there whole, and of the rest.
AxisLoops loops_along(std::int64_t size, const AxisOffsets& from, const AxisOffsets& to, std::int64_t shift) {
  const auto at = [&](std::int64_t i) { return CopyNest{from[i], to[i + shift], {}}; };
  const std::int64_t period = std::lcm(from.period(), to.period()), whole = size / period;
  if (whole < 2) return loops_of(0, size, at);
  const CopyNest first = at(0), second = at(period);
  AxisLoops loops = loops_of(0, 2 * period, at);
  if (loops.size() == 1 && loops[0].loops.size() == 1) {  // nothing ends with the period
    loops[0].loops[0].size = size;
    return loops;
  }
  loops = loops_of(0, period, at);
  for (CopyNest& nest : loops) nest.loops.insert(nest.loops.begin(), {whole, second.from - first.from, second.to - first.to});
  const AxisLoops rest = loops_of(whole * period, size, at);
  loops.insert(loops.end(), rest.begin(), rest.end());
  return loops;
}

AxisLoops loops_from(const IndexMap& map, std::int64_t size, const AxisOffsets& from, const AxisOffsets& to) {
  return loops_of(0, size, [&](std::int64_t i) {
    const std::int64_t there = map(i);
    return CopyNest{there < 0 ? -1 : from[there], to[i], {}};
  });
}

AxisLoops loops_to(const IndexMap& map, std::int64_t size, const AxisOffsets& from, const AxisOffsets& to) {
  return loops_of(0, size, [&](std::int64_t i) { return CopyNest{from[i], to[map(i)], {}}; });
}

std::vector<CopyNest> copy_nests(std::span<const AxisLoops> axes) {
  std::vector<CopyNest> nests{{}};
  for (const AxisLoops& pieces : axes) {
    std::vector<CopyNest> product;
    for (const CopyNest& nest : nests)
      for (const CopyNest& piece : pieces) {
        CopyNest joined{nest.from + piece.from, nest.to + piece.to, nest.loops};
        joined.loops.insert(joined.loops.end(), piece.loops.begin(), piece.loops.end());
        product.push_back(std::move(joined));
      }
    nests = std::move(product);
  }
  for (CopyNest& nest : nests) order_and_merge(nest.loops);
  return nests;
}

Copy::Copy(std::span<const AxisLoops> axes, std::size_t element_bytes) : nests_(copy_nests(axes)), element_bytes_(element_bytes) {
  shape_for_running(nests_);
}

Copy Copy::reorder(const Shape& shape, const Layout& from, const Layout& to, std::size_t element_bytes) {
  if (same_memory(shape, from, shape, to)) {  // one loop over everything, whatever the axes
    Copy flat;
    flat.element_bytes_ = element_bytes;
    flat.nests_ = {{0, 0, {{physical_elements(shape, from), 1, 1}}}};
    shape_for_running(flat.nests_);
    return flat;
  }
  std::vector<AxisLoops> axes;
  for (int axis = 0; axis < shape.rank(); ++axis) axes.push_back(loops_along(shape[axis], {shape, from, axis}, {shape, to, axis}));
  return Copy(axes, element_bytes);
}

namespace {

std::int64_t rows_of(const CopyNest& nest) {
  std::int64_t rows = 1;
  for (std::size_t k = 0; k + 1 < nest.loops.size(); ++k) rows *= nest.loops[k].size;
  return rows;
}

}  // namespace

void Copy::run(const std::byte* from, std::byte* to, int threads) const {
  visit_size(element_bytes_, [&]<class T>() {
    for (const CopyNest& nest : nests_) {
      const std::int64_t rows = rows_of(nest);
      const int parts = threads_for(rows * nest.loops.back().size, threads);
      parallel(parts, [&](int k) {
        const Range r = part_of(rows, k, parts);
        run_rows<Store>(nest, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to), r.begin, r.end);
      });
    }
  });
}

template <class T>
void Copy::add(const T* from, T* to) const {
  for (const CopyNest& nest : nests_) run_rows<Accumulate>(nest, from, to, 0, rows_of(nest));
}
template void Copy::add(const float*, float*) const;
template void Copy::add(const double*, double*) const;

}  // namespace tandem::native
