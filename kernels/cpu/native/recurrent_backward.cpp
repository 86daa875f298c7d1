// RecurrentBackward: each thread takes its samples from the last step to the first, or all threads meet in every step, each with units of
// its own; what R gets of all steps is one product after that.
#include "kernels/cpu/native/paired_product.h"
#include "kernels/cpu/native/recurrent.h"

namespace tandem::native {
namespace {

using namespace recurrence;

template <class T>
class RecurrentBackward {
 public:
  RecurrentBackward(const Problem& p, bool of_r, bool of_bias) : p_(p), factors_(p, true), of_r_(of_r), of_bias_(of_bias) {
    const std::int64_t rows = p.T * p.B, item = static_cast<std::int64_t>(sizeof(T));
    inner_ = factors_.bytes;  // a GRU's gradients of r∘h of one step, or of the last gate's product of all steps
    products_ = inner_ + to_line(p.cell == Cell::gru ? p.D * p.B * p.H * item : p.cell == Cell::gru_linear ? p.D * rows * p.H * item : 0);
    bytes_ = products_;
    if constexpr (std::is_same_v<T, float>)
      if (of_r)
        for (const bool last : {false, true})
          bytes_ = std::max(bytes_, products_ + (p.dots ? paired_product(last).workspace() : matrix_product(last).workspace()));
  }
  std::int64_t workspace() const { return bytes_; }

  void operator()(const Memory& m) const {
    factors_.pack(m.in<T>(0), m.workspace, p_.parts());
    p_.by_steps() ? by_steps(m) : by_samples(m);
    for (std::int64_t d = 0; of_r_ && d < p_.D; ++d) {
      of_matrix(m, d, false);
      if (p_.gru()) of_matrix(m, d, true);
    }
  }

 private:
  void by_samples(const Memory& m) const {
    by_shares(p_, [&](const Share& s) {
      begin(m, s);
      for (std::int64_t n = p_.T; n-- > 0;) {
        differentiate(m, s, n);
        if (p_.cell == Cell::gru) reset(m, s, n);
        pass(m, s, n);
      }
    });
  }
  // A step's gates and the gradient that the step before it gets of them are of one share's units; between them all threads meet.
  void by_steps(const Memory& m) const {
    by_shares(p_, [&](const Share& s) {
      begin(m, s);
      if (p_.T > 0) differentiate(m, s, p_.T - 1);
    });
    for (std::int64_t n = p_.T; n-- > 0;) {
      if (p_.cell == Cell::gru) by_shares(p_, [&](const Share& s) { reset(m, s, n); });
      by_shares(p_, [&](const Share& s) {
        pass(m, s, n);
        if (n > 0) differentiate(m, s, n - 1);
      });
    }
  }

  std::int64_t width() const { return p_.slots * p_.H; }
  const T* saved(const Memory& m, std::int64_t d, std::int64_t t, std::int64_t b) const {
    return m.in<T>(1) + ((d * p_.T + t) * p_.B + b) * width();
  }
  T* gates(const Memory& m, std::int64_t d, std::int64_t t, std::int64_t b) const {
    return m.out<T>(0) + (t * p_.B + b) * p_.columns() + d * p_.gates * p_.H;
  }
  T* state(const Memory& m, int output, std::int64_t d, std::int64_t b) const { return state_of<T>(p_, m, output, d, b); }
  T* inner(const Memory& m, std::int64_t d, std::int64_t t, std::int64_t b) const {
    const std::int64_t row = p_.cell == Cell::gru_linear ? (d * p_.T + t) * p_.B + b : d * p_.B + b;
    return reinterpret_cast<T*>(m.workspace + inner_) + row * p_.H;
  }

  void begin(const Memory& m, const Share& s) const {
    start_state<T>(p_, m, 4, 1, s);
    if (p_.lstm()) start_state<T>(p_, m, 5, 2, s);
  }
  vector::RecurrentRowBackward<T> row(const Memory& m, const Share& s, std::int64_t t, std::int64_t b) const {
    const auto own = [&](auto* all) { return all + s.units.begin; };
    return {own(saved(m, s.d, t, b)),
            own(gates(m, s.d, t, b)),
            p_.gru() ? own(inner(m, s.d, t, b)) : nullptr,
            own(state(m, 1, s.d, b)),
            p_.lstm() ? own(state(m, 2, s.d, b)) : nullptr,
            s.units.end - s.units.begin,
            p_.H};
  }
  static const vector::Recurring<T>& cells() { return *vector_table().of<T>().recurring; }

  // The gates' gradients, but for that of a GRU's r, which needs the product of another's.
  void differentiate(const Memory& m, const Share& s, std::int64_t n) const {
    const auto run = p_.lstm()                     ? cells().lstm_backward
                     : p_.cell == Cell::gru        ? cells().gru_backward
                     : p_.cell == Cell::gru_linear ? cells().gru_linear_backward
                                                   : cells().rnn_backward[p_.relu];
    const std::int64_t H = p_.H, t = p_.time(s.d, n);
    for (std::int64_t b = s.rows.begin; b < s.rows.end; ++b) {
      if (given(m, 2) && t >= m.in<std::int32_t>(2)[b]) {  // the states pass by
        const auto clear = [&](T* all) { std::fill(all + s.units.begin, all + s.units.end, T(0)); };
        for (std::int64_t gate = 0; gate < p_.gates; ++gate) clear(gates(m, s.d, t, b) + gate * H);
        if (p_.gru()) clear(inner(m, s.d, t, b));
        continue;
      }
      if (given(m, 3)) {
        T* const dh = state(m, 1, s.d, b);
        const T* const dy = m.in<T>(3) + ((t * p_.D + s.d) * p_.B + b) * H;
        for (std::int64_t k = s.units.begin; k < s.units.end; ++k) dh[k] += dy[k];
      }
      run(row(m, s, t, b));
    }
  }
  void reset(const Memory& m, const Share& s, std::int64_t n) const {
    const std::int64_t t = p_.time(s.d, n);
    factors_.multiply_last(m.in<T>(0), m.workspace, s, gates(m, s.d, t, s.rows.begin) + 2 * p_.H, p_.columns(),
                           inner(m, s.d, t, s.rows.begin), p_.H, false);
    const auto run = cells().gru_reset_backward;
    for (std::int64_t b = s.rows.begin; b < s.rows.end; ++b) run(row(m, s, t, b));
  }
  // The gradient of h before the step, by R.
  void pass(const Memory& m, const Share& s, std::int64_t n) const {
    const std::int64_t t = p_.time(s.d, n);
    T* const dh = state(m, 1, s.d, s.rows.begin);
    if (p_.cell == Cell::gru_linear)
      factors_.multiply_last(m.in<T>(0), m.workspace, s, inner(m, s.d, t, s.rows.begin), p_.H, dh, p_.H, true);
    factors_.multiply_first(m.in<T>(0), m.workspace, s, gates(m, s.d, t, s.rows.begin), p_.columns(), dh, p_.H, true);
  }

  // dR of the first gates or, of a GRU, of the last one: the gradients of all steps by what R was multiplied by.
  MatrixProduct matrix_product(bool last) const {
    const bool apart = last && p_.cell == Cell::gru_linear;
    return {(last ? p_.gates - p_.first_gates() : p_.first_gates()) * p_.H,
            p_.H,
            p_.T * p_.B,
            {false, 1, apart ? p_.H : p_.columns()},
            {false, 1, width()},
            p_.H,
            false,
            false,
            of_bias_ && last,
            p_.threads};
  }
  PairedProduct paired_product(bool last) const {
    const MatrixProduct p = matrix_product(last);
    return {p.rows, p.columns, p.inner, p.a.step, p.b.step, p.c_row, p.sums, p.threads};
  }
  void of_matrix(const Memory& m, std::int64_t d, bool last) const {
    const MatrixProduct product = matrix_product(last);
    const std::int64_t first = last ? p_.first_gates() * p_.H : 0;
    const T* const a = last && p_.cell == Cell::gru_linear ? inner(m, d, 0, 0) : gates(m, d, 0, 0) + first;
    const T* const b = saved(m, d, 0, 0) + (last && p_.cell == Cell::gru ? p_.slots - 2 : p_.slots - 1) * p_.H;
    T* const c = m.out<T>(p_.lstm() ? 3 : 2) + (d * p_.gates * p_.H + first) * p_.H;
    T* const sums = product.sums ? m.out<T>(p_.lstm() ? 4 : 3) + d * p_.H : nullptr;
    if constexpr (std::is_same_v<T, float>) {
      if (p_.dots) return paired_product(last).run(a, b, c, sums, m.workspace + products_);
      product.run(a, b, c, nullptr, sums, m.workspace + products_);
    } else {
      parallel(p_.parts(), [&](int part) {
        const Range rows = part_of(product.rows, part, p_.parts());
        gemm<T>(rows.end - rows.begin, product.columns, product.inner, {a + rows.begin, 1, product.a.step}, {b, product.b.step, 1},
                c + rows.begin * p_.H, p_.H, false);
        for (std::int64_t i = rows.begin; sums && i < rows.end; ++i) {
          sums[i] = 0;
          for (std::int64_t n = 0; n < product.inner; ++n) sums[i] += a[i + n * product.a.step];
        }
      });
    }
  }

  Problem p_;
  Factors<T> factors_;
  bool of_r_, of_bias_;
  std::int64_t inner_, products_, bytes_;
};

}  // namespace

Descriptions describe_recurrent_backward(const KernelRequest& request) {
  const Problem p(request, request.inputs[1].shape, 1, request.inputs[0].shape);
  const int of_r = p.lstm() ? 3 : 2;
  KernelDescription d = row_major_description("native.recurrent_backward", request, 0.7 * product_efficiency());
  return in_both_ways(d, request, p, [&](KernelDescription way, const Problem& of) {
    visit_type(request.inputs[0].dtype, [&]<class T>() {
      const RecurrentBackward<T> kernel(of, operand_at(request.outputs, of_r).present(), operand_at(request.outputs, of_r + 1).present());
      way.workspace = kernel.workspace();
      way.make = make_kernel(kernel);
    });
    return way;
  });
}

}  // namespace tandem::native
