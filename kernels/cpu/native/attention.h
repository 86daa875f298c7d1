// What attention's two kernels share: blocks, operands where they lie, packing, products of blocks, and rows of scores.
#pragma once
#include <array>
#include <limits>
#include <optional>

#include "kernels/cpu/native/native.h"
#include "kernels/cpu/native/stored.h"

namespace tandem::native::attention {

inline constexpr std::int64_t lanes = 16;
inline std::int64_t padded(std::int64_t n) { return (n + lanes - 1) / lanes * lanes; }

// Rows in blocks of a size; the last one has what is left over where that is less than half a block.
struct Blocks {
  std::int64_t n, size, count = std::max<std::int64_t>(1, (n + size / 2) / size);
  std::int64_t begin(std::int64_t block) const { return block * size; }
  std::int64_t length(std::int64_t block) const { return (block + 1 < count ? size : n - begin(block)); }
  std::int64_t longest() const { return padded(std::min(n, size + size / 2)); }
};
inline Blocks query_blocks(std::int64_t n) { return {n, 64}; }
inline Blocks forward_blocks(std::int64_t n) { return {n, 128}; }   // of keys
inline Blocks backward_blocks(std::int64_t n) { return {n, 64}; }

// Where rows of an operand [B,H,S,D] begin; the numbers of a row lie side by side.
struct Rows {
  std::array<std::int64_t, 3> stride{};
  std::int64_t width = 0;
  explicit Rows(const Operand& o) : width(o.shape[3]) {
    for (const PhysicalDim& d : physical_dims(o.shape, o.layout))
      if (d.axis < 3) stride[static_cast<std::size_t>(d.axis)] = d.stride;
  }
  // All rows can be read two numbers at a time.
  bool even() const { return (width | stride[0] | stride[1] | stride[2]) % 2 == 0; }
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t s) const { return b * stride[0] + h * stride[1] + s * stride[2]; }
};

// The request's own layout where rows lie whole, else the one that projections write: heads behind tokens.
inline Operand in_rows(const Operand& o, const std::string& otherwise) {
  const bool whole = !o.layout.any() && o.layout.plain() && o.layout.tag().back() == 'd';
  return with_layout(o, whole ? o.layout : Layout(otherwise));
}

// What both directions know of a request.
struct Problem {
  std::int64_t B, H, S, D, T, V, shared;  // `shared`: query heads of a key head
  double scale, fill, ratio;
  bool causal;
  std::int64_t offset, guarded;
  std::uint32_t layer;
  std::int64_t inner;                     // rows of B that are one sample
  std::int64_t heads, head;               // of a part of the heads: all there are, and its first; random numbers are counted by them
  std::size_t mask_at;                    // the operand; random numbers stand behind it
  bool boolean = false;
  std::array<std::int64_t, 3> mask{};     // strides of [B,H,S]; 0 where it is repeated

  Problem(const KernelRequest& r, std::size_t masked_by)
      : B(r.inputs[0].shape[0]),
        H(r.inputs[0].shape[1]),
        S(r.inputs[0].shape[2]),
        D(r.inputs[0].shape[3]),
        T(r.inputs[1].shape[2]),
        V(r.inputs[2].shape[3]),
        shared(H / std::max<std::int64_t>(1, r.inputs[1].shape[1])),
        scale(static_cast<double>(r.attributes->real("scale"))),
        fill(static_cast<double>(r.attributes->real("fill", -std::numeric_limits<float>::infinity()))),
        ratio(static_cast<double>(r.attributes->real("ratio", 0))),
        causal(r.attributes->integer("causal", 0) != 0),
        offset(r.attributes->integer("offset", 0)),
        guarded(r.attributes->integer("guarded", 0)),
        layer(static_cast<std::uint32_t>(r.attributes->integer("layer", 0))),
        inner(r.attributes->integer("inner", 1)),
        heads(r.attributes->has("part") ? r.attributes->ints("part")[2] : H),
        head(r.attributes->has("part") ? r.attributes->ints("part")[1] : 0),
        mask_at(masked_by) {
    if (r.inputs.size() <= mask_at || !r.inputs[mask_at].present()) return;
    boolean = r.inputs[mask_at].dtype == DType::boolean;
    const Shape& m = r.inputs[mask_at].shape;
    std::int64_t stride = m[3];
    for (int i = 2; i >= 0; stride *= m[i], --i) mask[static_cast<std::size_t>(i)] = m[i] == 1 ? 0 : stride;
  }
  // Keys that a query reaches.
  std::int64_t reach(std::int64_t query) const { return causal ? std::clamp<std::int64_t>(query + offset + 1, 0, T) : T; }
  std::int64_t key_heads() const { return H / shared; }
};

// Rows of `width` one behind the other.
template <class Stored, class T>
void pack(const vector::Table& table, T* to, const Stored* from, std::int64_t stride, std::int64_t rows, std::int64_t width) {
  if constexpr (std::is_same_v<T, float>)
    table.products->pack({.from = from,
                          .narrow = !std::is_same_v<Stored, T>,
                          .line = 1,
                          .step = stride,
                          .lines = width,
                          .inner = rows,
                          .width = width,
                          .to = to});
  else
    for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from + r * stride, width, to + r * width);
}
// Rows as columns: to[d·columns + r] = from[r·stride + d].
template <class Stored, class T>
void turn(const vector::Table& table, T* to, const Stored* from, std::int64_t stride, std::int64_t rows, std::int64_t width,
          std::int64_t columns) {
  if constexpr (std::is_same_v<T, float>)
    table.products->pack({.from = from,
                          .narrow = !std::is_same_v<Stored, T>,
                          .line = stride,
                          .step = 1,
                          .lines = rows,
                          .inner = width,
                          .width = columns,
                          .to = to});
  else
    for (std::int64_t d = 0; d < width; ++d)
      for (std::int64_t r = 0; r < rows; ++r) to[d * columns + r] = from[r * stride + d];
}

template <class T>
struct Block {
  T* data;
  std::int64_t row, step = 1;
};
// c[rows×columns] = a[rows×inner]·b[inner×columns], + c where `add`.
template <class T>
void product(const vector::Table& table, std::int64_t rows, std::int64_t columns, std::int64_t inner, Block<const T> a, Block<const T> b,
             Block<T> c, bool add) {
  if constexpr (std::is_same_v<T, float>) {
    table.products->block({.a = a.data,
                           .b = b.data,
                           .c = c.data,
                           .rows = rows,
                           .columns = columns,
                           .inner = inner,
                           .a_row = a.row,
                           .a_step = a.step,
                           .b_step = b.row,
                           .c_row = c.row,
                           .bias = nullptr,
                           .accumulate = add,
                           .relu = false,
                           .narrow = false,
                           .ahead = {}});
  } else {
    for (std::int64_t i = 0; i < rows; ++i) {
      T* const out = c.data + i * c.row;
      if (!add) std::fill_n(out, columns, T(0));
      for (std::int64_t k = 0; k < inner; ++k)
        for (std::int64_t j = 0; j < columns; ++j) out[j] += a.data[i * a.row + k * a.step] * b.data[k * b.row + j];
    }
  }
}

// The same of bfloat16 numbers as they are, in pairs (vector.h): rows of width/2, two numbers each; turned; and by pairs of rows, which
// takes (rows + 1)/2 lines of `width`. Even widths and strides.
using Pair = std::uint32_t;
inline void pack(Pair* to, const BFloat16* from, std::int64_t stride, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r)
    std::memcpy(to + r * (width / 2), from + r * stride, static_cast<std::size_t>(width) * sizeof(BFloat16));
}
inline void turn(const vector::Table& table, Pair* to, const BFloat16* from, std::int64_t stride, std::int64_t rows, std::int64_t width,
                 std::int64_t columns) {
  table.products->pack({.from = from,
                        .narrow = false,
                        .line = stride / 2,
                        .step = 1,
                        .lines = rows,
                        .inner = width / 2,
                        .width = columns,
                        .to = reinterpret_cast<float*>(to)});
}
inline void pack_pairs(const vector::Table& table, Pair* to, const BFloat16* from, std::int64_t stride, std::int64_t rows,
                       std::int64_t width) {
  table.dots->pair_lines(to, width, reinterpret_cast<const std::uint16_t*>(from), stride, rows, width);
}
inline std::int64_t halves(std::int64_t n) { return (n + 1) / 2; }

template <class Stored, class T>
void unpack(const vector::Table& table, Stored* to, std::int64_t stride, const T* from, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) narrow(table, to + r * stride, from + r * width, width);
}

// Pieces of a thread's workspace, one behind the other, each on a cache line. Without a workspace they are only counted.
class Pieces {
 public:
  explicit Pieces(std::byte* at) : at_(at) {}
  template <class T>
  T* take(std::int64_t n) {
    T* const piece = at_ ? reinterpret_cast<T*>(at_ + bytes_) : nullptr;
    bytes_ += (n * static_cast<std::int64_t>(sizeof(T)) + 63) / 64 * 64;
    return piece;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* at_;
  std::int64_t bytes_ = 0;
};

// The rows of scores of one head in one sample: masks and random words.
template <class T>
class Scores {
 public:
  Scores(const Problem& p, const Memory& m, const vector::Table& table, std::uint32_t* words) : p_(p), table_(table), words_(words) {
    if (m.inputs.size() > p.mask_at) mask_ = m.inputs[p.mask_at];
    if (m.inputs.size() <= p.mask_at + 1 || !m.inputs[p.mask_at + 1]) return;
    const auto* const random = reinterpret_cast<const std::int64_t*>(m.inputs[p.mask_at + 1]);
    const auto seed = static_cast<std::uint64_t>(random[0]), step = static_cast<std::uint64_t>(random[1]);
    state_ = {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ p.layer},
              {static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)}};
    first_ = (random[2] * p.inner * p.heads + p.head) * p.S * p.T;
    dropped_ = true;
  }
  // Of query i and the keys from j on, `count` of them there.
  vector::ScoreRow<T> row(T* scores, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, std::int64_t count) const {
    vector::ScoreRow<T> r{};
    r.scores = scores;
    r.width = padded(count);
    r.visible = std::clamp<std::int64_t>(p_.reach(i) - j, 0, count);
    r.scale = static_cast<T>(p_.scale);
    r.fill = static_cast<T>(p_.fill);
    if (mask_) {
      const std::int64_t at = b * p_.mask[0] + h * p_.mask[1] + i * p_.mask[2] + j;
      if (p_.boolean)
        r.keep = reinterpret_cast<const std::uint8_t*>(mask_) + at;
      else
        r.bias = reinterpret_cast<const T*>(mask_) + at;
    }
    if (dropped_) {
      table_.philox_run(words_, first_ + ((b * p_.heads + h) * p_.S + i) * p_.T + j, r.width, state_);
      r.words = words_;
      r.threshold = static_cast<std::uint32_t>(std::min(p_.ratio * 0x1p32, 0xffffffffp0));
      r.kept = static_cast<T>(1 / (1 - p_.ratio));
    }
    return r;
  }

 private:
  const Problem& p_;
  const vector::Table& table_;
  std::uint32_t* words_;
  const std::byte* mask_ = nullptr;
  vector::PhiloxState state_{};
  std::int64_t first_ = 0;
  bool dropped_ = false;
};

// [B,H,S,D] with heads behind tokens in memory.
inline constexpr const char* as_projected = "acbd";

// Row-major, but for q, k, v and what is of their shape; none where there is nothing to compute.
inline std::optional<KernelDescription> describe_both(const KernelRequest& request, std::string kernel) {
  KernelDescription d = row_major_description(std::move(kernel), request, 0.5);
  for (int i = 0; i < 3; ++i) {
    if (request.inputs[static_cast<std::size_t>(i)].shape.elements() == 0) return std::nullopt;
    d.inputs[static_cast<std::size_t>(i)] = in_rows(request.inputs[static_cast<std::size_t>(i)], as_projected);
  }
  return d;
}
// Both ways to compute it: in float32, and, of bfloat16, by products of pairs where the processor has them.
template <class Describe>
Descriptions in_both_ways(const KernelDescription& d, std::initializer_list<const Operand*> read, const Describe& describe) {
  Descriptions all{describe(d, false)};
  const auto even = [](const Operand* o) { return Rows(*o).even(); };
  if (!all[0].make || !dot_products() || d.inputs[0].dtype != DType::bfloat16 || !std::all_of(read.begin(), read.end(), even))
    return all[0].make ? all : Descriptions{};
  all.push_back(describe(d, true));
  all[1].kernel += ".dot_products";
  if (dot_products_are_fast()) {
    all[1].efficiency *= 2;
    std::swap(all[0], all[1]);
  }
  return all;
}
// A result of this operand's shape lies as it does, but with heads behind tokens where it is row-major: for what reads it.
inline Layout like(const Operand& o) { return o.layout.is_row_major() ? Layout(as_projected) : o.layout; }
inline Operand result(const Operand& wanted, const Layout& layout) { return in_rows(wanted, layout.tag()); }

}  // namespace tandem::native::attention
