// AttentionBackward: probabilities are computed again, block by block, from the scores and what the forward kernel left of their sums.
#include "kernels/cpu/native/attention.h"

namespace tandem::native {
namespace {

using namespace attention;

// What a thread of the backward kernel works in.
template <class T, bool dots>
struct Backward {
  using Packed = std::conditional_t<dots, Pair, T>;
  Packed *query, *dy, *keys, *turned_keys, *turned_values;
  T *delta, *scores, *gradients, *dq, *dk, *dv;
  Packed *query_pairs, *dy_pairs, *score_pairs, *gradient_pairs, *narrow_gradients;  // with dots
  std::uint32_t* words;
  std::int64_t bytes;
  Backward(const Problem& p, std::int64_t chunks, std::byte* at) {
    Pieces pieces(at);
    const std::int64_t queries = query_blocks(p.S).longest(), backward_keys = backward_blocks(p.T).longest();
    constexpr std::int64_t together = dots ? 2 : 1;
    query = pieces.take<Packed>(p.S * p.D / together);
    dy = pieces.take<Packed>(p.S * p.V / together);
    delta = pieces.take<T>(p.S);
    keys = pieces.take<Packed>(backward_keys * p.D / together);
    turned_keys = pieces.take<Packed>(backward_keys * p.D / together);
    turned_values = pieces.take<Packed>(backward_keys * p.V / together);
    scores = pieces.take<T>(queries * backward_keys);
    gradients = pieces.take<T>(queries * backward_keys);
    dq = pieces.take<T>(chunks > 1 ? 0 : p.shared * p.S * p.D);
    dk = pieces.take<T>(backward_keys * p.D);
    dv = pieces.take<T>(backward_keys * p.V);
    query_pairs = pieces.take<Packed>(dots ? halves(p.S) * p.D : 0);
    dy_pairs = pieces.take<Packed>(dots ? halves(p.S) * p.V : 0);
    for (Packed** pairs : {&score_pairs, &gradient_pairs, &narrow_gradients})
      *pairs = pieces.take<Packed>(dots ? halves(queries) * backward_keys : 0);
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

template <class Stored, class T, bool dots>
class AttentionBackward {
  using Work = Backward<T, dots>;

 public:
  AttentionBackward(const Problem& p, const KernelDescription& d, int parts)
      : p_(p),
        q_(d.inputs[0]),
        k_(d.inputs[1]),
        v_(d.inputs[2]),
        y_(d.inputs[3]),
        dy_(d.inputs[5]),
        dq_(d.outputs[0]),
        dk_(d.outputs[1]),
        dv_(d.outputs[2]),
        chunks_(chunks_of(p)),
        parts_(parts),
        table_(vector_table()) {}

  void operator()(const Memory& m) const {
    const std::int64_t tasks = p_.B * p_.key_heads() * chunks_, size = Work(p_, chunks_, nullptr).bytes;
    T* const partial = reinterpret_cast<T*>(m.workspace + parts_ * size);
    share(parts_, tasks, [&](int part, std::int64_t task) {
      const Work w(p_, chunks_, m.workspace + part * size);
      const Scores<T> scores(p_, m, table_, w.words);
      run_chunk(m, w, scores, partial, task / chunks_ / p_.key_heads(), task / chunks_ % p_.key_heads(), task % chunks_);
    });
    if (chunks_ > 1) sum_partial(m, partial);
  }

 private:
  void run_chunk(const Memory& m, const Work& w, const Scores<T>& scores, T* partial, std::int64_t b, std::int64_t head,
                 std::int64_t chunk) const {
    const Blocks blocks = backward_blocks(p_.T), rows = query_blocks(p_.S);
    const std::int64_t d = p_.D, first = blocks.count * chunk / chunks_, last = blocks.count * (chunk + 1) / chunks_;
    T* const dq = chunks_ > 1 ? partial + ((chunk * p_.B + b) * p_.H + head * p_.shared) * p_.S * d : w.dq;
    std::fill_n(dq, p_.shared * p_.S * d, T(0));
    std::int64_t packed = -1;
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t j = blocks.begin(block), count = blocks.length(block);
      const Stored* const keys = m.in<Stored>(1) + k_.at(b, head, j);
      if constexpr (dots)
        pack_pairs(table_, w.keys, keys, k_.stride[2], count, p_.D);
      else
        pack(table_, w.keys, keys, k_.stride[2], count, p_.D);
      turn(table_, w.turned_keys, keys, k_.stride[2], count, p_.D, padded(count));
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
  void pack_queries(const Memory& m, const Work& w, std::int64_t b, std::int64_t h) const {
    const Stored *const query = m.in<Stored>(0) + q_.at(b, h, 0), *const dy = m.in<Stored>(5) + dy_.at(b, h, 0),
                        *const y = m.in<Stored>(3) + y_.at(b, h, 0);
    if constexpr (dots) {
      pack(w.query, query, q_.stride[2], p_.S, p_.D);
      pack(w.dy, dy, dy_.stride[2], p_.S, p_.V);
      pack_pairs(table_, w.query_pairs, query, q_.stride[2], p_.S, p_.D);
      pack_pairs(table_, w.dy_pairs, dy, dy_.stride[2], p_.S, p_.V);
      table_.dots->inner_products(w.dy, reinterpret_cast<const Pair*>(y), y_.stride[2] / 2, p_.S, p_.V / 2, w.delta);
    } else {
      pack(table_, w.query, query, q_.stride[2], p_.S, p_.D);
      pack(table_, w.dy, dy, dy_.stride[2], p_.S, p_.V);
      table_.of<T>().attending->inner_products(w.dy, y, !std::is_same_v<Stored, T>, y_.stride[2], p_.S, p_.V, w.delta);
    }
  }

  // A block of queries and one of keys: what each gives the gradients of the other.
  void meet(const Memory& m, const Work& w, const Scores<T>& scores, T* dq, std::int64_t b, std::int64_t h, std::int64_t first,
            std::int64_t rows, std::int64_t j, std::int64_t count) const {
    const auto& f = *table_.of<T>().attending;
    const std::int64_t step = padded(count), d = p_.D, v = p_.V;
    if (p_.reach(first + rows - 1) <= j) return;
    constexpr std::int64_t together = dots ? 2 : 1;
    const auto *const query = w.query + first * d / together, *const dy = w.dy + first * v / together;
    if constexpr (dots) {
      table_.dots->block({query, w.turned_keys, w.scores, rows, count, d / 2, d / 2, 1, step, step, false});
      table_.dots->block({dy, w.turned_values, w.gradients, rows, count, v / 2, v / 2, 1, step, step, false});
    } else {
      product<T>(table_, rows, count, d, {query, d}, {w.turned_keys, step}, {w.scores, step}, false);
      product<T>(table_, rows, count, v, {dy, v}, {w.turned_values, step}, {w.gradients, step}, false);
    }
    const T* const log_sum = m.in<T>(4) + (b * p_.H + h) * p_.S + first;
    for (std::int64_t i = 0; i < rows; ++i)
      f.attend_backward(scores.row(w.scores + i * step, b, h, first + i, j, count), w.gradients + i * step, log_sum[i], w.delta[first + i]);
    if constexpr (dots) {
      table_.dots->pair_narrowed(w.score_pairs, step, w.scores, step, rows, step);
      table_.dots->pair_narrowed(w.gradient_pairs, step, w.gradients, step, rows, step);
      table_.dots->narrow(reinterpret_cast<std::uint16_t*>(w.narrow_gradients), w.gradients, rows * step);
      table_.dots->block({w.score_pairs, w.dy_pairs + first / 2 * v, w.dv, count, v, halves(rows), 1, step, v, v, true});
      table_.dots->block({w.gradient_pairs, w.query_pairs + first / 2 * d, w.dk, count, d, halves(rows), 1, step, d, d, true});
      table_.dots->block({w.narrow_gradients, w.keys, dq + first * d, rows, d, halves(count), step / 2, 1, d, d, true});
    } else {
      product<T>(table_, count, v, rows, {w.scores, 1, step}, {dy, v}, {w.dv, v}, true);
      product<T>(table_, count, d, rows, {w.gradients, 1, step}, {query, d}, {w.dk, d}, true);
      product<T>(table_, rows, d, count, {w.gradients, step}, {w.keys, d}, {dq + first * d, d}, true);
    }
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

}  // namespace

Descriptions describe_attention_backward(const KernelRequest& request) {
  std::optional<KernelDescription> d = describe_both(request, "native.attention_backward");
  if (!d) return {};
  for (const std::size_t i : {3, 5}) d->inputs[i] = in_rows(request.inputs[i], like(d->inputs[0]).tag());
  for (std::size_t i = 0; i < 3; ++i) d->outputs[i] = result(request.outputs[i], like(d->inputs[i]));
  const Problem p(request, 6);
  const std::int64_t chunks = chunks_of(p);
  const int parts = static_cast<int>(
      std::min<std::int64_t>(threads_for(p.B * p.H * p.S * p.T, request.options.threads, 2048), p.B * p.key_heads() * chunks));
  return in_both_ways(
      *d, {&d->inputs[0], &d->inputs[1], &d->inputs[2], &d->inputs[3], &d->inputs[5]}, [&](KernelDescription way, bool dots) {
        visit_stored(request.inputs[0].dtype, [&]<class Stored, class T>() {
          const auto make = [&]<bool pairs>() {
            way.workspace =
                parts * Backward<T, pairs>(p, chunks, nullptr).bytes + partial_elements(p, chunks) * static_cast<std::int64_t>(sizeof(T));
            way.make = make_kernel(AttentionBackward<Stored, T, pairs>(p, way, parts));
          };
          if constexpr (std::is_same_v<Stored, BFloat16>)
            if (dots) return make.template operator()<true>();
          make.template operator()<false>();
        });
        return way;
      });
}

}  // namespace tandem::native
