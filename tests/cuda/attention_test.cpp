// Attention by blocks, forward and backward, against the CPU's kernels in float64 (in 16 bits: of what is rounded).
#include <cmath>
#include <limits>

#include "tests/cuda/where.h"

namespace tandem::cuda {
namespace {

constexpr std::int64_t I(std::int64_t x) { return x; }
enum class Mask { none, numbers, truth, hides_rows, buries_rows };  // buries: by a number so low that no score shows beside it

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
    {"rows_of_the_lowest_number", 1, 1, 1, 20, 20, 8, 8, Mask::buries_rows, {1, 1, 20, 20}},
    {"dropped", 2, 1, 1, 20, 37, 16, 16, Mask::none, {}, {{"ratio", 0.25F}, {"layer", I(77)}}},
    {"dropped_in_two_rows_a_sample", 4, 1, 1, 20, 37, 16, 16, Mask::none, {}, {{"ratio", 0.25F}, {"layer", I(77)}, {"inner", I(2)}}},
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class Attention : public InPlaces<Row> {};

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
  const Row& r = row();
  for (const auto& [dtype, tolerance] : {std::pair{DType::float32, 2e-5}, {DType::bfloat16, 3e-2}, {DType::float16, 5e-3}}) {
    std::mt19937 random(3);
    const Shape q{r.B, r.H, r.S, r.D}, k{r.B, r.H / r.shared, r.T, r.D}, v{r.B, r.H / r.shared, r.T, r.V}, y{r.B, r.H, r.S, r.V},
        log_sum{r.B, r.H, r.S};
    const Tensor queries = random_tensor(random, q, -1, 1), keys = random_tensor(random, k, -1, 1),
                 values = random_tensor(random, v, -1, 1), dy = random_tensor(random, y, -1, 1);
    Attributes a = r.attributes;
    a.set("scale", 0.375F);
    Tensor mask;
    if (r.mask != Mask::none) {
      mask = random_tensor(random, r.mask_shape, -2, 2);
      std::int64_t i = 0;
      for (double& m : mask.write<double>()) {
        if (r.mask == Mask::truth) m = m > -0.5 || i % r.T == 0;
        if (r.mask == Mask::hides_rows && i / r.T % 5 == 2) m = -std::numeric_limits<double>::infinity();
        if (r.mask == Mask::buries_rows && i / r.T % 5 == 2) m = static_cast<double>(std::numeric_limits<float>::lowest());
        ++i;
      }
    }
    const std::int64_t numbers[] = {0x123456789, 5, 3, 0};
    struct Types {
      DType real, wide;
    };
    const Types ours{dtype, DType::float32}, reference{DType::float64, DType::float64};
    const Layout layout(r.layout);
    const auto inputs = [&](const Types& t) {
      return std::vector{hold(queries, t.real, layout), hold(keys, t.real, layout), hold(values, t.real, layout)};
    };
    const auto with_further = [&](const Types& t, std::vector<Held> all) {
      if (r.mask != Mask::none || a.has("ratio"))
        all.push_back(r.mask == Mask::none ? Held{} : hold(mask, r.mask == Mask::truth ? DType::boolean : t.wide));
      if (a.has("ratio")) all.push_back(hold(Tensor::of<std::int64_t>({4}, numbers), DType::int64));
      return all;
    };
    const auto forward = [&](const Types& t) {
      return Job{"AttentionTraining", a, {{t.real, y, {}}, {t.wide, log_sum, {}}, {t.wide, log_sum, {}}}};
    };
    const auto backward = [&](const Types& t) { return Job{"AttentionBackward", a, {{t.real, q, {}}, {t.real, k, {}}, {t.real, v, {}}}}; };
    const auto flows = [&](const Types& t, const std::vector<Held>& f) {
      std::vector<Held> all = inputs(t);
      Tensor corrected = dy;
      const std::vector<double> correction = values_of(f[2]);
      const auto numbers = corrected.write<double>();
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] *= correction[i / static_cast<std::size_t>(r.V)];
      for (const Held& h : {f[0], f[1], hold(corrected, t.real)}) all.push_back(h);
      return with_further(t, all);
    };
    const std::vector<Held> f_cpu = on_cpu(forward(reference), with_further(reference, inputs(reference))),
                            g_cpu = on_cpu(backward(reference), flows(reference, f_cpu));
    for (const Ran& f : own(forward(ours), with_further(ours, inputs(ours)))) {
      const std::string what = concat(r.name, ' ', dtype, ' ', f.kernel, ' ');
      ASSERT_EQ(f.outputs.size(), 3U);
      expect_alike(f.outputs[0], f_cpu[0], tolerance, what + "y");
      if (!f.outputs[1].operand.layout.opaque()) expect_alike(f.outputs[1], f_cpu[1], tolerance, what + "log_sum");
      for (const Ran& g : own(backward(ours), flows(ours, f.outputs)))
        for (const auto& [i, name] : {std::pair<std::size_t, const char*>{0, "dq"}, {1, "dk"}, {2, "dv"}})
          expect_alike(g.outputs[i], g_cpu[i], tolerance, concat(what, g.kernel, ' ', name));
    }
  }
}
const auto row_name = [](const auto& info) { return std::string(std::get<1>(info.param).name); };
INSTANTIATE_TEST_SUITE_P(Rows, Attention, testing::Combine(testing::Values(Where::host), testing::ValuesIn(rows)), row_name);
INSTANTIATE_TEST_SUITE_P(GpuRows, Attention, testing::Combine(testing::Values(Where::gpu), testing::ValuesIn(rows)), row_name);

}  // namespace
}  // namespace tandem::cuda
