// RecurrentBackward: each thread takes its samples from the last step to the first; what R gets of all steps is one product after that.
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
    by_rows(p_, [&](int part, std::int64_t d, Range rows) {
      start_state<T>(p_, m, 4, 1, d, rows);
      if (p_.lstm()) start_state<T>(p_, m, 5, 2, d, rows);
      for (std::int64_t n = p_.T; n-- > 0;) step(m, part, d, p_.time(d, n), rows);
    });
    for (std::int64_t d = 0; of_r_ && d < p_.D; ++d) {
      of_matrix(m, d, false);
      if (p_.gru()) of_matrix(m, d, true);
    }
  }

 private:
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

  void step(const Memory& m, int part, std::int64_t d, std::int64_t t, Range rows) const {
    const vector::Recurring<T>& cell = *vector_table().of<T>().recurring;
    const auto run = p_.lstm()                     ? cell.lstm_backward
                     : p_.cell == Cell::gru        ? cell.gru_backward
                     : p_.cell == Cell::gru_linear ? cell.gru_linear_backward
                                                   : cell.rnn_backward[p_.relu];
    const std::int64_t H = p_.H, count = rows.end - rows.begin;
    const auto row = [&](std::int64_t b) -> vector::RecurrentRowBackward<T> {
      return {saved(m, d, t, b),
              gates(m, d, t, b),
              p_.gru() ? inner(m, d, t, b) : nullptr,
              state(m, 1, d, b),
              p_.lstm() ? state(m, 2, d, b) : nullptr,
              H};
    };
    for (std::int64_t b = rows.begin; b < rows.end; ++b) {
      if (given(m, 2) && t >= m.in<std::int32_t>(2)[b]) {  // the states pass by
        std::fill_n(gates(m, d, t, b), p_.gates * H, T(0));
        if (p_.gru()) std::fill_n(inner(m, d, t, b), H, T(0));
        continue;
      }
      if (given(m, 3)) {
        T* const dh = state(m, 1, d, b);
        const T* const dy = m.in<T>(3) + ((t * p_.D + d) * p_.B + b) * H;
        for (std::int64_t k = 0; k < H; ++k) dh[k] += dy[k];
      }
      run(row(b));
    }
    const T* const r = m.in<T>(0);
    std::byte* const scratch = factors_.scratch_of(m.workspace, part);
    T *const dh = state(m, 1, d, rows.begin), *const first = gates(m, d, t, rows.begin);
    const auto last = [&](const T* a, std::int64_t a_row, T* c, bool add) {
      factors_.last.multiply(factors_.last_of(r, d), factors_.last_at(m.workspace, d), count, a, a_row, c, H, add, scratch);
    };
    if (p_.cell == Cell::gru_linear) last(inner(m, d, t, rows.begin), H, dh, true);
    if (p_.cell == Cell::gru) {
      last(first + 2 * H, p_.columns(), inner(m, d, t, rows.begin), false);
      for (std::int64_t b = rows.begin; b < rows.end; ++b) cell.gru_reset_backward(row(b));
    }
    factors_.first.multiply(factors_.first_of(r, d), factors_.first_at(m.workspace, d), count, first, p_.columns(), dh, H, true, scratch);
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
