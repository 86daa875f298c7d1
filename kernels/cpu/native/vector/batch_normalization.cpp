// Batch normalization of rows whose lanes are channels. Pieces of rows are summed in float, and these in double: what is summed in
// which order depends on shapes alone.
#include "kernels/cpu/native/vector/elements.h"
#include "kernels/cpu/native/vector/parts.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;
using Line = Lanes<float>;

constexpr int64_t piece = 256, fewest = 8;  // rows
constexpr int64_t nearest = 4096;           // bytes of each tensor
constexpr int strip = 4, sums_at_once = 4;  // vectors

// Rows are taken a few at a time, all their channels, so that memory is read as it lies: f(begin, end). The next ones are fetched
// meanwhile. How many goes by the step between them: sums are the same where only some channels are asked for.
template <class E>
int64_t rows_of_block(const ChannelRows& at) {
  const int64_t fit = nearest / (at.step * static_cast<int64_t>(sizeof(typename E::Element)));
  return fit < fewest ? fewest : fit < piece ? fit : piece;
}
template <class E, class F>
void for_each_block(int64_t begin, int64_t end, const ChannelRows& at, const F& f) {
  const int64_t rows = rows_of_block<E>(at);
  for (int64_t r = begin; r < end; r += rows) f(r, r + rows < end ? r + rows : end);
}
// f.template operator()<vectors, some>(channel) for so many vectors from each of these channels on.
template <class F>
void for_each_strip(int channels, const F& f) {
  int c = 0;
  for (; c + strip * lanes <= channels; c += strip * lanes) f.template operator()<strip, false>(c);
  for (; c + lanes <= channels; c += lanes) f.template operator()<1, false>(c);
  if (c < channels) f.template operator()<1, true>(c);
}

// `vectors` of a row. Where there is one it may have fewer channels than lanes: `some`.
template <class E, int vectors, bool some>
struct Access {
  using T = typename E::Element;
  int channels;
  int64_t ahead;  // from a row to that of the next block
  Access(const ChannelRows& at, int c) : channels(at.channels - c), ahead(rows_of_block<E>(at) * at.step) {}
  Line fetching_load(const void* p, int64_t at) const {
    __builtin_prefetch(static_cast<const T*>(p) + at + ahead);
    return load(p, at);
  }
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
#if defined(__AVX512BW__)
template <class E>
constexpr bool can_stream = sizeof(typename E::Element) == sizeof(float);
#else
template <class E>
constexpr bool can_stream = false;
#endif
template <class E>
bool streams(const void* p, const ChannelRows& at) {
  return (reinterpret_cast<std::uintptr_t>(p) | static_cast<std::uintptr_t>(at.step) * sizeof(typename E::Element)) % 64 == 0;
}

Line held(const float* p, int v) { return Plain<float>::load(p + v * lanes); }
void add(float* to, int v, Line values) { Plain<float>::store(to + v * lanes, held(to, v) + values); }
template <class T>
void clear(T* p, int n) {
  for (int k = 0; k < n; ++k) p[k] = 0;
}
int padded(int channels) { return (channels + lanes - 1) / lanes * lanes; }
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
template <class E>
void moments(const void* x, const ChannelRows& at, float* partial, double* mean, double* squares) {
  float* const plain = partial;
  float* const squared = partial + padded(at.channels);
  clear(mean, at.channels);
  clear(squares, at.channels);
  for (int64_t begin = 0; begin < at.rows; begin += piece) {
    const int64_t end = begin + piece < at.rows ? begin + piece : at.rows;
    clear(partial, 2 * padded(at.channels));
    for_each_block<E>(begin, end, at, [&](int64_t from, int64_t to) {
      for_each_strip(at.channels, [&]<int vectors, bool some>(int c) {
        const Access<E, vectors, some> io(at, c);
        Line first[vectors], sum[2][vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) first[v] = io.load(x, begin * at.step + c + v * lanes);
        add_rows<vectors, 2>(from, to, sum, [&](int64_t r, int v, Line(&here)[2][vectors]) {
          const Line d = io.fetching_load(x, r * at.step + c + v * lanes) - first[v];
          here[0][v] += d;
          here[1][v] += d * d;
        });
        for (int v = 0; v < vectors; ++v) {
          add(plain + c, v, sum[0][v]);
          add(squared + c, v, sum[1][v]);
        }
      });
    });
    const auto* const first = static_cast<const typename E::Element*>(x) + begin * at.step;
    const double each = 1 / static_cast<double>(end - begin), share = static_cast<double>(end - begin) / static_cast<double>(end),
                 both = share * static_cast<double>(begin);
    for (int k = 0; k < at.channels; ++k) {
      const double all = static_cast<double>(plain[k]), apart = static_cast<double>(E::get(first + k)) + all * each - mean[k];
      mean[k] += apart * share;
      squares[k] += static_cast<double>(squared[k]) - all * all * each + apart * apart * both;
    }
  }
}

// What was streamed comes before all that follows.
void end_of_stream() {
#if defined(__AVX512BW__)
  _mm_sfence();
#endif
}

// The same to the bit forward and backward, which compares it with the bounds.
Line normalized(Line x, Line mean, Line factor, Line bias) { return (x - mean) * factor + bias; }

template <class E>
void apply(const NormalizedBatch& all_rows) {
  const NormalizedBatch n = all_rows;
  const Line low = n.low - Line{}, high = n.high - Line{};
  const auto all = [&](const auto& with_addend, const auto& store) {
    for_each_block<E>(0, n.at.rows, n.at, [&](int64_t begin, int64_t end) {
      for_each_strip(n.at.channels, [&]<int vectors, bool some>(int c) {
        const Access<E, vectors, some> io(n.at, c);
        Line mean[vectors], factor[vectors], bias[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          mean[v] = held(n.mean + c, v);
          factor[v] = held(n.factor + c, v);
          bias[v] = held(n.bias + c, v);
        }
        for (int64_t r = begin; r < end; ++r)
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v) {
            const int64_t at = r * n.at.step + c + v * lanes;
            Line y = with_addend(io, normalized(io.fetching_load(n.x, at), mean[v], factor[v], bias[v]), at);
            y = of_each([](auto bound, auto v) { return bound > v ? bound : v; }, low, y);  // NaN stays
            store(io, at, of_each([](auto bound, auto v) { return bound < v ? bound : v; }, high, y));
          }
      });
    });
  };
  const auto any = [&](const auto& with_addend) {
    if constexpr (can_stream<E>)
      if (n.streams && streams<E>(n.y, n.at)) {
        all(with_addend, [&](const auto& io, int64_t at, Line y) { io.stream(n.y, at, y); });
        return end_of_stream();
      }
    all(with_addend, [&](const auto& io, int64_t at, Line y) { io.store(n.y, at, y); });
  };
  if (n.addend)
    any([&](const auto& io, Line y, int64_t at) { return y + io.load(n.addend, at); });
  else
    any([](const auto&, Line y, int64_t) { return y; });
}

// What flows through a row's strip from channel c on: calls use(element, g, x − mean) of its vector v.
template <class E, int vectors, bool some, bool cut, bool more>
struct Gradient {
  NormalizedBatchBackward n;
  int c;
  Access<E, vectors, some> io{n.at, c};
  Line low = n.low - Line{}, high = n.high - Line{};
  Line mean[vectors], factor[vectors], bias[vectors];

  Gradient(const NormalizedBatchBackward& all, int channel) : n(all), c(channel) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      mean[v] = held(n.mean + c, v);
      factor[v] = held(n.factor + c, v);
      bias[v] = held(n.bias + c, v);
    }
  }
  template <class Use>
  void operator()(int64_t r, int v, const Use& use) const {
    const int64_t at = r * n.at.step + c + v * lanes;
    const Line x = io.fetching_load(n.x, at);
    Line g = io.fetching_load(n.dy, at);
    if (more && n.dy2) g += io.load(n.dy2, at);
    if (cut) {
      const Line y = more && n.y ? io.load(n.y, at) : normalized(x, mean[v], factor[v], bias[v]);
      g = of_each([](auto v, auto least, auto most, auto d) { return ((v > least) & (v < most)) ? d : decltype(d){}; }, y, low, high, g);
    }
    use(at, g, x - mean[v]);
  }
};

template <class E, bool cut, bool more>
void sums(const NormalizedBatchBackward& n, float* partial, double* plain, double* along) {
  clear(plain, n.at.channels);
  clear(along, n.at.channels);
  for (int64_t begin = 0; begin < n.at.rows; begin += piece) {
    clear(partial, 2 * padded(n.at.channels));
    for_each_block<E>(begin, begin + piece < n.at.rows ? begin + piece : n.at.rows, n.at, [&](int64_t from, int64_t to) {
      for_each_strip(n.at.channels, [&]<int vectors, bool some>(int c) {
        const Gradient<E, vectors, some, cut, more> gradient(n, c);
        Line both[2][vectors];
        add_rows<vectors, 2>(from, to, both, [&](int64_t r, int v, Line(&here)[2][vectors]) {
          gradient(r, v, [&](int64_t, Line g, Line x) {
            here[0][v] += g;
            here[1][v] += g * x;
          });
        });
        for (int v = 0; v < vectors; ++v) {
          add(partial + c, v, both[0][v]);
          add(partial + padded(n.at.channels) + c, v, both[1][v]);
        }
      });
    });
    add(plain, partial, n.at.channels);
    add(along, partial + padded(n.at.channels), n.at.channels);
  }
}

template <class E, bool cut, bool more>
void apply_backward(const NormalizedBatchBackward& all_rows) {
  const NormalizedBatchBackward n = all_rows;
  const auto all = [&](const auto& store) {
    for_each_block<E>(0, n.at.rows, n.at, [&](int64_t begin, int64_t end) {
      for_each_strip(n.at.channels, [&]<int vectors, bool some>(int c) {
        const Gradient<E, vectors, some, cut, more> gradient(n, c);
        Line shift[vectors], tilt[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
          shift[v] = held(n.shift + c, v);
          tilt[v] = held(n.tilt + c, v);
        }
        for (int64_t r = begin; r < end; ++r)
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v)
            gradient(r, v, [&](int64_t at, Line g, Line x) {
              if (more && n.daddend) gradient.io.store(n.daddend, at, g);
              store(gradient.io, at, gradient.factor[v] * (g - shift[v] - x * tilt[v]));
            });
      });
    });
  };
  if constexpr (can_stream<E>)
    if (n.streams && n.dx != n.dy && streams<E>(n.dx, n.at)) {
      all([&](const auto& io, int64_t at, Line dx) { io.stream(n.dx, at, dx); });
      return end_of_stream();
    }
  all([&](const auto& io, int64_t at, Line dx) { io.store(n.dx, at, dx); });
}

// f.template operator()<cut, more>()
template <class F>
void visit_forms(const NormalizedBatchBackward& n, const F& f) {
  const bool cut = n.low > -math::infinity || n.high < math::infinity, more = n.dy2 || n.y || n.daddend;
  if (cut) return more ? f.template operator()<true, true>() : f.template operator()<true, false>();
  more ? f.template operator()<false, true>() : f.template operator()<false, false>();
}

template <class E>
constexpr BatchNormalizations loops = {
    moments<E>,
    apply<E>,
    [](const NormalizedBatchBackward& n, float* partial, double* plain, double* along) {
      visit_forms(n, [&]<bool cut, bool more>() { sums<E, cut, more>(n, partial, plain, along); });
    },
    [](const NormalizedBatchBackward& n) { visit_forms(n, [&]<bool cut, bool more>() { apply_backward<E, cut, more>(n); }); },
};

}  // namespace

const BatchNormalizations batch_normalizations[] = {loops<Plain<float>>, loops<Bfloat16>, loops<RoundedBfloat16>};

}  // namespace tandem::vector::TANDEM_ISA
