// Softmax and LogSoftmax against double, on every instruction set, and the same to the bit where they are written over their operand.
#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

struct Size {
  Shape x;
  std::int64_t axis;
};
constexpr double span = 18;  // of the scores: so large are the numbers that are rounded
const Size sizes[] = {{{37, 192}, 1}, {{5, 3}, 1},    {{2, 4099}, 1},    {{1, 64}, 1},
                      {{3, 1}, 1},    {{4, 7, 5}, 1}, {{3, 130, 70}, 1}, {{0, 5}, 1}};

Values softmax(const Size& s, const Values& x, bool log) {
  const auto length = static_cast<std::size_t>(s.x[static_cast<int>(s.axis)]);
  std::size_t stride = 1;
  for (int i = static_cast<int>(s.axis) + 1; i < s.x.rank(); ++i) stride *= static_cast<std::size_t>(s.x[i]);
  Values y(x.size());
  for (std::size_t first = 0; first < x.size(); ++first) {
    if (first / stride % length != 0) continue;
    double most = x[first], sum = 0;
    for (std::size_t i = 0; i < length; ++i) most = std::max(most, x[first + i * stride]);
    for (std::size_t i = 0; i < length; ++i) sum += std::exp(x[first + i * stride] - most);
    for (std::size_t i = 0; i < length; ++i) {
      const double shifted = x[first + i * stride] - most;
      y[first + i * stride] = log ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  }
  return y;
}

TEST(NativeSoftmax, IsThatOfDoubleAndMayTakeTheMemoryOfItsOperand) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const char* const op : {"Softmax", "LogSoftmax"})
      for (const DType dtype : {DType::float32, DType::float64})
        for (const Size& size : sizes)
          for (const int threads : {1, 3}) {
            const std::string what = concat(op, ' ', size.x, ' ', dtype, ' ', isa);
            const bool log = std::string_view(op) == "LogSoftmax", by_rows = size.axis + 1 == size.x.rank();
            const Operand x = plain(dtype, size.x);
            const Case c{op, {{"axis", size.axis}}, {x}, {x}, threads};
            const Values given = random_values(size.x.elements(), 1, -span / 2, span / 2);
            const std::vector<Values> got = run_values(c, {given});
            const Values wanted = softmax(size, Buffer(x, given).values(), log);
            ASSERT_EQ(got[0].size(), wanted.size()) << what;
            for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(got[0][i], wanted[i], 4 * span * epsilon_of(dtype)) << what;
            const KernelDescription d = described(c);
            ASSERT_EQ(d.in_place.empty(), log && !by_rows) << what;
            EXPECT_EQ(d.workspace, 0) << what;
            if (d.in_place.empty()) continue;
            std::vector<Buffer> operands{Buffer(x, given)};
            std::vector<Buffer> over = run(d, operands, {0});
            EXPECT_EQ(over[0].values(), got[0]) << what;
          }
  }
}

}  // namespace
}  // namespace tandem::native_tests
