// Integers that a timed kernel is given: of each row's kernel as the CPU's backend describes it, and found in memory while it runs.
#include "kernels/timed_operands.h"

#include <set>

#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

struct Row {
  const char* name;
  Case kernel;
  std::size_t input;
  TimedIntegers wanted;
};

Case recurrence(bool backward) {
  const std::int64_t T = 9, B = 3, H = 4;
  const auto real = [](const Shape& shape) { return plain(DType::float32, shape); };
  const Operand gates = real({T, B, 4 * H}), matrix = real({1, 4 * H, H}), state = real({1, B, H}), saved = real({1, T, B, 6 * H}),
                steps = real({T, 1, B, H}), lengths = plain(DType::int32, {B});
  Case c{"RecurrentTraining",
         {{"cell", std::string("LSTM")}, {"direction", std::string("forward")}},
         {gates, matrix, {}, {}, lengths},
         {steps, state, state, saved}};
  if (!backward) return c;
  c.op = "RecurrentBackward";
  c.inputs = {matrix, saved, lengths, steps};
  c.outputs = {gates, state, state, matrix};
  return c;
}

Case picking(std::string_view op, Shape data, Shape indices, Shape picked, Attributes attributes) {
  return {op, std::move(attributes), {plain(DType::float32, data), plain(DType::int64, indices)}, {plain(DType::float32, picked)}};
}
Case scattering(std::string_view op, Shape data, Shape indices, Shape updates) {
  return {op,
          {{"axis", std::int64_t{0}}},
          {plain(DType::float32, data), plain(DType::int64, indices), plain(DType::float32, updates)},
          {plain(DType::float32, data)}};
}

const Attributes second{{"axis", std::int64_t{1}}}, backward{{"axis", std::int64_t{1}}, {"input_shape", Ints{2, 50, 3}}};
const Row rows[] = {
    {"lengths", recurrence(false), 4, {9, 9}},
    {"lengths_of_the_gradient", recurrence(true), 2, {9, 9}},
    {"rows_of_a_table", picking("Gather", {1000, 6}, {4, 5}, {4, 5, 6}, {{"axis", std::int64_t{0}}}), 1, {0, 999}},
    {"along_another_axis", picking("Gather", {2, 50, 3}, {7}, {2, 7, 3}, second), 1, {0, 49}},
    {"of_two_axes_the_smaller", picking("Gather", {3, 5}, {1}, {3, 1}, second), 1, {0, 4}},
    {"gradient_of_rows", picking("GatherBackward", {2, 7, 3}, {7}, {2, 50, 3}, backward), 1, {0, 49}},
    {"elements", picking("GatherElements", {2, 50}, {2, 9}, {2, 9}, second), 1, {0, 1}},
    {"scattered_rows", scattering("ScatterND", {40, 6}, {5, 1}, {5, 6}), 1, {0, 5}},
};

class TimedIntegersOf : public testing::TestWithParam<Row> {};

TEST_P(TimedIntegersOf, AreThoseOfItsOperands) {
  const Row& row = GetParam();
  const KernelDescription d = described(row.kernel);
  const std::optional<TimedIntegers> got = timed_integers(d, row.input);
  ASSERT_TRUE(got) << d.kernel;
  EXPECT_EQ(got->least, row.wanted.least);
  EXPECT_EQ(got->most, row.wanted.most);
  EXPECT_FALSE(timed_integers(d, 0));
}
INSTANTIATE_TEST_SUITE_P(Rows, TimedIntegersOf, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

// The second operand's bytes, as the backend fills them.
class Reader final : public Kernel {
 public:
  explicit Reader(std::vector<std::byte>& seen) : seen_(seen) {}
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const>, std::byte*) override { from_ = inputs[1]; }
  void run(StreamHandle) override { std::memcpy(seen_.data(), from_, seen_.size()); }

 private:
  std::vector<std::byte>& seen_;
  const std::byte* from_ = nullptr;
};

std::vector<std::int64_t> given_by_the_cpu(KernelDescription d) {
  std::vector<std::byte> seen(static_cast<std::size_t>(d.inputs[1].bytes()));
  d.workspace = 0;
  d.make = [&] { return std::make_unique<Reader>(seen); };
  cpu_backend().measure(d, {});
  std::vector<std::int64_t> values(static_cast<std::size_t>(d.inputs[1].shape.elements()));
  visit_number(d.inputs[1].dtype, [&]<class T>() {
    for (std::size_t i = 0; i < values.size(); ++i) {
      T v;
      std::memcpy(&v, seen.data() + i * sizeof(T), sizeof(T));
      values[i] = static_cast<std::int64_t>(v);
    }
  });
  return values;
}

TEST(TimedOperands, OfACpuAreIndicesThatDiffer) {
  const Case rows_of_a_table = picking("Gather", {1000, 6}, {400}, {400, 6}, {{"axis", std::int64_t{0}}});
  const std::vector<std::int64_t> values = given_by_the_cpu(described(rows_of_a_table));
  EXPECT_GT(std::set(values.begin(), values.end()).size(), 300U);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), 0);
  EXPECT_LE(*std::max_element(values.begin(), values.end()), 999);
}

TEST(TimedOperands, OfACpuAreMixedMasks) {
  const Operand x = plain(DType::float32, {400});
  KernelDescription d{.kernel = "reader", .inputs = {x, plain(DType::boolean, {400})}, .outputs = {x}};
  const std::vector<std::int64_t> values = given_by_the_cpu(d);
  EXPECT_EQ((std::set(values.begin(), values.end())), (std::set<std::int64_t>{0, 1}));
}

}  // namespace
}  // namespace tandem::native_tests
