// The recurrent kernels with float32's products in panels against those in double, for every instruction set and number of threads;
// that their formulas are right is held by tests/operators/recurrent_test.cpp.
#include "kernels/cpu/isa.h"
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
const Form forms[] = {{"lstm", "LSTM", 4, 6},
                      {"gru", "GRU", 3, 5},
                      {"gru_linear", "GRU", 3, 5, true},
                      {"rnn", "RNN", 1, 2},
                      {"rnn_relu", "RNN", 1, 2, false, true}};

struct Size {
  const char* direction;
  std::int64_t T, B, H;
  bool lengths, states;
};
const Size sizes[] = {
    {"forward", 1, 1, 1, false, false}, {"forward", 3, 5, 7, false, true}, {"reverse", 4, 17, 33, true, true}, {"bidirectional", 5, 30, 40, true, false}, {"bidirectional", 3, 1, 64, false, true},
    // few samples of many units, which threads share out, too
    {"forward", 3, 2, 390, true, true}, {"bidirectional", 3, 1, 400, false, true}, {"reverse", 2, 1, 520, true, true},
};

class Recurrent {
 public:
  Recurrent(const Form& f, const Size& s, DType dtype, int threads, bool rounds = false)
      : f_(f), s_(s), rounds_(rounds), D_(std::string_view(s.direction) == "bidirectional" ? 2 : 1), dtype_(dtype), threads_(threads) {}

  // Y, Y_h, (Y_c,) saved; then the gradients.
  std::vector<Values> training() const {
    std::vector<Values> all = forward(true);
    const std::int64_t state = D_ * s_.B * s_.H;
    const Shape steps{s_.T, D_, s_.B, s_.H};
    Case c{"RecurrentBackward",
           attributes(),
           {of({D_, f_.gates * s_.H, s_.H}), of(saved()), lengths(), of(steps), of(states())},
           {of({s_.T, s_.B, D_ * f_.gates * s_.H}), of(states())},
           threads_};
    std::vector<Values> given{matrix(), all.back(), length_values(), random_values(steps.elements(), 11), random_values(state, 12)};
    if (f_.lstm()) {
      c.inputs.push_back(of(states()));
      given.push_back(random_values(state, 13));
      c.outputs.push_back(of(states()));
    }
    c.outputs.push_back(of({D_, f_.gates * s_.H, s_.H}));
    if (f_.linear) c.outputs.push_back(of({D_, s_.H}));
    for (Values& v : run_way(c, given)) all.push_back(std::move(v));
    return all;
  }
  std::vector<Values> forward(bool training) const {
    const std::int64_t columns = D_ * f_.gates * s_.H;
    Case c{"RecurrentTraining",
           attributes(),
           {of({s_.T, s_.B, columns}), of({D_, f_.gates * s_.H, s_.H}), s_.states ? of(states()) : Operand{},
            s_.states && f_.lstm() ? of(states()) : Operand{}, lengths(), f_.linear ? of({D_, s_.H}) : Operand{}},
           {of({s_.T, D_, s_.B, s_.H}), of(states())},
           threads_};
    if (f_.lstm()) c.outputs.push_back(of(states()));
    if (training) c.outputs.push_back(of(saved()));
    const auto drawn = [](bool there, std::int64_t n, unsigned seed) { return there ? random_values(n, seed, -1, 1) : Values{}; };
    return run_way(c, {random_values(s_.T * s_.B * columns, 1), matrix(), drawn(s_.states, D_ * s_.B * s_.H, 3),
                       drawn(s_.states && f_.lstm(), D_ * s_.B * s_.H, 4), length_values(), drawn(f_.linear, D_ * s_.H, 5)});
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
  Values matrix() const {
    return random_values(D_ * f_.gates * s_.H * s_.H, 2, -1 / std::sqrt(static_cast<double>(s_.H)),
                         1 / std::sqrt(static_cast<double>(s_.H)));
  }
  Attributes attributes() const {
    Attributes a{{"cell", std::string(f_.cell)},
                 {"direction", std::string(s_.direction)},
                 {"linear_before_reset", std::int64_t{f_.linear}},
                 {"relu", std::int64_t{f_.relu}}};
    if (rounds_) a.set("product_dtype", static_cast<std::int64_t>(DType::bfloat16));
    return a;
  }
  // The way that rounds, where that is wanted.
  std::vector<Values> run_way(const Case& c, const std::vector<Values>& given) const {
    for (const KernelDescription& d : cpu_backend().describe(c.request())) {
      if (d.kernel.ends_with(".dot_products") != rounds_) continue;
      std::vector<Buffer> buffers;
      for (std::size_t i = 0; i < given.size(); ++i) buffers.emplace_back(d.inputs[i], given[i]);
      std::vector<Values> outputs;
      for (Buffer& b : run(d, buffers)) outputs.push_back(b.values());
      return outputs;
    }
    ADD_FAILURE() << c.op << ": not offered";
    throw std::runtime_error("no kernel");
  }

  const Form& f_;
  const Size& s_;
  bool rounds_;
  std::int64_t D_;
  DType dtype_;
  int threads_;
};

TEST(NativeRecurrent, IsTheSameInFloatAndDoubleAndOnAllThreads) {
  for (const Form& form : forms)
    for (const Size& size : sizes) {
      SCOPED_TRACE(concat(form.name, ' ', size.direction, " T=", size.T, " B=", size.B, " H=", size.H));
      const std::vector<Values> wanted = Recurrent(form, size, DType::float64, 1).training();
      for (const int threads : {3, 16})
        EXPECT_EQ(Recurrent(form, size, DType::float64, threads).training(), wanted) << threads << " threads";
      for (const char* isa : isas) {
        const WithIsa with(isa);
        SCOPED_TRACE(isa);
        const std::vector<Values> got = Recurrent(form, size, DType::float32, 1).training();
        ASSERT_EQ(got.size(), wanted.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          double scale = 1e-3;
          for (const double w : wanted[i]) scale = std::max(scale, std::abs(w));
          for (std::size_t k = 0; k < got[i].size(); ++k)
            ASSERT_NEAR(got[i][k], wanted[i][k], 32 * epsilon_of(DType::float32) * scale) << "output " << i << " at " << k;
        }
        for (const int threads : {2, 3, 16})
          EXPECT_EQ(Recurrent(form, size, DType::float32, threads).training(), got) << threads << " threads";
        for (const int threads : {1, 16}) {
          const std::vector<Values> inference = Recurrent(form, size, DType::float32, threads).forward(false);
          for (std::size_t i = 0; i < inference.size(); ++i) EXPECT_EQ(inference[i], got[i]) << "output " << i << " without what is saved";
        }
      }
    }
}

// Products of operands rounded to bfloat16: as near as those are, whatever the threads are.
TEST(NativeRecurrent, RoundsOperandsWhereItMay) {
  if (!dot_products()) GTEST_SKIP() << "the processor has no AVX512_BF16";
  for (const Form& form : forms)
    for (const Size& size : {sizes[3], sizes[4], sizes[5], sizes[6], Size{"forward", 9, 40, 130, false, true}}) {
      SCOPED_TRACE(concat(form.name, ' ', size.direction, " T=", size.T, " B=", size.B, " H=", size.H));
      const std::vector<Values> wanted = Recurrent(form, size, DType::float64, 1).training(),
                                got = Recurrent(form, size, DType::float32, 1, true).training();
      ASSERT_EQ(got.size(), wanted.size());
      const std::size_t compared = form.relu ? 3 : got.size();  // its slope jumps where rounding takes a number over 0
      for (std::size_t i = 0; i < compared; ++i) {
        double scale = 1e-3;
        for (const double w : wanted[i]) scale = std::max(scale, std::abs(w));
        for (std::size_t k = 0; k < got[i].size(); ++k) ASSERT_NEAR(got[i][k], wanted[i][k], 3e-2 * scale) << "output " << i << " at " << k;
      }
      for (const int threads : {2, 5, 16})
        EXPECT_EQ(Recurrent(form, size, DType::float32, threads, true).training(), got) << threads << " threads";
    }
}

TEST(NativeRecurrent, RoundsNothingUnlessItMay) {
  const auto offered = [](std::int64_t H, DType dtype, bool rounds) {
    Case c{"RecurrentTraining",
           {{"cell", std::string("RNN")},
            {"direction", std::string("forward")},
            {"linear_before_reset", std::int64_t{0}},
            {"relu", std::int64_t{0}}},
           {plain(dtype, {3, 2, H}), plain(dtype, {1, H, H})},
           {plain(dtype, {3, 1, 2, H}), plain(dtype, {1, 2, H})}};
    if (rounds) c.attributes.set("product_dtype", static_cast<std::int64_t>(DType::bfloat16));
    return cpu_backend().describe(c.request()).size();
  };
  EXPECT_EQ(offered(8, DType::float32, false), 1U);
  EXPECT_EQ(offered(8, DType::float32, true), dot_products() ? 2U : 1U);
  EXPECT_EQ(offered(7, DType::float32, true), 1U);
  EXPECT_EQ(offered(8, DType::float64, true), 1U);
}

}  // namespace
}  // namespace tandem::native_tests
