// Batch normalization of rows whose lanes are channels. Rows are summed in pieces that stay in the nearest cache, pieces in double: what
// is summed in which order depends on shapes alone.
#include "kernels/cpu/native/vector/elements.h"
#include "kernels/cpu/native/vector/parts.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;
using Line = Lanes<float>;

constexpr int64_t piece = 256;  // rows
constexpr int sums_at_once = 4;

// `vectors` of a row. Where there is one it may have fewer channels than lanes: `some`.
template <class E, int vectors, bool some>
struct Access {
  using T = typename E::Element;
  int channels;
  Line load(const void* p, int64_t at) const {
    const T* const from = static_cast<const T*>(p) + at;
    return some ? E::load(from, channels) : E::load(from);
  }
  void store(void* p, int64_t at, Line v) const {
    T* const to = static_cast<T*>(p) + at;
    some ? E::store(to, v, channels) : E::store(to, v);
  }
  // Past the caches, where `p` and steps of rows are whole lines of them.
  void stream(void* p, int64_t at, Line v) const {
#if defined(__AVX512BW__)
    if constexpr (!some && sizeof(T) == sizeof(float)) return _mm512_stream_ps(static_cast<float*>(p) + at, v);
#endif
    store(p, at, v);
  }
};
template <class E>
bool streams(const void* p, const ChannelRows& at) { return (reinterpret_cast<std::uintptr_t>(p) | static_cast<std::uintptr_t>(at.step) * sizeof(typename E::Element)) % 64 == 0; }

Line held(const float* p, int v) { return Plain<float>::load(p + v * lanes); }
void add(double* to, const float* from, int n) {
  for (int k = 0; k < n; ++k) to[k] += static_cast<double>(from[k]);
}

// sums = Σ over rows [begin, end) of what term(row, v, sums) adds: several rows side by side hide each other's latency.
template <int vectors, int count, class Term>
void add_rows(int64_t begin, int64_t end, Line (&sums)[count][vectors], const Term& term) {
  constexpr int rows = sums_at_once / vectors;
  Line part[rows][count][vectors] = {};
  int64_t r = begin;
  for (; r + rows <= end; r += rows)
#pragma GCC unroll 4
    for (int k = 0; k < rows; ++k)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) term(r + k, v, part[k]);
  for (; r < end; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) term(r, v, part[0]);
#pragma GCC unroll 4
  for (int j = 0; j < count; ++j)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      sums[j][v] = part[0][j][v];
#pragma GCC unroll 4
      for (int k = 1; k < rows; ++k) sums[j][v] += part[k][j][v];
    }
}

// Of a piece the distances from its first row are summed, and their squares: one pass over memory.
template <class E, int vectors, bool some>
void moments(const void* x, const ChannelRows& at, double* mean, double* squares) {
  constexpr int width = vectors * lanes;
  const Access<E, vectors, some> io{at.channels};
  for (int k = 0; k < width; ++k) mean[k] = squares[k] = 0;
  for (int64_t begin = 0; begin < at.rows; begin += piece) {
    const int64_t end = begin + piece < at.rows ? begin + piece : at.rows;
    Line first[vectors], sum[2][vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) first[v] = io.load(x, begin * at.step + v * lanes);
    add_rows<vectors, 2>(begin, end, sum, [&](int64_t r, int v, Line(&to)[2][vectors]) {
      const Line d = io.load(x, r * at.step + v * lanes) - first[v];
      to[0][v] += d;
      to[1][v] += d * d;
    });
    alignas(64) float part[3][width];
    for (int v = 0; v < vectors; ++v) {
      Plain<float>::store(part[0] + v * lanes, first[v]);
      for (int j = 0; j < 2; ++j) Plain<float>::store(part[1 + j] + v * lanes, sum[j][v]);
    }
    const double each = 1 / static_cast<double>(end - begin), share = static_cast<double>(end - begin) / static_cast<double>(end), both = share * static_cast<double>(begin);
    for (int k = 0; k < width; ++k) {
      const double all = static_cast<double>(part[1][k]), apart = static_cast<double>(part[0][k]) + all * each - mean[k];
      mean[k] += apart * share;
      squares[k] += static_cast<double>(part[2][k]) - all * all * each + apart * apart * both;
    }
  }
}

// The same to the bit forward and backward, which compares it with the bounds.
Line normalized(Line x, Line mean, Line factor, Line bias) { return (x - mean) * factor + bias; }

template <class E, int vectors, bool some>
void apply(const NormalizedBatch& n) {
  const Access<E, vectors, some> io{n.at.channels};
  Line mean[vectors], factor[vectors], bias[vectors];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    mean[v] = held(n.mean, v);
    factor[v] = held(n.factor, v);
    bias[v] = held(n.bias, v);
  }
  const Line low = n.low - Line{}, high = n.high - Line{};
  const auto rows = [&](const auto& with_addend, const auto& store) {
    for (int64_t r = 0; r < n.at.rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const int64_t at = r * n.at.step + v * lanes;
        Line y = with_addend(normalized(io.load(n.x, at), mean[v], factor[v], bias[v]), at);
        y = low > y ? low : y;  // NaN stays
        store(at, high < y ? high : y);
      }
  };
  const auto any = [&](const auto& with_addend) {
    if (n.streams && streams<E>(n.y, n.at))
      rows(with_addend, [&](int64_t at, Line y) { io.stream(n.y, at, y); });
    else
      rows(with_addend, [&](int64_t at, Line y) { io.store(n.y, at, y); });
  };
  if (n.addend)
    any([&](Line y, int64_t at) { return y + io.load(n.addend, at); });
  else
    any([](Line y, int64_t) { return y; });
}

// What flows through a row: calls use(element, g, x − mean) of its vector v.
template <class E, int vectors, bool some, bool cut, bool more>
struct Gradient {
  const NormalizedBatchBackward& n;
  Access<E, vectors, some> io{n.at.channels};
  Line low = n.low - Line{}, high = n.high - Line{};
  Line mean[vectors], factor[vectors], bias[vectors];

  explicit Gradient(const NormalizedBatchBackward& all) : n(all) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      mean[v] = held(n.mean, v);
      factor[v] = held(n.factor, v);
      bias[v] = held(n.bias, v);
    }
  }
  template <class Use>
  void operator()(int64_t r, int v, const Use& use) const {
    const int64_t at = r * n.at.step + v * lanes;
    const Line x = io.load(n.x, at);
    Line g = io.load(n.dy, at);
    if (more && n.dy2) g += io.load(n.dy2, at);
    if (cut) {
      const Line y = more && n.y ? io.load(n.y, at) : normalized(x, mean[v], factor[v], bias[v]);
      g = (y > low) & (y < high) ? g : Line{};
    }
    use(at, g, x - mean[v]);
  }
};

template <class E, int vectors, bool some, bool cut, bool more>
void sums(const NormalizedBatchBackward& n, double* plain, double* along) {
  constexpr int width = vectors * lanes;
  const Gradient<E, vectors, some, cut, more> gradient(n);
  for (int k = 0; k < width; ++k) plain[k] = along[k] = 0;
  for (int64_t begin = 0; begin < n.at.rows; begin += piece) {
    const int64_t end = begin + piece < n.at.rows ? begin + piece : n.at.rows;
    Line both[2][vectors];
    add_rows<vectors, 2>(begin, end, both, [&](int64_t r, int v, Line(&to)[2][vectors]) {
      gradient(r, v, [&](int64_t, Line g, Line x) {
        to[0][v] += g;
        to[1][v] += g * x;
      });
    });
    alignas(64) float part[2][width];
    for (int j = 0; j < 2; ++j)
      for (int v = 0; v < vectors; ++v) Plain<float>::store(part[j] + v * lanes, both[j][v]);
    add(plain, part[0], width);
    add(along, part[1], width);
  }
}

template <class E, int vectors, bool some, bool cut, bool more>
void apply_backward(const NormalizedBatchBackward& n) {
  const Gradient<E, vectors, some, cut, more> gradient(n);
  Line shift[vectors], tilt[vectors];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    shift[v] = held(n.shift, v);
    tilt[v] = held(n.tilt, v);
  }
  const auto rows = [&](const auto& store) {
    for (int64_t r = 0; r < n.at.rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        gradient(r, v, [&](int64_t at, Line g, Line x) {
          if (more && n.daddend) gradient.io.store(n.daddend, at, g);
          store(at, gradient.factor[v] * (g - shift[v] - x * tilt[v]));
        });
  };
  if (n.streams && n.dx != n.dy && streams<E>(n.dx, n.at))
    rows([&](int64_t at, Line dx) { gradient.io.stream(n.dx, at, dx); });
  else
    rows([&](int64_t at, Line dx) { gradient.io.store(n.dx, at, dx); });
}

// f.template operator()<vectors, some>() for so many channels
template <class F>
void visit_width(int channels, const F& f) {
  if (channels == most_channels) return f.template operator()<most_channels / lanes, false>();
  channels == lanes ? f.template operator()<1, false>() : f.template operator()<1, true>();
}
template <class F>
void visit_forms(const NormalizedBatchBackward& n, const F& f) {
  const bool cut = n.low > -math::infinity || n.high < math::infinity, more = n.dy2 || n.y || n.daddend;
  visit_width(n.at.channels, [&]<int vectors, bool some>() {
    if (cut) return more ? f.template operator()<vectors, some, true, true>() : f.template operator()<vectors, some, true, false>();
    more ? f.template operator()<vectors, some, false, true>() : f.template operator()<vectors, some, false, false>();
  });
}

template <class E>
constexpr BatchNormalizations loops = {
    [](const void* x, const ChannelRows& at, double* mean, double* squares) {
      visit_width(at.channels, [&]<int vectors, bool some>() { moments<E, vectors, some>(x, at, mean, squares); });
    },
    [](const NormalizedBatch& n) { visit_width(n.at.channels, [&]<int vectors, bool some>() { apply<E, vectors, some>(n); }); },
    [](const NormalizedBatchBackward& n, double* plain, double* along) {
      visit_forms(n, [&]<int vectors, bool some, bool cut, bool more>() { sums<E, vectors, some, cut, more>(n, plain, along); });
    },
    [](const NormalizedBatchBackward& n) { visit_forms(n, [&]<int vectors, bool some, bool cut, bool more>() { apply_backward<E, vectors, some, cut, more>(n); }); },
};

}  // namespace

const BatchNormalizations batch_normalizations[] = {loops<Plain<float>>, loops<Bfloat16>};

}  // namespace tandem::vector::TANDEM_ISA
