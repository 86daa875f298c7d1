// RecurrentTraining: all steps of an LSTM, GRU or RNN. R is packed once; then each thread takes its samples from the first step to
// the last, or all threads meet in every step, each with units of its own. A step's row of `saved` (vector.h) is where its gates are
// computed; in inference all steps have the same.
#include "kernels/cpu/native/recurrent.h"

namespace tandem::native {
namespace {

using namespace recurrence;

template <class T>
class Recurrent {
 public:
  Recurrent(const Problem& p, bool training) : p_(p), factors_(p, false), training_(training) {
    saved_ = factors_.bytes;
    shared_ = saved_ + (training ? 0 : p.D * p.B * width() * item);
    bytes_ = shared_ + (p.by_steps() ? 2 * p.D * p.B * p.H * item : 0);
  }

  std::int64_t workspace() const { return bytes_; }

  void operator()(const Memory& m) const {
    factors_.pack(m.in<T>(1), m.workspace, p_.parts());
    if (!p_.by_steps())
      return by_shares(p_, [&](const Share& s) {
        begin(m, s);
        for (std::int64_t n = 0; n < p_.T; ++n) {
          sum(m, s, n);
          finish(m, s, n);
        }
      });
    by_shares(p_, [&](const Share& s) { begin(m, s); });
    for (std::int64_t n = 0; n < p_.T; ++n) {
      by_shares(p_, [&](const Share& s) {
        sum(m, s, n);
        if (p_.cell != Cell::gru) finish(m, s, n);
      });
      if (p_.cell == Cell::gru) by_shares(p_, [&](const Share& s) { finish(m, s, n); });  // its last gate needs r∘h of all units
    }
  }

 private:
  static constexpr std::int64_t item = sizeof(T);
  std::int64_t width() const { return p_.slots * p_.H; }
  T* saved(const Memory& m, std::int64_t d, std::int64_t t, std::int64_t b) const {
    if (!training_) return reinterpret_cast<T*>(m.workspace + saved_) + (d * p_.B + b) * width();
    return m.out<T>(p_.lstm() ? 3 : 2) + ((d * p_.T + t) * p_.B + b) * width();
  }
  T* state(const Memory& m, int output, std::int64_t d, std::int64_t b) const { return state_of<T>(p_, m, output, d, b); }
  // h before step n, whose units other threads read while this one writes those behind it: two of them, by turns.
  T* before(const Memory& m, std::int64_t d, std::int64_t b, std::int64_t n) const {
    if (!p_.by_steps()) return state(m, 1, d, b);
    return reinterpret_cast<T*>(m.workspace + shared_) + ((n % 2 * p_.D + d) * p_.B + b) * p_.H;
  }
  void show(const Memory& m, const Share& s, std::int64_t n) const {
    if (!p_.by_steps()) return;
    for (std::int64_t b = s.rows.begin; b < s.rows.end; ++b)
      std::copy(state(m, 1, s.d, b) + s.units.begin, state(m, 1, s.d, b) + s.units.end, before(m, s.d, b, n) + s.units.begin);
  }
  const std::int32_t* lengths(const Memory& m) const { return given(m, 4) ? m.in<std::int32_t>(4) : nullptr; }
  void clear(const Share& s, T* saved, std::int64_t first, std::int64_t end) const {
    for (std::int64_t slot = first; slot < end; ++slot)
      std::fill(saved + slot * p_.H + s.units.begin, saved + slot * p_.H + s.units.end, T(0));
  }

  void begin(const Memory& m, const Share& s) const {
    start_state<T>(p_, m, 2, 1, s);
    if (p_.lstm()) start_state<T>(p_, m, 3, 2, s);
    show(m, s, 0);
  }

  // The gates' sums, but for that of a GRU's last one, which needs what the others give.
  void sum(const Memory& m, const Share& s, std::int64_t n) const {
    const std::int64_t H = p_.H, t = p_.time(s.d, n);
    T* const first = saved(m, s.d, t, s.rows.begin);
    for (std::int64_t b = s.rows.begin; b < s.rows.end; ++b) {
      T* const to = saved(m, s.d, t, b) + s.units.begin;
      const auto copy = [&](const T* from, std::int64_t slots, T* at) {
        if (s.units.end - s.units.begin == H) return void(std::copy_n(from, slots * H, at));
        for (std::int64_t slot = 0; slot < slots; ++slot)
          std::copy(from + slot * H + s.units.begin, from + slot * H + s.units.end, at + slot * H);
      };
      copy(m.in<T>(0) + (t * p_.B + b) * p_.columns() + s.d * p_.gates * H, p_.gates, to);
      copy(state(m, 1, s.d, b), 1, to + (p_.slots - 1) * H);
      if (p_.lstm()) copy(state(m, 2, s.d, b), 1, to + 4 * H);
      if (p_.cell == Cell::gru_linear && given(m, 5)) copy(m.in<T>(5) + s.d * H, 1, to + 3 * H);
    }
    const T* const h = before(m, s.d, s.rows.begin, n);
    factors_.multiply_first(m.in<T>(1), m.workspace, s, h, H, first, width(), true);
    if (p_.cell == Cell::gru_linear) factors_.multiply_last(m.in<T>(1), m.workspace, s, h, H, first + 3 * H, width(), given(m, 5));
    if (p_.cell != Cell::gru) return;
    const auto run = cells().gru_gates;
    const std::int32_t* const ends = lengths(m);
    T *row = first, *own = state(m, 1, s.d, s.rows.begin) + s.units.begin;
    for (std::int64_t b = s.rows.begin; b < s.rows.end; ++b, row += width(), own += H)
      if (ends && t >= ends[b])
        clear(s, row, 3, p_.slots);
      else
        run({row + s.units.begin, own, nullptr, nullptr, s.units.end - s.units.begin, H});
  }

  // The states behind the step.
  void finish(const Memory& m, const Share& s, std::int64_t n) const {
    const std::int64_t H = p_.H, t = p_.time(s.d, n);
    T* const first = saved(m, s.d, t, s.rows.begin);
    if (p_.cell == Cell::gru) factors_.multiply_last(m.in<T>(1), m.workspace, s, first + 3 * H, width(), first + 2 * H, width(), true);
    const auto run = p_.lstm()                     ? cells().lstm
                     : p_.cell == Cell::gru        ? cells().gru
                     : p_.cell == Cell::gru_linear ? cells().gru_linear
                                                   : cells().rnn[p_.relu];
    const std::int32_t* const ends = lengths(m);
    T *row = first, *h = state(m, 1, s.d, s.rows.begin) + s.units.begin;
    T* c = p_.lstm() ? state(m, 2, s.d, s.rows.begin) + s.units.begin : nullptr;
    T* y = m.out<T>(0) + ((t * p_.D + s.d) * p_.B + s.rows.begin) * H + s.units.begin;
    for (std::int64_t b = s.rows.begin; b < s.rows.end; ++b, row += width(), h += H, y += H) {
      if (ends && t >= ends[b]) {
        std::fill_n(y, s.units.end - s.units.begin, T(0));
        clear(s, row, 0, p_.cell == Cell::gru ? 3 : p_.slots);
      } else {
        run({row + s.units.begin, h, c, y, s.units.end - s.units.begin, H});
      }
      if (c) c += H;
    }
    show(m, s, n + 1);
  }
  static const vector::Recurring<T>& cells() { return *vector_table().of<T>().recurring; }

  Problem p_;
  Factors<T> factors_;
  bool training_;
  std::int64_t saved_, shared_, bytes_;  // where they begin in the workspace, and its end
};

}  // namespace

Descriptions describe_recurrent(const KernelRequest& request) {
  const Problem p(request, request.inputs[0].shape, 0, request.inputs[1].shape);
  const bool training = operand_at(request.outputs, p.lstm() ? 3 : 2).present();
  KernelDescription d = row_major_description("native.recurrent", request, 0.7 * product_efficiency());
  return in_both_ways(d, request, p, [&](KernelDescription way, const Problem& of) {
    visit_type(request.inputs[0].dtype, [&]<class T>() {
      const Recurrent<T> kernel(of, training);
      way.workspace = kernel.workspace();
      way.make = make_kernel(kernel);
    });
    return way;
  });
}

}  // namespace tandem::native
