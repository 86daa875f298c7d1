// SampleRows and its gradients against sums over their indices, some of which lie outside.
#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

struct Row {
  std::int64_t batch, rows, places, taps, channels;
};
constexpr Row rows[] = {{1, 6, 5, 4, 3}, {3, 7, 11, 1, 17}, {2, 5, 4, 3, 40}, {2, 40, 60, 4, 33}, {2, 3, 0, 4, 3}};

std::vector<std::int64_t> indices(const Row& r, std::mt19937& random) {
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < r.batch * r.places * r.taps; ++i)
    index.push_back(std::uniform_int_distribution<std::int64_t>(-2, r.rows)(random));
  return index;
}

TEST(NativeSampleRows, SumsWhatItsIndicesName) {
  std::mt19937 random(3);
  for (const Row& r : rows)
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16})
      for (const int threads : {1, 3}) {
        const DType wide = dtype == DType::float64 ? DType::float64 : DType::float32;
        const double error = dtype == DType::bfloat16 ? 0.004 : dtype == DType::float16 ? 0.0005 : 1e-6;
        const Shape x{r.batch, r.rows, r.channels}, y{r.batch, r.places, r.channels}, taps{r.batch, r.places, r.taps};
        const std::vector<std::int64_t> index = indices(r, random);
        const Values index_values(index.begin(), index.end());
        const auto quarters = [&](std::int64_t n, int seed) {  // exact in all types
          Values v = random_values(n, seed, -8, 8);
          for (double& e : v) e = std::floor(e) / 4;
          return v;
        };
        const Values vx = quarters(x.elements(), 1), vw = quarters(taps.elements(), 2), vdy = quarters(y.elements(), 4);
        Values wy(static_cast<std::size_t>(y.elements())), wdx(static_cast<std::size_t>(x.elements())),
            wdw(static_cast<std::size_t>(taps.elements()));
        for (std::size_t k = 0; k < index.size(); ++k) {
          if (index[k] < 0 || index[k] >= r.rows) continue;
          const std::int64_t p = static_cast<std::int64_t>(k) / r.taps, from = p / r.places * r.rows + index[k];
          for (std::int64_t c = 0; c < r.channels; ++c) {
            const auto at_y = static_cast<std::size_t>(p * r.channels + c), at_x = static_cast<std::size_t>(from * r.channels + c);
            wy[at_y] += vw[k] * vx[at_x];
            wdx[at_x] += vw[k] * vdy[at_y];
            wdw[k] += vdy[at_y] * vx[at_x];
          }
        }
        const auto expect = [&](const char* op, std::vector<Operand> inputs, const std::vector<Values>& values, Operand output,
                                const Values& wanted) {
          const Case c{op, {{"input_shape", x.dims}}, std::move(inputs), {std::move(output)}, threads};
          const Values got = run_values(c, values)[0];
          ASSERT_EQ(got.size(), wanted.size());
          for (std::size_t i = 0; i < got.size(); ++i)
            ASSERT_NEAR(got[i], wanted[i], error * std::abs(wanted[i]) + 1e-6) << op << ' ' << name_of(dtype) << " at " << i;
        };
        const Operand ox = plain(dtype, x), oy = plain(dtype, y), oi = plain(DType::int64, taps), ow = plain(wide, taps);
        expect("SampleRows", {ox, oi, ow}, {vx, index_values, vw}, oy, wy);
        expect("SampleRowsBackwardData", {oy, oi, ow}, {vdy, index_values, vw}, ox, wdx);
        expect("SampleRowsBackwardWeights", {ox, oy, oi}, {vx, vdy, index_values}, ow, wdw);
      }
}

}  // namespace
}  // namespace tandem::native_tests
