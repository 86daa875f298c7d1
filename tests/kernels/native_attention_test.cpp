// Attention's kernels against its formula, number by number in double: every mask, shapes that fill no block, layouts, dropout.
#include <limits>

#include "graph/half.h"
#include "kernels/cpu/isa.h"
#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

constexpr double nothing = -std::numeric_limits<double>::infinity();
constexpr std::int64_t I(std::int64_t x) { return x; }

enum class Mask { none, numbers, truth, hides_rows, buries_rows };  // buries: by a number so low that no score shows beside it

struct Row {
  const char* name;
  std::int64_t B, H, shared, S, T, D, V;  // `shared`: query heads of a key head
  Mask mask = Mask::none;
  Ints mask_shape = {};                   // of [B,H,S]
  Attributes attributes = {};
  std::string layout = "acbd";
};
const Row rows[] = {
    {"one_block", 2, 2, 1, 16, 16, 16, 16},
    {"several_blocks", 1, 2, 1, 192, 256, 64, 64},
    {"no_block_is_full", 2, 3, 1, 67, 131, 20, 12},
    {"one_query", 1, 2, 1, 1, 9, 8, 8},
    {"one_key", 1, 1, 1, 5, 1, 3, 1},
    {"row_major", 2, 2, 1, 33, 40, 24, 24, Mask::none, {}, {}, "abcd"},
    {"tokens_first", 2, 2, 1, 33, 40, 24, 24, Mask::none, {}, {}, "cabd"},
    {"shared_keys", 2, 6, 3, 70, 50, 16, 24},
    {"one_key_head", 1, 4, 4, 20, 65, 8, 8},
    {"causal", 2, 2, 1, 150, 150, 32, 32, Mask::none, {}, {{"causal", I(1)}}},
    {"causal_behind_a_past", 1, 2, 1, 40, 140, 16, 16, Mask::none, {}, {{"causal", I(1)}, {"offset", I(100)}}},
    {"causal_with_more_queries", 1, 1, 1, 200, 30, 16, 16, Mask::none, {}, {{"causal", I(1)}}},
    {"added_of_all", 2, 3, 1, 40, 70, 16, 16, Mask::numbers, {2, 3, 40}},
    {"added_of_samples", 3, 2, 1, 40, 70, 16, 16, Mask::numbers, {3, 1, 1}},
    {"added_of_heads", 2, 2, 1, 40, 70, 16, 16, Mask::numbers, {1, 2, 40}},
    {"added_and_causal", 2, 2, 2, 70, 70, 16, 16, Mask::numbers, {1, 1, 70}, {{"causal", I(1)}}},
    {"true_or_nothing", 2, 2, 1, 40, 70, 16, 16, Mask::truth, {2, 1, 40}},
    {"true_or_a_number", 2, 2, 1, 40, 70, 16, 16, Mask::truth, {2, 1, 1}, {{"fill", -2.0F}}},
    {"rows_without_keys", 2, 2, 1, 70, 70, 16, 16, Mask::hides_rows, {2, 1, 70}},
    {"guarded_rows_without_keys", 2, 2, 1, 70, 70, 16, 16, Mask::hides_rows, {2, 1, 70}, {{"guarded", I(1)}}},
    {"guarded_from_NaN", 2, 2, 1, 70, 70, 16, 16, Mask::hides_rows, {2, 1, 70}, {{"guarded", I(2)}}},
    {"rows_of_the_lowest_number", 2, 2, 1, 70, 131, 16, 16, Mask::buries_rows, {2, 1, 70}},
    {"rows_of_the_lowest_number_and_causal", 2, 4, 2, 70, 70, 16, 16, Mask::buries_rows, {2, 1, 70}, {{"causal", I(1)}}},
    {"false_is_the_lowest_number", 2, 2, 1, 40, 70, 16, 16, Mask::truth, {2, 1, 40}, {{"fill", std::numeric_limits<float>::lowest()}}},
    {"dropped", 2, 2, 1, 70, 131, 16, 16, Mask::none, {}, {{"ratio", 0.25F}, {"layer", I(77)}}},
    {"dropped_in_two_rows_a_sample", 4, 1, 1, 20, 37, 16, 16, Mask::none, {}, {{"ratio", 0.25F}, {"layer", I(77)}, {"inner", I(2)}}},
    {"dropped_and_masked", 2, 4, 2, 70, 70, 16, 16, Mask::numbers, {2, 1, 1}, {{"ratio", 0.5F}, {"layer", I(7)}, {"causal", I(1)}}},
};

const std::int64_t random_numbers[4] = {0x123456789, 5, 3, 0};  // seed, step, first sample

struct Reference {
  Values y, log_sum, dq, dk, dv;
};

// One query after the other.
class Formula {
 public:
  Formula(const Row& r, const Values& q, const Values& k, const Values& v, const Values& mask, const Values& dy)
      : r_(r), q_(q), k_(k), v_(v), mask_(mask), dy_(dy) {}

  Reference run() {
    const std::int64_t keys = r_.B * r_.H / r_.shared * r_.T;
    out_ = {Values(size(r_.B * r_.H * r_.S * r_.V)), Values(size(r_.B * r_.H * r_.S)), Values(q_.size()), Values(size(keys * r_.D)),
            Values(size(keys * r_.V))};
    for (std::int64_t b = 0; b < r_.B; ++b)
      for (std::int64_t h = 0; h < r_.H; ++h)
        for (std::int64_t i = 0; i < r_.S; ++i) one(b, h, i);
    return out_;
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

  void one(std::int64_t b, std::int64_t h, std::int64_t i) {
    const Attributes& a = r_.attributes;
    const std::int64_t row = (b * r_.H + h) * r_.S + i, head = b * (r_.H / r_.shared) + h / r_.shared;
    const double scale = 0.375, ratio = static_cast<double>(a.real("ratio", 0));
    const bool truth = r_.mask == Mask::truth;
    std::vector<double> p(size(r_.T)), kept(size(r_.T), 1);
    std::vector<bool> fixed(size(r_.T));  // its score does not depend on q·k
    double most = nothing, total = 0;
    for (std::int64_t j = 0; j < r_.T; ++j) {
      double s = 0;
      for (std::int64_t d = 0; d < r_.D; ++d) s += q_[size(row * r_.D + d)] * k_[size((head * r_.T + j) * r_.D + d)];
      s *= scale;
      if (r_.mask != Mask::none) {
        const double m = mask_[size(
            ((b % r_.mask_shape[0] * r_.mask_shape[1] + h % r_.mask_shape[1]) * r_.mask_shape[2] + i % r_.mask_shape[2]) * r_.T + j)];
        fixed[size(j)] = truth && m == 0;
        s = m == static_cast<double>(std::numeric_limits<float>::lowest()) ? m
            : !truth                                                       ? s + m
            : m != 0 ? s
                     : static_cast<double>(a.real("fill", static_cast<float>(nothing)));
      }
      if (a.integer("causal", 0) != 0 && j > i + a.integer("offset", 0)) s = nothing;
      p[size(j)] = s;
      most = std::max(most, s);
    }
    for (double& s : p) total += s = std::exp(s - most);
    if (ratio > 0) drop(row, ratio, kept);
    const bool none = most == nothing, zeros = none && a.integer("guarded", 0) > 0;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (double& s : p) s = zeros ? 0 : none ? nan : s / total;
    out_.log_sum[size(row)] = zeros ? -nothing : none ? nan : most + std::log(total);
    back(row, head, scale, p, kept, fixed);
  }

  void drop(std::int64_t row, double ratio, std::vector<double>& kept) const {
    std::vector<std::uint32_t> words(kept.size());
    const auto seed = static_cast<std::uint64_t>(random_numbers[0]);
    const auto layer = static_cast<std::uint32_t>(r_.attributes.integer("layer"));
    const vector::PhiloxState state{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ layer},
                                    {static_cast<std::uint32_t>(random_numbers[1]), 0}};
    vector_table().philox_run(words.data(), random_numbers[2] * r_.attributes.integer("inner", 1) * r_.H * r_.S * r_.T + row * r_.T, r_.T,
                              state);
    for (std::size_t j = 0; j < kept.size(); ++j) kept[j] = words[j] < static_cast<std::uint32_t>(ratio * 0x1p32) ? 0 : 1 / (1 - ratio);
  }

  void back(std::int64_t row, std::int64_t head, double scale, const std::vector<double>& p, const std::vector<double>& kept,
            const std::vector<bool>& fixed) {
    std::vector<double> dp(p.size());
    double inner = 0;
    for (std::int64_t j = 0; j < r_.T; ++j) {
      for (std::int64_t c = 0; c < r_.V; ++c) {
        const double dropped = p[size(j)] * kept[size(j)], dy = dy_[size(row * r_.V + c)], v = v_[size((head * r_.T + j) * r_.V + c)];
        out_.y[size(row * r_.V + c)] += dropped * v;
        out_.dv[size((head * r_.T + j) * r_.V + c)] += dropped * dy;
        dp[size(j)] += kept[size(j)] * dy * v;
      }
      inner += p[size(j)] * dp[size(j)];
    }
    for (std::int64_t j = 0; j < r_.T; ++j) {
      const double ds = fixed[size(j)] ? 0 : scale * p[size(j)] * (dp[size(j)] - inner);
      for (std::int64_t d = 0; d < r_.D; ++d) {
        out_.dq[size(row * r_.D + d)] += ds * k_[size((head * r_.T + j) * r_.D + d)];
        out_.dk[size((head * r_.T + j) * r_.D + d)] += ds * q_[size(row * r_.D + d)];
      }
    }
  }

  const Row& r_;
  const Values &q_, &k_, &v_, &mask_, &dy_;
  Reference out_;
};

Values mask_of(const Row& r) {
  Values m = random_values(r.mask_shape[0] * r.mask_shape[1] * r.mask_shape[2] * r.T, 9);
  for (std::size_t i = 0; i < m.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(r.T);
    if (r.mask == Mask::truth)
      m[i] = (m[i] > -0.5 || i % static_cast<std::size_t>(r.T) == 0) && (r.attributes.real("fill", 0) > -1e9F || row % 5 != 2);
    else if (m[i] < -1) m[i] = nothing;
    if ((r.mask == Mask::numbers || r.mask == Mask::buries_rows) && i % static_cast<std::size_t>(r.T) == 0) m[i] = 0;
    if (r.mask == Mask::hides_rows && row % 5 == 2) m[i] = nothing;
    if (r.mask == Mask::buries_rows && row % 5 == 2) m[i] = static_cast<double>(std::numeric_limits<float>::lowest());
  }
  return m;
}

Values rounded(Values values, DType dtype) {
  if (dtype == DType::bfloat16)
    for (double& v : values) v = number_as<double>(to_bfloat16(static_cast<float>(v)));
  return values;
}

// As far as sums of so many products, each rounded, may be off; where results are NaN they are so in both.
void expect_alike(const Values& got, const Values& wanted, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  double largest = 0;
  for (const double w : wanted)
    if (std::isfinite(w)) largest = std::max(largest, std::abs(w));
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(wanted[i]) ? std::isnan(got[i]) : got[i] == wanted[i]) continue;
    ASSERT_LE(std::abs(got[i] - wanted[i]), tolerance * largest)
        << what << ", element " << i << ": got " << got[i] << ", wanted " << wanted[i];
  }
}

struct Operands {
  Values q, k, v, mask, dy;
  explicit Operands(const Row& r, DType dtype)
      : q(rounded(random_values(r.B * r.H * r.S * r.D, 1), dtype)),
        k(rounded(random_values(r.B * r.H / r.shared * r.T * r.D, 2), dtype)),
        v(rounded(random_values(r.B * r.H / r.shared * r.T * r.V, 3), dtype)),
        mask(r.mask == Mask::none ? Values{} : mask_of(r)),
        dy(rounded(random_values(r.B * r.H * r.S * r.V, 4), dtype)) {}
};

struct Kernels {
  Case forward, backward;
  Kernels(const Row& r, DType dtype, int threads) {
    const DType wide = dtype == DType::float64 ? DType::float64 : DType::float32;
    Attributes a = r.attributes;
    a.set("scale", 0.375F);
    const Operand q = operand(dtype, {r.B, r.H, r.S, r.D}, r.layout), k = operand(dtype, {r.B, r.H / r.shared, r.T, r.D}, r.layout),
                  v = operand(dtype, {r.B, r.H / r.shared, r.T, r.V}, r.layout);
    const Operand y = operand(dtype, {r.B, r.H, r.S, r.V}), log_sum = operand(wide, {r.B, r.H, r.S});
    std::vector<Operand> further;
    if (r.mask != Mask::none || a.has("ratio"))
      further.push_back(r.mask == Mask::none ? Operand{}
                                             : operand(r.mask == Mask::truth ? DType::boolean : wide,
                                                       {r.mask_shape[0], r.mask_shape[1], r.mask_shape[2], r.T}));
    if (a.has("ratio")) further.push_back(operand(DType::int64, {4}));
    forward = {"AttentionTraining", a, {q, k, v}, {y, log_sum, log_sum}, threads};
    backward = {"AttentionBackward", a, {q, k, v, y, log_sum, y}, {q, k, v}, threads};
    for (Case* c : {&forward, &backward}) c->inputs.insert(c->inputs.end(), further.begin(), further.end());
  }
};

void add_further(const Row& r, const Operands& o, std::vector<Values>& inputs) {
  if (r.mask != Mask::none || r.attributes.has("ratio")) inputs.push_back(o.mask);
  if (r.attributes.has("ratio")) inputs.emplace_back(std::begin(random_numbers), std::end(random_numbers));
}

// All ways to compute it: of bfloat16 there are two where the processor multiplies pairs of them.
std::vector<KernelDescription> ways(const Case& c) {
  std::vector<KernelDescription> all = cpu_backend().describe(c.request());
  EXPECT_FALSE(all.empty());
  return all;
}
std::vector<Values> run_way(const KernelDescription& d, const std::vector<Values>& inputs) {
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < inputs.size(); ++i) buffers.emplace_back(d.inputs[i], inputs[i]);
  std::vector<Values> outputs;
  for (Buffer& b : run(d, buffers)) outputs.push_back(b.values());
  return outputs;
}

void check(const Row& r, DType dtype, double tolerance, int threads) {
  const Operands o(r, dtype);
  const Reference wanted = Formula(r, o.q, o.k, o.v, o.mask, o.dy).run();
  const Kernels kernels(r, dtype, threads);
  const std::vector<KernelDescription> forward_ways = ways(kernels.forward), backward_ways = ways(kernels.backward);
  ASSERT_EQ(forward_ways.size(), backward_ways.size()) << r.name;
  for (std::size_t way = 0; way < forward_ways.size(); ++way) {
    std::vector<Values> inputs{o.q, o.k, o.v};
    add_further(r, o, inputs);
    const std::vector<Values> forward = run_way(forward_ways[way], inputs);
    const std::string what = concat(r.name, ' ', dtype, ' ', threads, " threads, ", forward_ways[way].kernel, ", ");
    expect_alike(forward[0], wanted.y, tolerance, what + "y");
    expect_alike(forward[1], wanted.log_sum, tolerance, what + "log_sum");
    Values dy = o.dy;
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] *= forward[2][i / static_cast<std::size_t>(r.V)];
    inputs = {o.q, o.k, o.v, forward[0], forward[1], rounded(dy, dtype)};
    add_further(r, o, inputs);
    const std::vector<Values> backward = run_way(backward_ways[way], inputs);
    expect_alike(backward[0], wanted.dq, tolerance, what + "dq");
    expect_alike(backward[1], wanted.dk, tolerance, what + "dk");
    expect_alike(backward[2], wanted.dv, tolerance, what + "dv");
  }
}

class NativeAttention : public testing::TestWithParam<Row> {};

TEST_P(NativeAttention, IsItsFormula) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    check(GetParam(), DType::float32, 1e-5, 1);
    check(GetParam(), DType::bfloat16, 3e-2, 1);
  }
  check(GetParam(), DType::float32, 1e-5, 3);
  check(GetParam(), DType::float64, 1e-7, 2);   // scale and ratio are float32
  check(GetParam(), DType::bfloat16, 3e-2, 2);  // y is rounded before Σ dy·y is summed
}
INSTANTIATE_TEST_SUITE_P(Rows, NativeAttention, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

TEST(NativeAttention, HasTheSameBitsWithAnyThreads) {
  const Row row{"", 1, 2, 1, 150, 200, 24, 24, Mask::numbers, {1, 1, 150}, {{"ratio", 0.1F}, {"layer", I(3)}}};
  const Operands o(row, DType::float32);
  std::vector<std::vector<Values>> results;
  for (const int threads : {1, 2, 5}) {
    const Kernels kernels(row, DType::float32, threads);
    std::vector<Values> inputs{o.q, o.k, o.v};
    add_further(row, o, inputs);
    std::vector<Values> all = run_values(kernels.forward, inputs);
    inputs = {o.q, o.k, o.v, all[0], all[1], o.dy};
    add_further(row, o, inputs);
    for (Values& v : run_values(kernels.backward, inputs)) all.push_back(std::move(v));
    results.push_back(std::move(all));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

// The softmax of one score is 1 whatever the score is: no rounding flows back to it.
TEST(NativeAttention, AQueryOfOneKeyHasNoGradient) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
      const Row row{"", 2, 3, 1, 21, 1, 24, 40};
      const Operands o(row, dtype);
      const Kernels kernels(row, dtype, 1);
      const std::vector<KernelDescription> forward_ways = ways(kernels.forward), backward_ways = ways(kernels.backward);
      for (std::size_t way = 0; way < forward_ways.size(); ++way) {
        const std::vector<Values> forward = run_way(forward_ways[way], {o.q, o.k, o.v});
        const std::vector<Values> backward = run_way(backward_ways.at(way), {o.q, o.k, o.v, forward[0], forward[1], o.dy});
        EXPECT_EQ(backward[0], Values(o.q.size(), 0)) << isa << ' ' << to_string(dtype) << ' ' << backward_ways[way].kernel;
      }
    }
  }
}

// Products of pairs are offered where the processor has them and rows can be read by twos.
TEST(NativeAttention, OffersProductsOfPairs) {
  const auto count = [](std::int64_t width, DType dtype) {
    return ways(Kernels({"", 1, 2, 1, 8, 8, width, width}, dtype, 1).forward).size();
  };
  EXPECT_EQ(count(8, DType::bfloat16), dot_products() ? 2U : 1U);
  EXPECT_EQ(count(7, DType::bfloat16), 1U);
  EXPECT_EQ(count(8, DType::float32), 1U);
  const WithIsa with("avx2");
  EXPECT_EQ(count(8, DType::bfloat16), 1U);
}

// What a model reads of a projection, and what flows back, lies as the projection wrote it.
TEST(NativeAttention, LeavesOperandsWhereTheyLie) {
  Row row = rows[0];
  for (const char* layout : {"abcd", "acbd", "cabd", "bacd"}) {
    row.layout = layout;
    const Kernels kernels(row, DType::float32, 1);
    const KernelDescription forward = described(kernels.forward), backward = described(kernels.backward);
    const std::string result = layout == std::string("abcd") ? "acbd" : layout;
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(forward.inputs[i].layout.tag(), layout);
    EXPECT_EQ(forward.outputs[0].layout.tag(), result);
  }
  row.layout = "abdc";  // rows that do not lie whole
  EXPECT_EQ(described(Kernels(row, DType::float32, 1).forward).inputs[0].layout.tag(), "acbd");
}

}  // namespace
}  // namespace tandem::native_tests
