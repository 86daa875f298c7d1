// Numbers in 8 bits with delayed scaling: the bits, the scales and the products, each against what its definition says.
#include "graph/fp8.h"

#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

constexpr DType e4m3 = DType::float8e4m3fn, e5m2 = DType::float8e5m2;

// By looking at all of the type's numbers: the nearest, of two that are as near the one whose last bit is 0; the largest for what is beyond
// it.
int nearest(double v, DType type) {
  if (std::isnan(v)) return -1;
  const std::span<const float, 256> all = numbers_of(type);
  int best = -1;
  double distance = 0;
  for (int code = 0; code < 256; ++code) {
    const double number = static_cast<double>(all[static_cast<std::size_t>(code)]);
    if (!std::isfinite(number) || std::signbit(number) != std::signbit(v)) continue;
    const double d = std::abs(std::clamp(v, -1e6, 1e6) - number);
    if (best >= 0 && (d > distance || (d == distance && code % 2 != 0))) continue;
    best = code;
    distance = d;
  }
  return best;
}

struct Quantized {
  std::vector<std::uint8_t> y, transposed;
  double inverse, amax;
};
Quantized quantize(DType from, DType to, std::int64_t rows, std::int64_t columns, const Values& x, float scale, int threads) {
  const Case c{
      "QuantizeFp8",
      {{"to", static_cast<std::int64_t>(to)}, {"slot", std::int64_t{1}}},
      {operand(from, {rows, columns}), operand(DType::float32, {2, Fp8Row::count})},
      {operand(to, {rows, columns}), operand(DType::float32, {}, ""), operand(DType::float32, {}, ""), operand(to, {columns, rows})},
      threads};
  const KernelDescription d = described(c);
  Values state(2 * Fp8Row::count, 0.0);
  state[Fp8Row::count] = static_cast<double>(scale);
  std::vector<Buffer> inputs;
  inputs.emplace_back(d.inputs[0], x);
  inputs.emplace_back(d.inputs[1], state);
  std::vector<Buffer> outputs = run(d, inputs);
  const auto bytes = [](Buffer& b) {
    return std::vector<std::uint8_t>(reinterpret_cast<std::uint8_t*>(b.data()), reinterpret_cast<std::uint8_t*>(b.data()) + b.bytes());
  };
  return {bytes(outputs[0]), bytes(outputs[3]), outputs[1].values()[0], outputs[2].values()[0]};
}

TEST(NativeFp8, RoundsToTheNearestNumberThatThereIs) {
  for (const DType to : {e4m3, e5m2})
    for (const DType from : {DType::bfloat16, DType::float32})
      for (const float scale : {0.0F, 1.0F, 0x1p-5F, 0x1p9F}) {
        const std::int64_t rows = 70, columns = 51;
        Values x = random_values(rows * columns, 3, -700, 700);
        for (std::size_t i = 0; i < x.size(); i += 2) x[i] *= 0x1p-9;   // below the normal numbers, too
        for (std::size_t i = 0; i < x.size(); i += 3) x[i] = std::round(x[i]) / 16;  // halves between two numbers among them
        x[0] = 0;
        x[1] = std::numeric_limits<double>::infinity();
        x[2] = -1e20;
        for (double& v : x)
          v = from == DType::bfloat16 ? static_cast<double>(to_float(to_bfloat16(static_cast<float>(v))))
                                      : static_cast<double>(static_cast<float>(v));
        const double used = scale == 0 ? 1 : static_cast<double>(scale);
        for (const int threads : {1, 3}) {
          const Quantized q = quantize(from, to, rows, columns, x, scale, threads);
          EXPECT_EQ(q.inverse, 1 / used);
          EXPECT_EQ(q.amax, std::numeric_limits<double>::infinity());
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t k = 0; k < columns; ++k) {
              const auto i = static_cast<std::size_t>(r * columns + k);
              ASSERT_EQ(q.y[i], nearest(x[i] * used, to)) << x[i] << " · " << used << " as " << to_string(to);
              ASSERT_EQ(q.transposed[static_cast<std::size_t>(k * rows + r)], q.y[i]);
            }
        }
      }
}

TEST(NativeFp8, TellsTheLargestMagnitudeAndKeepsNan) {
  Values x(600 * 100, 0.25);
  x[41234] = -9.5;
  EXPECT_EQ(quantize(DType::bfloat16, e5m2, 600, 100, x, 2, 3).amax, 9.5);
  x[777] = std::numeric_limits<double>::quiet_NaN();
  const Quantized q = quantize(DType::bfloat16, e5m2, 600, 100, x, 2, 3);
  EXPECT_TRUE(std::isinf(q.amax));
  EXPECT_TRUE(std::isnan(number_of(q.y[777], e5m2)));
}

// What a row says after magnitudes that came one behind the other.
struct Scaled {
  const char* what;
  DType type;
  int margin;
  std::vector<float> magnitudes;
  float scale;  // 0: none yet
};
const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
const Scaled scales[] = {
    {"nothing yet", e4m3, 0, {}, 0},
    {"zeros say nothing", e4m3, 0, {0, 0}, 0},
    {"the largest number stays what it is", e4m3, 0, {448}, 1},
    {"what is above it is halved", e4m3, 0, {449}, 0.5F},
    {"one becomes 256, as 512 is too much", e4m3, 0, {1}, 256},
    {"the largest of E5M2", e5m2, 0, {57344}, 1},
    {"one in E5M2", e5m2, 0, {1}, 32768},
    {"a margin of two bits", e4m3, 2, {448}, 0.25F},
    {"the largest of the history counts", e4m3, 0, {100, 448, 3}, 1},
    {"for sixteen steps", e4m3, 0, {448, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 1},
    {"and then no more", e4m3, 0, {448, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 256},
    {"a bad step changes nothing", e4m3, 0, {448, infinity, nan}, 1},
    {"nor does it stay in the history", e4m3, 0, {infinity, 7}, 64},
    {"a tiny one", e5m2, 0, {1e-38F}, 0x1p126F},
    {"a huge one", e4m3, 0, {3e38F}, 0x1p-120F},
};

TEST(NativeFp8, ScalesFollowTheHistory) {
  for (const Scaled& row : scales) {
    const Case c{"Fp8ScaleUpdate",
                 {{"to", Ints{static_cast<std::int64_t>(row.type), static_cast<std::int64_t>(e4m3)}}, {"margin", std::int64_t{row.margin}}},
                 {operand(DType::float32, {2, Fp8Row::count}), operand(DType::float32, {}, ""), operand(DType::float32, {}, "")},
                 {operand(DType::float32, {2, Fp8Row::count})}};
    Values state(2 * Fp8Row::count, 0.0);
    for (const float m : row.magnitudes) state = run_values(c, {state, {static_cast<double>(m)}, {112}})[0];
    EXPECT_EQ(state[0], static_cast<double>(row.scale)) << row.what;
    if (!row.magnitudes.empty()) {
      EXPECT_EQ(state[Fp8Row::count], row.margin == 0 ? 4 : 1) << row.what << ": the other row";
    }
  }
}

// Sums of numbers that are exact in float32: the product is too, but for the last rounding to bfloat16.
TEST(NativeFp8, ProductsAreThoseOfTheNumbers) {
  for (const bool bias : {false, true})
    for (const auto& [rows, inner, columns] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{5, 32, 16}, {48, 80, 64}, {1, 7, 3}}) {
      Case c{
          "ProductFp8",
          {},
          {operand(e5m2, {rows, inner}), operand(e4m3, {columns, inner}), operand(DType::float32, {}, ""), operand(DType::float32, {}, "")},
          {operand(DType::bfloat16, {rows, columns})},
          2};
      if (bias) c.inputs.push_back(operand(DType::bfloat16, {columns}));
      if (bias) c.attributes.set("activation", std::string("Relu"));
      const KernelDescription d = described(c);
      std::vector<Buffer> inputs;
      std::vector<Values> numbers;
      std::mt19937 random(9);
      for (std::size_t k = 0; k < 2; ++k) {
        inputs.emplace_back(d.inputs[k]);
        numbers.emplace_back();
        for (std::size_t i = 0; i < inputs[k].bytes(); ++i) {
          const std::uint8_t element = element_of(static_cast<double>(random() % 17) - 8, d.inputs[k].dtype);
          reinterpret_cast<std::uint8_t*>(inputs[k].data())[i] = element;
          numbers[k].push_back(number_of(element, d.inputs[k].dtype));
        }
      }
      inputs.emplace_back(d.inputs[2], Values{0.25});
      inputs.emplace_back(d.inputs[3], Values{0.5});
      Values b(static_cast<std::size_t>(columns), 0.0);
      for (std::size_t j = 0; j < b.size(); ++j) b[j] = bias ? static_cast<double>(j) - 8 : 0;
      if (bias) inputs.emplace_back(d.inputs[4], b);
      const Values y = run(d, inputs)[0].values();
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) {
          double sum = 0;
          for (std::int64_t k = 0; k < inner; ++k)
            sum += numbers[0][static_cast<std::size_t>(i * inner + k)] * numbers[1][static_cast<std::size_t>(j * inner + k)];
          sum = sum / 8 + b[static_cast<std::size_t>(j)];
          if (bias) sum = std::max(0.0, sum);
          ASSERT_EQ(y[static_cast<std::size_t>(i * columns + j)], static_cast<double>(to_float(to_bfloat16(static_cast<float>(sum)))))
              << i << ", " << j;
        }
    }
}

}  // namespace
}  // namespace tandem::native_tests
