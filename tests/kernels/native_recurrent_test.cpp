// The recurrent kernels with float32's products in panels against those in double, for every instruction set and number of threads;
// that their formulas are right is held by tests/operators/recurrent_test.cpp.
#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

struct Form {
  const char* name;
  const char* cell;
  std::int64_t gates, slots;  // numbers a unit that are saved
  bool linear = false, relu = false;
  bool lstm() const { return gates == 4; }
};
const Form forms[] = {{"lstm", "LSTM", 4, 6}, {"gru", "GRU", 3, 5}, {"gru_linear", "GRU", 3, 5, true}, {"rnn", "RNN", 1, 2}, {"rnn_relu", "RNN", 1, 2, false, true}};

struct Size {
  const char* direction;
  std::int64_t T, B, H;
  bool lengths, states;
};
const Size sizes[] = {
    {"forward", 1, 1, 1, false, false}, {"forward", 3, 5, 7, false, true}, {"reverse", 4, 17, 33, true, true}, {"bidirectional", 5, 30, 40, true, false}, {"bidirectional", 3, 1, 64, false, true},
};

class Recurrent {
 public:
  Recurrent(const Form& f, const Size& s, DType dtype, int threads) : f_(f), s_(s), D_(std::string_view(s.direction) == "bidirectional" ? 2 : 1), dtype_(dtype), threads_(threads) {}

  // Y, Y_h, (Y_c,) saved; then the gradients.
  std::vector<Values> training() const {
    std::vector<Values> all = forward(true);
    const std::int64_t state = D_ * s_.B * s_.H;
    const Shape steps{s_.T, D_, s_.B, s_.H};
    Case c{"RecurrentBackward", attributes(), {of({D_, f_.gates * s_.H, s_.H}), of(saved()), lengths(), of(steps), of(states())}, {of({s_.T, s_.B, D_ * f_.gates * s_.H}), of(states())}, threads_};
    std::vector<Values> given{matrix(), all.back(), length_values(), random_values(steps.elements(), 11), random_values(state, 12)};
    if (f_.lstm()) {
      c.inputs.push_back(of(states()));
      given.push_back(random_values(state, 13));
      c.outputs.push_back(of(states()));
    }
    c.outputs.push_back(of({D_, f_.gates * s_.H, s_.H}));
    if (f_.linear) c.outputs.push_back(of({D_, s_.H}));
    for (Values& v : run_values(c, given)) all.push_back(std::move(v));
    return all;
  }
  std::vector<Values> forward(bool training) const {
    const std::int64_t columns = D_ * f_.gates * s_.H;
    Case c{"RecurrentTraining", attributes(), {of({s_.T, s_.B, columns}), of({D_, f_.gates * s_.H, s_.H}), s_.states ? of(states()) : Operand{}, s_.states && f_.lstm() ? of(states()) : Operand{}, lengths(), f_.linear ? of({D_, s_.H}) : Operand{}},
           {of({s_.T, D_, s_.B, s_.H}), of(states())}, threads_};
    if (f_.lstm()) c.outputs.push_back(of(states()));
    if (training) c.outputs.push_back(of(saved()));
    const auto drawn = [](bool there, std::int64_t n, unsigned seed) { return there ? random_values(n, seed, -1, 1) : Values{}; };
    return run_values(c, {random_values(s_.T * s_.B * columns, 1), matrix(), drawn(s_.states, D_ * s_.B * s_.H, 3), drawn(s_.states && f_.lstm(), D_ * s_.B * s_.H, 4), length_values(), drawn(f_.linear, D_ * s_.H, 5)});
  }

 private:
  Shape states() const { return {D_, s_.B, s_.H}; }
  Shape saved() const { return {D_, s_.T, s_.B, f_.slots * s_.H}; }
  Operand of(const Shape& shape) const { return plain(dtype_, shape); }
  Operand lengths() const { return s_.lengths ? plain(DType::int32, {s_.B}) : Operand{}; }
  Values length_values() const {
    Values v(static_cast<std::size_t>(s_.lengths ? s_.B : 0));
    for (std::size_t b = 0; b < v.size(); ++b) v[b] = static_cast<double>((b * 3 + 1) % static_cast<std::size_t>(s_.T + 1));
    return v;
  }
  Values matrix() const { return random_values(D_ * f_.gates * s_.H * s_.H, 2, -1 / std::sqrt(static_cast<double>(s_.H)), 1 / std::sqrt(static_cast<double>(s_.H))); }
  Attributes attributes() const { return {{"cell", std::string(f_.cell)}, {"direction", std::string(s_.direction)}, {"linear_before_reset", std::int64_t{f_.linear}}, {"relu", std::int64_t{f_.relu}}}; }

  const Form& f_;
  const Size& s_;
  std::int64_t D_;
  DType dtype_;
  int threads_;
};

TEST(NativeRecurrent, IsTheSameInFloatAndDoubleAndOnAllThreads) {
  for (const Form& form : forms)
    for (const Size& size : sizes) {
      SCOPED_TRACE(concat(form.name, ' ', size.direction, " T=", size.T, " B=", size.B, " H=", size.H));
      const std::vector<Values> wanted = Recurrent(form, size, DType::float64, 1).training();
      EXPECT_EQ(Recurrent(form, size, DType::float64, 3).training(), wanted);
      for (const char* isa : isas) {
        const WithIsa with(isa);
        SCOPED_TRACE(isa);
        const std::vector<Values> got = Recurrent(form, size, DType::float32, 1).training();
        ASSERT_EQ(got.size(), wanted.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          double scale = 1e-3;
          for (const double w : wanted[i]) scale = std::max(scale, std::abs(w));
          for (std::size_t k = 0; k < got[i].size(); ++k) ASSERT_NEAR(got[i][k], wanted[i][k], 32 * epsilon_of(DType::float32) * scale) << "output " << i << " at " << k;
        }
        for (const int threads : {2, 3, 16}) EXPECT_EQ(Recurrent(form, size, DType::float32, threads).training(), got) << threads << " threads";
        std::vector<Values> inference = Recurrent(form, size, DType::float32, 1).forward(false);
        for (std::size_t i = 0; i < inference.size(); ++i) EXPECT_EQ(inference[i], got[i]) << "output " << i << " without what is saved";
      }
    }
}

}  // namespace
}  // namespace tandem::native_tests
