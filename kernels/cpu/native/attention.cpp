// AttentionTraining and AttentionBackward: blocks of queries meet blocks of keys, whose scores stay in the cache. Source: Dao, Fu,
// Ermon, Rudra, Ré, "FlashAttention", 2022. What lies in 16 bits is widened as blocks are packed, and rounded where it is stored.
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "graph/half.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {
namespace {

constexpr std::int64_t lanes = 16;
std::int64_t padded(std::int64_t n) { return (n + lanes - 1) / lanes * lanes; }

// Rows in blocks of a size; the last one has what is left over where that is less than half a block.
struct Blocks {
  std::int64_t n, size, count = std::max<std::int64_t>(1, (n + size / 2) / size);
  std::int64_t begin(std::int64_t block) const { return block * size; }
  std::int64_t length(std::int64_t block) const { return (block + 1 < count ? size : n - begin(block)); }
  std::int64_t longest() const { return padded(std::min(n, size + size / 2)); }
};
Blocks query_blocks(std::int64_t n) { return {n, 64}; }
Blocks forward_blocks(std::int64_t n) { return {n, 128}; }   // of keys
Blocks backward_blocks(std::int64_t n) { return {n, 64}; }

// Where rows of an operand [B,H,S,D] begin; the numbers of a row lie side by side.
struct Rows {
  std::array<std::int64_t, 3> stride{};
  std::int64_t width = 0;
  explicit Rows(const Operand& o) : width(o.shape[3]) {
    for (const PhysicalDim& d : physical_dims(o.shape, o.layout))
      if (d.axis < 3) stride[static_cast<std::size_t>(d.axis)] = d.stride;
  }
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t s) const { return b * stride[0] + h * stride[1] + s * stride[2]; }
};

// The request's own layout where rows lie whole, else the one that projections write: heads behind tokens.
Operand in_rows(const Operand& o, const std::string& otherwise) {
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
  std::size_t mask_at;                    // the operand; random numbers stand behind it
  bool boolean = false;
  std::array<std::int64_t, 3> mask{};     // strides of [B,H,S]; 0 where it is repeated

  Problem(const KernelRequest& r, std::size_t masked_by)
      : B(r.inputs[0].shape[0]), H(r.inputs[0].shape[1]), S(r.inputs[0].shape[2]), D(r.inputs[0].shape[3]), T(r.inputs[1].shape[2]), V(r.inputs[2].shape[3]),
        shared(H / std::max<std::int64_t>(1, r.inputs[1].shape[1])), scale(static_cast<double>(r.attributes->real("scale"))),
        fill(static_cast<double>(r.attributes->real("fill", -std::numeric_limits<float>::infinity()))), ratio(static_cast<double>(r.attributes->real("ratio", 0))),
        causal(r.attributes->integer("causal", 0) != 0), offset(r.attributes->integer("offset", 0)), guarded(r.attributes->integer("guarded", 0)),
        layer(static_cast<std::uint32_t>(r.attributes->integer("layer", 0))), mask_at(masked_by) {
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

// visit_stored(dtype, [&]<class Stored, class T>() { ... }): as memory holds it, and as it is computed with.
template <class F>
bool visit_stored(DType dtype, F&& f) {
  if (dtype == DType::float32) return f.template operator()<float, float>(), true;
  if (dtype == DType::float64) return f.template operator()<double, double>(), true;
  if (dtype == DType::bfloat16) return f.template operator()<BFloat16, float>(), true;
  return false;
}

template <class Stored, class T>
void widen(const vector::Table& table, T* to, const Stored* from, std::int64_t n) {
  if constexpr (std::is_same_v<Stored, T>)
    std::copy_n(from, n, to);
  else
    table.widen_bfloat16(to, from, nullptr, nullptr, n, nullptr);
}
template <class Stored, class T>
void narrow(const vector::Table& table, Stored* to, const T* from, std::int64_t n) {
  if constexpr (std::is_same_v<Stored, T>)
    std::copy_n(from, n, to);
  else
    table.narrow_bfloat16(to, from, nullptr, nullptr, n, nullptr);
}

// Rows of `width` one behind the other.
template <class Stored, class T>
void pack(const vector::Table& table, T* to, const Stored* from, std::int64_t stride, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) widen(table, to + r * width, from + r * stride, width);
}
// Rows as columns: to[d·columns + r] = from[r·stride + d].
template <class Stored, class T>
void turn(const vector::Table& table, T* to, const Stored* from, std::int64_t stride, std::int64_t rows, std::int64_t width, std::int64_t columns) {
  if constexpr (std::is_same_v<T, float>)
    table.products->pack({.from = from, .narrow = !std::is_same_v<Stored, T>, .row = stride, .step = 1, .rows = rows, .width = columns, .inner = width, .to = to});
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
void product(const vector::Table& table, std::int64_t rows, std::int64_t columns, std::int64_t inner, Block<const T> a, Block<const T> b, Block<T> c, bool add) {
  if constexpr (std::is_same_v<T, float>) {
    table.products->block({.a = a.data, .b = b.data, .c = c.data, .rows = rows, .columns = columns, .inner = inner, .a_row = a.row, .a_step = a.step, .b_step = b.row, .c_row = c.row, .accumulate = add});
  } else {
    for (std::int64_t i = 0; i < rows; ++i) {
      T* const out = c.data + i * c.row;
      if (!add) std::fill_n(out, columns, T(0));
      for (std::int64_t k = 0; k < inner; ++k)
        for (std::int64_t j = 0; j < columns; ++j) out[j] += a.data[i * a.row + k * a.step] * b.data[k * b.row + j];
    }
  }
}

template <class Stored, class T>
void unpack(const vector::Table& table, Stored* to, std::int64_t stride, const T* from, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) narrow(table, to + r * stride, from + r * width, width);
}

// Pieces of a thread's workspace, one behind the other, each on a cache line.
class Pieces {
 public:
  explicit Pieces(std::byte* at) : at_(at) {}
  template <class T>
  T* take(std::int64_t n) {
    T* const piece = reinterpret_cast<T*>(at_ + bytes_);
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
    state_ = {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ p.layer}, {static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)}};
    first_ = random[2] * p.H * p.S * p.T;
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
      table_.philox_run(words_, first_ + ((b * p_.H + h) * p_.S + i) * p_.T + j, r.width, state_);
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

// What a thread of the forward kernel works in.
template <class T>
struct Forward {
  T *keys, *values, *query, *scores, *sum, *maximum, *total;
  std::uint32_t* words;
  std::int64_t bytes;
  Forward(const Problem& p, std::byte* at) {
    Pieces pieces(at);
    const std::int64_t queries = query_blocks(p.S).longest(), keys_at_once = forward_blocks(p.T).longest();
    keys = pieces.take<T>((p.T + lanes) * p.D);  // by blocks, turned
    values = pieces.take<T>(p.T * p.V);
    query = pieces.take<T>(queries * p.D);
    scores = pieces.take<T>(queries * keys_at_once);
    sum = pieces.take<T>(queries * p.V);
    maximum = pieces.take<T>(queries);
    total = pieces.take<T>(queries);
    words = pieces.take<std::uint32_t>(keys_at_once);
    bytes = pieces.bytes();
  }
};

template <class Stored, class T>
class AttentionForward {
 public:
  AttentionForward(const Problem& p, const KernelDescription& d, int parts)
      : p_(p), q_(d.inputs[0]), k_(d.inputs[1]), v_(d.inputs[2]), y_(d.outputs[0]), parts_(parts), table_(vector_table()) {}

  void operator()(const Memory& m) const {
    const std::int64_t blocks = query_blocks(p_.S).count, tasks = p_.B * p_.H * blocks, size = Forward<T>(p_, nullptr).bytes;
    parallel(parts_, [&](int part) {
      const Forward<T> w(p_, m.workspace + part * size);
      const Scores<T> scores(p_, m, table_, w.words);
      std::int64_t packed = -1;  // the head whose keys are there
      const Range range = part_of(tasks, part, parts_);
      for (std::int64_t task = range.begin; task < range.end; ++task) {
        const std::int64_t b = task / blocks / p_.H, h = task / blocks % p_.H, head = b * p_.key_heads() + h / p_.shared;
        if (head != packed) pack_head(m, w, b, h / p_.shared);
        packed = head;
        attend(m, w, scores, b, h, task % blocks);
      }
    });
  }

 private:
  void pack_head(const Memory& m, const Forward<T>& w, std::int64_t b, std::int64_t h) const {
    const Blocks blocks = forward_blocks(p_.T);
    for (std::int64_t block = 0; block < blocks.count; ++block) {
      const std::int64_t j = blocks.begin(block), count = blocks.length(block);
      turn(table_, w.keys + j * p_.D, m.in<Stored>(1) + k_.at(b, h, j), k_.stride[2], count, p_.D, padded(count));
    }
    pack(table_, w.values, m.in<Stored>(2) + v_.at(b, h, 0), v_.stride[2], p_.T, p_.V);
  }

  void attend(const Memory& m, const Forward<T>& w, const Scores<T>& scores, std::int64_t b, std::int64_t h, std::int64_t of_queries) const {
    const auto& f = *table_.of<T>().attending;
    const Blocks blocks = forward_blocks(p_.T);
    const std::int64_t first = query_blocks(p_.S).begin(of_queries), rows = query_blocks(p_.S).length(of_queries);
    pack(table_, w.query, m.in<Stored>(0) + q_.at(b, h, first), q_.stride[2], rows, p_.D);
    std::fill_n(w.maximum, rows, -std::numeric_limits<T>::infinity());
    std::fill_n(w.total, rows, T(0));
    for (std::int64_t block = 0; block < blocks.count; ++block) {
      const std::int64_t j = blocks.begin(block), count = blocks.length(block), step = padded(count);
      if (j > 0 && j >= p_.reach(first + rows - 1)) break;
      product<T>(table_, rows, count, p_.D, {w.query, p_.D}, {w.keys + j * p_.D, step}, {w.scores, step}, false);
      for (std::int64_t i = 0; i < rows; ++i) {
        const T before = f.attend(scores.row(w.scores + i * step, b, h, first + i, j, count), w.maximum + i, w.total + i);
        if (j > 0 && before != T(1))
          for (std::int64_t c = 0; c < p_.V; ++c) w.sum[i * p_.V + c] *= before;
      }
      product<T>(table_, rows, p_.V, count, {w.scores, step}, {w.values + j * p_.V, p_.V}, {w.sum, p_.V}, j > 0);
    }
    finish(m, w, b, h, first, rows);
  }

  // y = sum / total, and log_sum: NaN in a row that reaches no key, or zeros and ∞ where it is guarded.
  void finish(const Memory& m, const Forward<T>& w, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t rows) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      const T total = w.total[i];
      const bool zeros = (p_.guarded > 0 && total == T(0)) || (p_.guarded > 1 && std::isnan(total));
      T* const row = w.sum + i * p_.V;
      for (std::int64_t c = 0; c < p_.V; ++c) row[c] = zeros ? T(0) : row[c] / total;
      narrow(table_, m.out<Stored>(0) + y_.at(b, h, first + i), row, p_.V);
      if (m.outputs.size() < 2 || !m.outputs[1]) continue;
      const T none = std::numeric_limits<T>::quiet_NaN();
      m.out<T>(1)[(b * p_.H + h) * p_.S + first + i] = zeros ? std::numeric_limits<T>::infinity() : total == T(0) ? none : w.maximum[i] + std::log(total);
    }
  }

  Problem p_;
  Rows q_, k_, v_, y_;
  int parts_;
  const vector::Table& table_;
};

// What a thread of the backward kernel works in.
template <class T>
struct Backward {
  T *query, *dy, *delta, *keys, *turned_keys, *turned_values, *scores, *gradients, *dq, *dk, *dv;
  std::uint32_t* words;
  std::int64_t bytes;
  Backward(const Problem& p, std::int64_t chunks, std::byte* at) {
    Pieces pieces(at);
    const std::int64_t queries = query_blocks(p.S).longest(), backward_keys = backward_blocks(p.T).longest();
    query = pieces.take<T>(p.S * p.D);
    dy = pieces.take<T>(p.S * p.V);
    delta = pieces.take<T>(p.S);
    keys = pieces.take<T>(backward_keys * p.D);
    turned_keys = pieces.take<T>(backward_keys * p.D);
    turned_values = pieces.take<T>(backward_keys * p.V);
    scores = pieces.take<T>(queries * backward_keys);
    gradients = pieces.take<T>(queries * backward_keys);
    dq = pieces.take<T>(chunks > 1 ? 0 : p.shared * p.S * p.D);
    dk = pieces.take<T>(backward_keys * p.D);
    dv = pieces.take<T>(backward_keys * p.V);
    words = pieces.take<std::uint32_t>(backward_keys);
    bytes = pieces.bytes();
  }
};

// Into how many runs of blocks the keys of a head are cut, each a task of its own: by shapes alone, as it tells in what order
// gradients of queries are summed.
std::int64_t chunks_of(const Problem& p) {
  constexpr std::int64_t enough = 16;  // tasks
  const std::int64_t heads = std::max<std::int64_t>(1, p.B * p.key_heads());
  return std::clamp<std::int64_t>((enough + heads - 1) / heads, 1, backward_blocks(p.T).count);
}
std::int64_t partial_elements(const Problem& p, std::int64_t chunks) { return chunks > 1 ? chunks * p.B * p.H * p.S * p.D : 0; }

template <class Stored, class T>
class AttentionBackward {
 public:
  AttentionBackward(const Problem& p, const KernelDescription& d, int parts)
      : p_(p), q_(d.inputs[0]), k_(d.inputs[1]), v_(d.inputs[2]), y_(d.inputs[3]), dy_(d.inputs[5]), dq_(d.outputs[0]), dk_(d.outputs[1]), dv_(d.outputs[2]), chunks_(chunks_of(p)), parts_(parts),
        table_(vector_table()) {}

  void operator()(const Memory& m) const {
    const std::int64_t tasks = p_.B * p_.key_heads() * chunks_, size = Backward<T>(p_, chunks_, nullptr).bytes;
    T* const partial = reinterpret_cast<T*>(m.workspace + parts_ * size);
    parallel(parts_, [&](int part) {
      const Backward<T> w(p_, chunks_, m.workspace + part * size);
      const Scores<T> scores(p_, m, table_, w.words);
      const Range range = part_of(tasks, part, parts_);
      for (std::int64_t task = range.begin; task < range.end; ++task)
        run_chunk(m, w, scores, partial, task / chunks_ / p_.key_heads(), task / chunks_ % p_.key_heads(), task % chunks_);
    });
    if (chunks_ > 1) sum_partial(m, partial);
  }

 private:
  void run_chunk(const Memory& m, const Backward<T>& w, const Scores<T>& scores, T* partial, std::int64_t b, std::int64_t head, std::int64_t chunk) const {
    const Blocks blocks = backward_blocks(p_.T), rows = query_blocks(p_.S);
    const std::int64_t d = p_.D, first = blocks.count * chunk / chunks_, last = blocks.count * (chunk + 1) / chunks_;
    T* const dq = chunks_ > 1 ? partial + ((chunk * p_.B + b) * p_.H + head * p_.shared) * p_.S * d : w.dq;
    std::fill_n(dq, p_.shared * p_.S * d, T(0));
    std::int64_t packed = -1;
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t j = blocks.begin(block), count = blocks.length(block);
      pack(table_, w.keys, m.in<Stored>(1) + k_.at(b, head, j), k_.stride[2], count, p_.D);
      turn(table_, w.turned_keys, m.in<Stored>(1) + k_.at(b, head, j), k_.stride[2], count, p_.D, padded(count));
      turn(table_, w.turned_values, m.in<Stored>(2) + v_.at(b, head, j), v_.stride[2], count, p_.V, padded(count));
      std::fill_n(w.dk, count * d, T(0));
      std::fill_n(w.dv, count * p_.V, T(0));
      for (std::int64_t s = 0; s < p_.shared; ++s) {
        const std::int64_t h = head * p_.shared + s;
        if (h != packed) pack_queries(m, w, b, h);
        packed = h;
        for (std::int64_t i = 0; i < rows.count; ++i) meet(m, w, scores, dq + s * p_.S * d, b, h, rows.begin(i), rows.length(i), j, count);
      }
      unpack(table_, m.out<Stored>(1) + dk_.at(b, head, j), dk_.stride[2], w.dk, count, p_.D);
      unpack(table_, m.out<Stored>(2) + dv_.at(b, head, j), dv_.stride[2], w.dv, count, p_.V);
    }
    if (chunks_ == 1)
      for (std::int64_t s = 0; s < p_.shared; ++s)
        unpack(table_, m.out<Stored>(0) + dq_.at(b, head * p_.shared + s, 0), dq_.stride[2], dq + s * p_.S * d, p_.S, p_.D);
  }

  // Queries and what comes back to them, with delta = Σ dy·y.
  void pack_queries(const Memory& m, const Backward<T>& w, std::int64_t b, std::int64_t h) const {
    const std::int64_t v = p_.V;
    pack(table_, w.query, m.in<Stored>(0) + q_.at(b, h, 0), q_.stride[2], p_.S, p_.D);
    pack(table_, w.dy, m.in<Stored>(5) + dy_.at(b, h, 0), dy_.stride[2], p_.S, p_.V);
    for (std::int64_t i = 0; i < p_.S; ++i) {
      const Stored* const y = m.in<Stored>(3) + y_.at(b, h, i);
      T sums[4] = {};
      for (std::int64_t c = 0; c < p_.V; ++c) {
        if constexpr (std::is_same_v<Stored, T>)
          sums[c % 4] += y[c] * w.dy[i * v + c];
        else
          sums[c % 4] += to_float(y[c]) * w.dy[i * v + c];
      }
      w.delta[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  }

  // A block of queries and one of keys: what each gives the gradients of the other.
  void meet(const Memory& m, const Backward<T>& w, const Scores<T>& scores, T* dq, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t rows, std::int64_t j, std::int64_t count) const {
    const auto& f = *table_.of<T>().attending;
    const std::int64_t step = padded(count), d = p_.D, v = p_.V;
    if (p_.reach(first + rows - 1) <= j) return;
    const T *const query = w.query + first * d, *const dy = w.dy + first * v;
    product<T>(table_, rows, count, d, {query, d}, {w.turned_keys, step}, {w.scores, step}, false);
    product<T>(table_, rows, count, v, {dy, v}, {w.turned_values, step}, {w.gradients, step}, false);
    const T* const log_sum = m.in<T>(4) + (b * p_.H + h) * p_.S + first;
    for (std::int64_t i = 0; i < rows; ++i)
      f.attend_backward(scores.row(w.scores + i * step, b, h, first + i, j, count), w.gradients + i * step, log_sum[i], w.delta[first + i]);
    product<T>(table_, count, v, rows, {w.scores, 1, step}, {dy, v}, {w.dv, v}, true);
    product<T>(table_, count, d, rows, {w.gradients, 1, step}, {query, d}, {w.dk, d}, true);
    product<T>(table_, rows, d, count, {w.gradients, step}, {w.keys, d}, {dq + first * d, d}, true);
  }

  // Chunk after chunk.
  void sum_partial(const Memory& m, T* partial) const {
    const std::int64_t d = p_.D, heads = p_.B * p_.H, whole = heads * p_.S * d;
    parallel(parts_, [&](int part) {
      const Range range = part_of(heads, part, parts_);
      for (std::int64_t head = range.begin; head < range.end; ++head) {
        T* const sum = partial + head * p_.S * d;
        for (std::int64_t c = 1; c < chunks_; ++c)
          for (std::int64_t i = 0; i < p_.S * d; ++i) sum[i] += sum[c * whole + i];
        unpack(table_, m.out<Stored>(0) + dq_.at(head / p_.H, head % p_.H, 0), dq_.stride[2], sum, p_.S, p_.D);
      }
    });
  }

  Problem p_;
  Rows q_, k_, v_, y_, dy_, dq_, dk_, dv_;
  std::int64_t chunks_;
  int parts_;
  const vector::Table& table_;
};

// [B,H,S,D] with heads behind tokens in memory.
constexpr const char* as_projected = "acbd";

// Row-major, but for q, k, v and what is of their shape; none where there is nothing to compute.
std::optional<KernelDescription> described(const KernelRequest& request, std::string kernel) {
  KernelDescription d = row_major_description(std::move(kernel), request, 0.5);
  for (int i = 0; i < 3; ++i) {
    if (request.inputs[static_cast<std::size_t>(i)].shape.elements() == 0) return std::nullopt;
    d.inputs[static_cast<std::size_t>(i)] = in_rows(request.inputs[static_cast<std::size_t>(i)], as_projected);
  }
  return d;
}
// A result of this operand's shape lies as it does, but with heads behind tokens where it is row-major: for what reads it.
Layout like(const Operand& o) { return o.layout.is_row_major() ? Layout(as_projected) : o.layout; }
Operand result(const Operand& wanted, const Layout& layout) { return in_rows(wanted, layout.tag()); }

}  // namespace

Descriptions describe_attention(const KernelRequest& request) {
  std::optional<KernelDescription> d = described(request, "native.attention");
  if (!d) return {};
  d->outputs[0] = result(request.outputs[0], like(d->inputs[0]));
  const Problem p(request, 3);
  const int parts = static_cast<int>(std::min<std::int64_t>(threads_for(p.B * p.H * p.S * p.T, request.options.threads, 4096), p.B * p.H * query_blocks(p.S).count));
  visit_stored(request.inputs[0].dtype, [&]<class Stored, class T>() {
    d->workspace = parts * Forward<T>(p, nullptr).bytes;
    d->make = make_kernel(AttentionForward<Stored, T>(p, *d, parts));
  });
  return d->make ? Descriptions{*d} : Descriptions{};
}

Descriptions describe_attention_backward(const KernelRequest& request) {
  std::optional<KernelDescription> d = described(request, "native.attention_backward");
  if (!d) return {};
  for (const std::size_t i : {3, 5}) d->inputs[i] = in_rows(request.inputs[i], like(d->inputs[0]).tag());
  for (std::size_t i = 0; i < 3; ++i) d->outputs[i] = result(request.outputs[i], like(d->inputs[i]));
  const Problem p(request, 6);
  const std::int64_t chunks = chunks_of(p);
  const int parts = static_cast<int>(std::min<std::int64_t>(threads_for(p.B * p.H * p.S * p.T, request.options.threads, 2048), p.B * p.key_heads() * chunks));
  visit_stored(request.inputs[0].dtype, [&]<class Stored, class T>() {
    d->workspace = parts * Backward<T>(p, chunks, nullptr).bytes + partial_elements(p, chunks) * static_cast<std::int64_t>(sizeof(T));
    d->make = make_kernel(AttentionBackward<Stored, T>(p, *d, parts));
  });
  return d->make ? Descriptions{*d} : Descriptions{};
}

}  // namespace tandem::native
