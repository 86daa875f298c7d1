// Attention by blocks, forward and backward, on the host emulation against the CPU's kernels in float64 (in 16 bits: of what is rounded).
#include <cmath>
#include <limits>

#include "tests/cuda/emulated.h"

namespace tandem::cuda {
namespace {

constexpr std::int64_t I(std::int64_t x) { return x; }
enum class Mask { none, numbers, truth, hides_rows };

struct Row {
  const char* name;
  std::int64_t B, H, shared, S, T, D, V;  // `shared`: query heads of a key head
  Mask mask = Mask::none;
  Shape mask_shape = {};
  Attributes attributes = {};
  const char* layout = "acbd";
};
const Row rows[] = {
    {"no_tile_is_full", 1, 2, 1, 67, 75, 20, 12},
    {"odd_heads", 1, 1, 1, 5, 1, 3, 1},
    {"wide_heads", 1, 1, 1, 40, 36, 96, 80},
    {"shared_keys", 1, 4, 2, 20, 33, 16, 24, Mask::none, {}, {}, "abcd"},
    {"causal_behind_a_past", 1, 1, 1, 40, 100, 16, 16, Mask::none, {}, {{"causal", I(1)}, {"offset", I(20)}}},
    {"added_and_causal", 2, 1, 1, 70, 70, 16, 16, Mask::numbers, {2, 1, 1, 70}, {{"causal", I(1)}}},
    {"true_or_a_number", 1, 2, 1, 10, 40, 16, 16, Mask::truth, {1, 2, 10, 40}, {{"fill", -2.0F}}},
    {"rows_without_keys", 1, 1, 1, 20, 20, 8, 8, Mask::hides_rows, {1, 1, 20, 20}},
    {"guarded_rows_without_keys", 1, 1, 1, 20, 20, 8, 8, Mask::hides_rows, {1, 1, 20, 20}, {{"guarded", I(1)}}},
    {"dropped", 2, 1, 1, 20, 37, 16, 16, Mask::none, {}, {{"ratio", 0.25F}, {"layer", I(77)}}},
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class Attention : public testing::TestWithParam<Row> {};

// As far as sums of so many products, each rounded, may be off; NaN where the other is.
void expect_alike(const Held& got, const Held& wanted, double tolerance, const std::string& what) {
  const std::vector<double> a = values_of(got), b = values_of(wanted);
  ASSERT_EQ(a.size(), b.size()) << what;
  double largest = 0;
  for (const double w : b)
    if (std::isfinite(w)) largest = std::max(largest, std::fabs(w));
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i]) ? std::isnan(a[i]) : a[i] == b[i]) continue;
    ASSERT_LE(std::fabs(a[i] - b[i]), tolerance * largest) << what << ": element " << i << " is " << a[i] << ", expected " << b[i];
  }
}

TEST_P(Attention, AgreesWithTheCpu) {
  const Row& r = GetParam();
  for (const auto& [dtype, tolerance] : {std::pair{DType::float32, 2e-5}, {DType::bfloat16, 3e-2}, {DType::float16, 5e-3}}) {
    std::mt19937 random(3);
    const Shape q{r.B, r.H, r.S, r.D}, k{r.B, r.H / r.shared, r.T, r.D}, v{r.B, r.H / r.shared, r.T, r.V}, y{r.B, r.H, r.S, r.V}, log_sum{r.B, r.H, r.S};
    const Tensor queries = random_tensor(random, q, -1, 1), keys = random_tensor(random, k, -1, 1), values = random_tensor(random, v, -1, 1), dy = random_tensor(random, y, -1, 1);
    Attributes a = r.attributes;
    a.set("scale", 0.375F);
    Tensor mask;
    if (r.mask != Mask::none) {
      mask = random_tensor(random, r.mask_shape, -2, 2);
      std::int64_t i = 0;
      for (double& m : mask.write<double>()) {
        if (r.mask == Mask::truth) m = m > -0.5 || i % r.T == 0;
        if (r.mask == Mask::hides_rows && i / r.T % 5 == 2) m = -std::numeric_limits<double>::infinity();
        ++i;
      }
    }
    const std::int64_t numbers[] = {0x123456789, 5, 3, 0};
    std::vector<std::vector<Held>> forward, backward;
    for (const bool own : {true, false}) {
      const DType real = own ? dtype : DType::float64, wide = own ? DType::float32 : DType::float64;
      const DescribeFunction describe = own ? describe_emulated : describe_native_cpu;
      std::vector<Held> further;
      if (r.mask != Mask::none || a.has("ratio")) further.push_back(r.mask == Mask::none ? Held{} : hold(mask, r.mask == Mask::truth ? DType::boolean : wide));
      if (a.has("ratio")) further.push_back(hold(Tensor::of<std::int64_t>({4}, numbers), DType::int64));
      const Layout layout(r.layout);
      const Operand like_q{real, q, {}}, like_k{real, k, {}}, like_v{real, v, {}};
      std::vector<Held> inputs{hold(queries, real, layout), hold(keys, real, layout), hold(values, real, layout)};
      std::vector<Held> all = inputs;
      all.insert(all.end(), further.begin(), further.end());
      forward.push_back(run(describe, {"AttentionTraining", a, {{real, y, {}}, {wide, log_sum, {}}}}, all));
      ASSERT_EQ(forward.back().size(), 2U);
      all = inputs;
      for (const Held& h : {forward.back()[0], forward.back()[1], hold(dy, real)}) all.push_back(h);
      all.insert(all.end(), further.begin(), further.end());
      backward.push_back(run(describe, {"AttentionBackward", a, {like_q, like_k, like_v}}, all));
    }
    const std::string what = concat(r.name, ' ', dtype, ' ');
    for (const auto& [i, name] : {std::pair{0, "y"}, {1, "log_sum"}}) expect_alike(forward[0][static_cast<std::size_t>(i)], forward[1][static_cast<std::size_t>(i)], tolerance, what + name);
    for (const auto& [i, name] : {std::pair{0, "dq"}, {1, "dk"}, {2, "dv"}}) expect_alike(backward[0][static_cast<std::size_t>(i)], backward[1][static_cast<std::size_t>(i)], tolerance, what + name);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, Attention, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::cuda
