// RecurrentTraining: all steps of an LSTM, GRU or RNN. R is packed once; then each thread takes its samples from the first step to
// the last. A step's row of `saved` (vector.h) is where its gates are computed; in inference all steps have the same.
#include "kernels/cpu/native/recurrent.h"

namespace tandem::native {
namespace {

using namespace recurrence;

template <class T>
class Recurrent {
 public:
  Recurrent(const Problem& p, bool training) : p_(p), factors_(p, false), training_(training) {}

  std::int64_t workspace() const { return factors_.bytes + (training_ ? 0 : p_.D * p_.B * width() * static_cast<std::int64_t>(sizeof(T))); }

  void operator()(const Memory& m) const {
    factors_.pack(m.in<T>(1), m.workspace, p_.parts());
    by_rows(p_, [&](int part, std::int64_t d, Range rows) {
      start_state<T>(p_, m, 2, 1, d, rows);
      if (p_.lstm()) start_state<T>(p_, m, 3, 2, d, rows);
      for (std::int64_t n = 0; n < p_.T; ++n) step(m, part, d, p_.time(d, n), rows);
    });
  }

 private:
  std::int64_t width() const { return p_.slots * p_.H; }
  T* saved(const Memory& m, std::int64_t d, std::int64_t t, std::int64_t b) const {
    if (!training_) return reinterpret_cast<T*>(m.workspace + factors_.bytes) + (d * p_.B + b) * width();
    return m.out<T>(p_.lstm() ? 3 : 2) + ((d * p_.T + t) * p_.B + b) * width();
  }
  T* state(const Memory& m, int output, std::int64_t d, std::int64_t b) const { return state_of<T>(p_, m, output, d, b); }

  void step(const Memory& m, int part, std::int64_t d, std::int64_t t, Range rows) const {
    const vector::Recurring<T>& cell = *vector_table().of<T>().recurring;
    const std::int64_t H = p_.H, count = rows.end - rows.begin;
    T *const h = state(m, 1, d, rows.begin), *const first = saved(m, d, t, rows.begin), *const inner = first + 3 * H;
    for (std::int64_t b = rows.begin; b < rows.end; ++b) {
      T* const to = saved(m, d, t, b);
      std::copy_n(m.in<T>(0) + (t * p_.B + b) * p_.columns() + d * p_.gates * H, p_.gates * H, to);
      std::copy_n(state(m, 1, d, b), H, to + (p_.slots - 1) * H);
      if (p_.lstm()) std::copy_n(state(m, 2, d, b), H, to + 4 * H);
      if (p_.cell == Cell::gru_linear && given(m, 5)) std::copy_n(m.in<T>(5) + d * H, H, to + 3 * H);
    }
    const T* const r = m.in<T>(1);
    std::byte* const scratch = factors_.scratch_of(m.workspace, part);
    factors_.first.multiply(factors_.first_of(r, d), factors_.first_at(m.workspace, d), count, h, H, first, width(), true, scratch);
    const auto last = [&](const T* a, std::int64_t a_row, T* c, bool add) {
      factors_.last.multiply(factors_.last_of(r, d), factors_.last_at(m.workspace, d), count, a, a_row, c, width(), add, scratch);
    };
    if (p_.cell == Cell::gru_linear) last(h, H, inner, given(m, 5));
    if (p_.cell == Cell::gru) {
      for (std::int64_t b = rows.begin; b < rows.end; ++b) cell.gru_gates({saved(m, d, t, b), state(m, 1, d, b), nullptr, nullptr, H});
      last(inner, width(), first + 2 * H, true);
    }
    const auto finish = p_.lstm()                     ? cell.lstm
                        : p_.cell == Cell::gru        ? cell.gru
                        : p_.cell == Cell::gru_linear ? cell.gru_linear
                                                      : cell.rnn[p_.relu];
    for (std::int64_t b = rows.begin; b < rows.end; ++b) {
      T* const y = m.out<T>(0) + ((t * p_.D + d) * p_.B + b) * H;
      if (given(m, 4) && t >= m.in<std::int32_t>(4)[b]) {
        std::fill_n(y, H, T(0));
        std::fill_n(saved(m, d, t, b), width(), T(0));
      } else {
        finish({saved(m, d, t, b), state(m, 1, d, b), p_.lstm() ? state(m, 2, d, b) : nullptr, y, H});
      }
    }
  }

  Problem p_;
  Factors<T> factors_;
  bool training_;
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
