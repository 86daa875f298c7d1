// Resample(x, starts, index, weight?, starts_second?, index_second?, weight_second?) {axis} → y, in any layout in which the axes are
// whole neighbours: memory is then [outer, first, second, inner]. A thread makes whole rows [second, inner]: the sum of x's rows first,
// in its own buffer, then along the second axis. A row made of the same as the one before is copied.
#include <array>
#include <optional>

#include "graph/half.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {
namespace {

constexpr std::int64_t long_inner = 16;  // elements from which on a single axis is worked on by rows of what is behind it

struct Extents {
  std::int64_t outer = 1, first = 1, second = 1, inner = 1;
};

// A tensor as it lies around `axis` and, where `axes` is 2, the one behind it; nothing where they are no neighbours or blocked.
std::optional<Extents> extents_of(const Operand& x, int axis, int axes) {
  Extents e;
  int seen = 0;
  for (const PhysicalDim& d : physical_dims(x.shape, x.layout)) {
    if (d.axis >= axis && d.axis < axis + axes) {
      if (d.axis != axis + seen || d.step != 1) return std::nullopt;
      (seen == 0 ? e.first : e.second) = d.size;
      ++seen;
    } else if (seen == 0) {
      e.outer *= d.size;
    } else if (seen == axes) {
      e.inner *= d.size;
    } else {
      return std::nullopt;
    }
  }
  return seen == axes ? std::optional(e) : std::nullopt;
}

// One axis' table in memory. A plan's tables come from a file: what they name outside of the axis is left out.
template <class W>
struct Table {
  const std::int32_t* starts = nullptr;  // null: the axis stays what it is
  const std::int32_t* index = nullptr;
  const W* weight = nullptr;
  std::int64_t entries = 0;  // of index
  std::int64_t n = 0;        // of x's axis

  Range of(std::int64_t i) const {
    return starts ? Range{std::max<std::int64_t>(0, starts[i]), std::min<std::int64_t>(entries, starts[i + 1])} : Range{i, i + 1};
  }
  std::int64_t from(std::int64_t k) const {
    const std::int64_t j = starts ? index[k] : k;
    return j >= 0 && j < n ? j : -1;
  }
  W by(std::int64_t k) const { return weight ? weight[k] : W(1); }
  bool plain(Range r) const { return r.end == r.begin + 1 && !weight && from(r.begin) >= 0; }
  bool same(std::int64_t i, std::int64_t j) const {
    const Range a = of(i), b = of(j);
    if (a.end - a.begin != b.end - b.begin) return false;
    for (std::int64_t k = 0; k < a.end - a.begin; ++k)
      if (from(a.begin + k) != from(b.begin + k) || by(a.begin + k) != by(b.begin + k)) return false;
    return true;
  }
};

// What all entries of a table have in common, found once a run: rows of single elements are then made by loops without branches.
struct Regularity {
  bool inside = false;  // nothing is left out
  int terms = 0;        // of each entry, where all have as many
  bool twice = false;   // entry i is x[i / 2]
  bool pairs = false;   // entry i is x[2i] + x[2i + 1]
};

template <class W>
Regularity regularity_of(const Table<W>& t, std::int64_t size) {
  Regularity found;
  if (!t.starts || size == 0) return found;
  found.terms = t.starts[1] - t.starts[0];
  found.twice = found.pairs = !t.weight;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t begin = t.starts[i], end = t.starts[i + 1];
    if (begin < 0 || end < begin || end > t.entries) return {};
    for (std::int64_t k = begin; k < end; ++k)
      if (t.from(k) < 0) return {};
    if (end - begin != found.terms) found.terms = 0;
    found.pairs = found.pairs && end - begin == 2 && begin == 2 * i && t.from(begin) == 2 * i && t.from(begin + 1) == 2 * i + 1;
    found.twice = found.twice && end - begin == 1 && t.from(begin) == i / 2;
  }
  if (t.starts[0] != 0) found.terms = 0;
  found.inside = true;
  return found;
}

// y[size] from a row of single elements; where this gives false nothing was done.
template <class F, class T, class A, class W>
bool resample_elements(const Table<W>& t, const Regularity& all, const F* row, T* y, std::int64_t size, A) {
  if constexpr (std::is_same_v<F, T>) {
    if (all.twice) {
      for (std::int64_t j = 0; j < size / 2; ++j) y[2 * j] = y[2 * j + 1] = row[j];
      if (size % 2 == 1) y[size - 1] = row[size / 2];
      return true;
    }
    if (all.terms == 1 && !t.weight) {
      for (std::int64_t j = 0; j < size; ++j) y[j] = row[t.index[j]];
      return true;
    }
  }
  if (!all.inside) return false;
  if (all.pairs) {
    for (std::int64_t j = 0; j < size; ++j) y[j] = number_as<T>(static_cast<A>(number_as<A>(row[2 * j]) + number_as<A>(row[2 * j + 1])));
    return true;
  }
  const auto sum_of = [&](std::int64_t begin, std::int64_t end) {
    A sum(0);
    if (t.weight)
      for (std::int64_t k = begin; k < end; ++k) sum += static_cast<A>(t.weight[k]) * number_as<A>(row[t.index[k]]);
    else
      for (std::int64_t k = begin; k < end; ++k) sum += number_as<A>(row[t.index[k]]);
    return number_as<T>(sum);
  };
  if (all.terms == 2)
    for (std::int64_t j = 0; j < size; ++j) y[j] = sum_of(2 * j, 2 * j + 2);
  else if (all.terms == 4)
    for (std::int64_t j = 0; j < size; ++j) y[j] = sum_of(4 * j, 4 * j + 4);
  else
    for (std::int64_t j = 0; j < size; ++j) y[j] = sum_of(t.starts[j], t.starts[j + 1]);
  return true;
}

// to (+)= w · from
template <bool add, class T, class A>
void accumulate(const T* from, A* to, A w, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const A value = w * number_as<A>(from[i]);
    to[i] = (add ? to[i] : A(0)) + value;  // 0 + −0 = 0, as padding has to be
  }
}

// Σ of a table's entry, over runs of `inner`; A: in which sums are made.
template <class T, class A, class W>
void sum_runs(const Table<W>& t, Range r, const T* x, A* y, std::int64_t inner) {
  bool begun = false;
  for (std::int64_t k = r.begin; k < r.end; ++k) {
    const std::int64_t from = t.from(k);
    if (from < 0) continue;
    if (begun)
      accumulate<true>(x + from * inner, y, static_cast<A>(t.by(k)), inner);
    else
      accumulate<false>(x + from * inner, y, static_cast<A>(t.by(k)), inner);
    begun = true;
  }
  if (!begun) std::fill_n(y, inner, A(0));
}

// y[size, inner] from a row [n, inner]. `run`: memory for `inner` sums.
template <class F, class T, class A, class W>
void resample_row(const Table<W>& t, const Regularity& all, const F* row, T* y, std::int64_t size, std::int64_t inner, A* run) {
  if (inner == 1 && resample_elements(t, all, row, y, size, A())) return;
  for (std::int64_t j = 0; j < size; ++j) {
    const Range r = t.of(j);
    if constexpr (std::is_same_v<F, T>) {
      if (t.plain(r)) {
        if (inner == 1)
          y[j] = row[t.from(r.begin)];
        else
          std::copy_n(row + t.from(r.begin) * inner, inner, y + j * inner);
        continue;
      }
    }
    if (inner == 1) {
      A sum(0);
      for (std::int64_t k = r.begin; k < r.end; ++k)
        if (const std::int64_t from = t.from(k); from >= 0) sum += static_cast<A>(t.by(k)) * number_as<A>(row[from]);
      y[j] = number_as<T>(sum);
    } else if constexpr (std::is_same_v<T, A>) {
      sum_runs(t, r, row, y + j * inner, inner);
    } else {
      sum_runs(t, r, row, run, inner);
      for (std::int64_t c = 0; c < inner; ++c) y[j * inner + c] = number_as<T>(run[c]);
    }
  }
}

template <class T, class A, class W>
void resample(const Table<W>& first, const Table<W>& second, const Regularity& all, const Extents& x, const Extents& y, const T* in, T* out,
              Range rows, A* buffer) {
  const std::int64_t row = y.second * y.inner;
  A* const sums = buffer;
  A* const run = buffer + x.second * x.inner;
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const std::int64_t entry = i % y.first;
    T* const to = out + i * row;
    if (i > rows.begin && entry > 0 && first.same(entry, entry - 1)) {
      std::copy_n(to - row, row, to);
      continue;
    }
    const T* const block = in + i / y.first * x.first * x.second * x.inner;
    const Range r = first.of(entry);
    if (first.plain(r)) {
      resample_row(second, all, block + first.from(r.begin) * x.second * x.inner, to, y.second, y.inner, run);
    } else {
      sum_runs(first, r, block, sums, x.second * x.inner);
      resample_row(second, all, sums, to, y.second, y.inner, run);
    }
  }
}

constexpr int operands_of_axis = 3;
bool given(const std::vector<Operand>& operands, int i) {
  return i < std::ssize(operands) && operands[static_cast<std::size_t>(i)].present();
}

}  // namespace

Descriptions describe_resample(const KernelRequest& request) {
  const int rank = request.inputs[0].shape.rank(), axis = normalize_axis(request.attributes->integer("axis"), rank, "Resample's axis");
  const int axes = given(request.inputs, 1 + operands_of_axis) ? 2 : 1;
  KernelDescription d{
      .kernel = "native.resample", .inputs = row_major(request.inputs), .outputs = row_major(request.outputs), .efficiency = 0.3};
  for (const Layout& layout : {request.inputs[0].layout, request.outputs[0].layout}) {
    if (layout.any() || layout.opaque()) continue;
    const Operand in = with_layout(request.inputs[0], layout);
    if (!extents_of(in, axis, axes)) continue;
    d.inputs[0] = in;
    d.outputs[0] = with_layout(request.outputs[0], layout);
    break;
  }
  Extents x = *extents_of(d.inputs[0], axis, axes), y = *extents_of(d.outputs[0], axis, axes);
  // A single axis with little behind it is the second one of rows of its own.
  const bool as_second = axes == 1 && x.inner < long_inner;
  if (as_second)
    for (Extents* e : {&x, &y}) *e = {e->outer, 1, e->first, e->inner};
  const DType dtype = d.inputs[0].dtype;
  const bool weighted = given(request.inputs, operands_of_axis) || given(request.inputs, 2 * operands_of_axis);
  if (weighted && !is_float(dtype)) return {};
  const std::int64_t rows = y.outer * y.first;
  const int parts = static_cast<int>(std::clamp<std::int64_t>(
      rows, 1, threads_for(std::max(x.outer * x.first * x.second * x.inner, rows * y.second * y.inner), request.options.threads)));
  const auto entries = [&](int a) {
    return given(request.inputs, 1 + operands_of_axis * a)
               ? request.inputs[static_cast<std::size_t>(2 + operands_of_axis * a)].shape.elements()
               : 0;
  };
  visit_storable(dtype, [&]<class T>() {
    using A = std::conditional_t<std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>, float,
                                 std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>>;
    using W = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const std::int64_t buffer = x.second * x.inner + y.inner;
    d.workspace = parts * buffer * static_cast<std::int64_t>(sizeof(A));
    d.make = make_kernel([=, counts = std::array{entries(0), entries(1)}](const Memory& m) {
      const auto table = [&](int a, std::int64_t n) {
        const int operand = 1 + operands_of_axis * a;
        Table<W> t{.n = n};
        if (operand >= std::ssize(m.inputs) || !m.inputs[static_cast<std::size_t>(operand)]) return t;
        t.starts = m.in<std::int32_t>(operand);
        t.index = m.in<std::int32_t>(operand + 1);
        if (operand + 2 < std::ssize(m.inputs)) t.weight = m.in<W>(operand + 2);
        t.entries = counts[static_cast<std::size_t>(a)];
        return t;
      };
      const Table<W> first = as_second ? Table<W>{.n = 1} : table(0, x.first), second = as_second ? table(0, x.second) : table(1, x.second);
      const Regularity all = y.inner == 1 ? regularity_of(second, y.second) : Regularity{};
      parallel(parts, [&](int k) {
        resample(first, second, all, x, y, m.in<T>(0), m.out<T>(0), part_of(rows, k, parts),
                 reinterpret_cast<A*>(m.workspace) + k * buffer);
      });
    });
  });
  return d.make ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::native
