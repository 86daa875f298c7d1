// AttentionTraining: blocks of queries meet blocks of keys, whose scores stay in the cache. Source: Dao, Fu, Ermon, Rudra, Ré,
// "FlashAttention", 2022. What lies in 16 bits is widened as blocks are packed, and rounded where it is stored.
#include <cmath>

#include "kernels/cpu/native/attention.h"

namespace tandem::native {
namespace {

using namespace attention;

// What a thread of the forward kernel works in.
template <class T, bool dots>
struct Forward {
  using Packed = std::conditional_t<dots, Pair, T>;
  Packed *keys, *values, *query;
  T *scores, *sum, *maximum, *total;
  Packed* probabilities;
  std::uint32_t* words;
  std::int64_t bytes;
  Forward(const Problem& p, std::byte* at) {
    Pieces pieces(at);
    const std::int64_t queries = query_blocks(p.S).longest(), keys_at_once = forward_blocks(p.T).longest();
    constexpr std::int64_t together = dots ? 2 : 1;
    keys = pieces.take<Packed>((p.T + lanes) * p.D / together);  // by blocks, turned
    values = pieces.take<Packed>((p.T + 1) / together * p.V);
    query = pieces.take<Packed>(queries * p.D / together);
    scores = pieces.take<T>(queries * keys_at_once);
    sum = pieces.take<T>(queries * p.V);
    maximum = pieces.take<T>(queries);
    total = pieces.take<T>(queries);
    probabilities = pieces.take<Packed>(dots ? queries * keys_at_once / 2 : 0);
    words = pieces.take<std::uint32_t>(keys_at_once);
    bytes = pieces.bytes();
  }
};

template <class Stored, class T, bool dots>
class AttentionForward {
  using Work = Forward<T, dots>;

 public:
  AttentionForward(const Problem& p, const KernelDescription& d, int parts)
      : p_(p), q_(d.inputs[0]), k_(d.inputs[1]), v_(d.inputs[2]), y_(d.outputs[0]), parts_(parts), table_(vector_table()) {}

  void operator()(const Memory& m) const {
    const std::int64_t blocks = query_blocks(p_.S).count, tasks = p_.B * p_.H * blocks, size = Work(p_, nullptr).bytes;
    parallel(parts_, [&](int part) {
      const Work w(p_, m.workspace + part * size);
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
  void pack_head(const Memory& m, const Work& w, std::int64_t b, std::int64_t h) const {
    const Blocks blocks = forward_blocks(p_.T);
    for (std::int64_t block = 0; block < blocks.count; ++block) {
      const std::int64_t j = blocks.begin(block), count = blocks.length(block);
      turn(table_, w.keys + j * p_.D / together, m.in<Stored>(1) + k_.at(b, h, j), k_.stride[2], count, p_.D, padded(count));
    }
    const Stored* const values = m.in<Stored>(2) + v_.at(b, h, 0);
    if constexpr (dots)
      pack_pairs(table_, w.values, values, v_.stride[2], p_.T, p_.V);
    else
      pack(table_, w.values, values, v_.stride[2], p_.T, p_.V);
  }

  void attend(const Memory& m, const Work& w, const Scores<T>& scores, std::int64_t b, std::int64_t h, std::int64_t of_queries) const {
    const auto& f = *table_.of<T>().attending;
    const Blocks blocks = forward_blocks(p_.T);
    const std::int64_t first = query_blocks(p_.S).begin(of_queries), rows = query_blocks(p_.S).length(of_queries);
    const Stored* const query = m.in<Stored>(0) + q_.at(b, h, first);
    if constexpr (dots)
      pack(w.query, query, q_.stride[2], rows, p_.D);
    else
      pack(table_, w.query, query, q_.stride[2], rows, p_.D);
    std::fill_n(w.maximum, rows, -std::numeric_limits<T>::infinity());
    std::fill_n(w.total, rows, T(0));
    for (std::int64_t block = 0; block < blocks.count; ++block) {
      const std::int64_t j = blocks.begin(block), count = blocks.length(block), step = padded(count);
      if (j > 0 && j >= p_.reach(first + rows - 1)) break;
      if constexpr (dots)
        table_.dots->block({w.query, w.keys + j * p_.D / 2, w.scores, rows, count, p_.D / 2, p_.D / 2, 1, step, step, false});
      else
        product<T>(table_, rows, count, p_.D, {w.query, p_.D}, {w.keys + j * p_.D, step}, {w.scores, step}, false);
      for (std::int64_t i = 0; i < rows; ++i) {
        const T before = f.attend(scores.row(w.scores + i * step, b, h, first + i, j, count), w.maximum + i, w.total + i);
        if (j > 0 && before != T(1)) rescale(w.sum + i * p_.V, before);
      }
      if constexpr (dots) {
        table_.dots->narrow(reinterpret_cast<std::uint16_t*>(w.probabilities), w.scores, rows * step);
        table_.dots->block({w.probabilities, w.values + j / 2 * p_.V, w.sum, rows, p_.V, halves(count), step / 2, 1, p_.V, p_.V, j > 0});
      } else {
        product<T>(table_, rows, p_.V, count, {w.scores, step}, {w.values + j * p_.V, p_.V}, {w.sum, p_.V}, j > 0);
      }
    }
    finish(m, w, b, h, first, rows);
  }

  // y = sum / total, and log_sum: NaN in a row that reaches no key, or zeros and ∞ where it is guarded; and what log_sum
  // lost by rounding.
  void finish(const Memory& m, const Work& w, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t rows) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      const T total = w.total[i];
      const bool zeros = (p_.guarded > 0 && total == T(0)) || (p_.guarded > 1 && std::isnan(total));
      T* const row = w.sum + i * p_.V;
      if (zeros)
        std::fill_n(row, p_.V, T(0));
      else
        rescale(row, 1 / total);
      narrow(table_, m.out<Stored>(0) + y_.at(b, h, first + i), row, p_.V);
      if (m.outputs.size() < 2 || !m.outputs[1]) continue;
      const T none = std::numeric_limits<T>::quiet_NaN(), log_sum = w.maximum[i] + std::log(total);
      const std::int64_t at = (b * p_.H + h) * p_.S + first + i;
      m.out<T>(1)[at] = zeros ? std::numeric_limits<T>::infinity() : total == T(0) ? none : log_sum;
      if (m.outputs.size() > 2) m.out<T>(2)[at] = zeros || total == T(0) ? T(1) : std::exp(log_sum - w.maximum[i]) / total;
    }
  }

  static constexpr std::int64_t together = dots ? 2 : 1;
  void rescale(T* row, T factor) const { table_.of<T>().reductions->scale(row, row, p_.V, factor); }

  Problem p_;
  Rows q_, k_, v_, y_;
  int parts_;
  const vector::Table& table_;
};

}  // namespace

Descriptions describe_attention(const KernelRequest& request) {
  std::optional<KernelDescription> d = describe_both(request, "native.attention");
  if (!d) return {};
  d->outputs[0] = result(request.outputs[0], like(d->inputs[0]));
  const Problem p(request, 3);
  const int parts = static_cast<int>(
      std::min<std::int64_t>(threads_for(p.B * p.H * p.S * p.T, request.options.threads, 4096), p.B * p.H * query_blocks(p.S).count));
  return in_both_ways(*d, {&d->inputs[0], &d->inputs[1], &d->inputs[2]}, [&](KernelDescription way, bool dots) {
    visit_stored(request.inputs[0].dtype, [&]<class Stored, class T>() {
      const auto make = [&]<bool pairs>() {
        way.workspace = parts * Forward<T, pairs>(p, nullptr).bytes;
        way.make = make_kernel(AttentionForward<Stored, T, pairs>(p, way, parts));
      };
      if constexpr (std::is_same_v<Stored, BFloat16>)
        if (dots) return make.template operator()<true>();
      make.template operator()<false>();
    });
    return way;
  });
}

}  // namespace tandem::native
