// Resample against sums over its tables, in every layout and type; tables with entries of none, one and many, and of what is
// outside of the axis.
#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

struct Table {
  Values starts{0}, index, weight;
  std::int64_t size() const { return std::ssize(starts) - 1; }
};

Table random_table(std::mt19937& random, std::int64_t size, std::int64_t n, int least, int most) {
  const auto between = [&](std::int64_t low, std::int64_t high) { return std::uniform_int_distribution<std::int64_t>(low, high)(random); };
  Table t;
  for (std::int64_t i = 0; i < size; ++i) {
    if (i > 0 && between(0, 2) == 0 && t.starts[t.starts.size() - 1] > t.starts[t.starts.size() - 2]) {  // as the entry before
      const auto from = static_cast<std::size_t>(t.starts[t.starts.size() - 2]), to = static_cast<std::size_t>(t.starts.back());
      for (std::size_t k = from; k < to; ++k) {
        t.index.push_back(t.index[k]);
        t.weight.push_back(t.weight[k]);
      }
    } else {
      for (std::int64_t k = between(least, most); k > 0; --k) {
        t.index.push_back(static_cast<double>(between(0, n - 1)));
        t.weight.push_back(static_cast<double>(between(-4, 4)) / 4);
      }
    }
    t.starts.push_back(static_cast<double>(t.index.size()));
  }
  return t;
}

Values resampled(const Values& x, const Shape& shape, int axis, const Table& t, bool weighted) {
  std::int64_t inner = 1, outer = 1;
  for (int i = 0; i < shape.rank(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : shape[i];
  Values y;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::size_t i = 0; i + 1 < t.starts.size(); ++i)
      for (std::int64_t c = 0; c < inner; ++c) {
        double sum = 0;
        for (auto k = static_cast<std::size_t>(t.starts[i]); k < static_cast<std::size_t>(t.starts[i + 1]); ++k)
          if (t.index[k] >= 0 && t.index[k] < static_cast<double>(shape[axis]))
            sum += (weighted ? t.weight[k] : 1) *
                   x[static_cast<std::size_t>((o * shape[axis] + static_cast<std::int64_t>(t.index[k])) * inner + c)];
        y.push_back(sum);
      }
  return y;
}

struct Row {
  const char* name;
  Shape x;
  int axis, axes;
  std::int64_t sizes[2];
  bool weighted;
  int least, most;  // terms of an entry
};
const Row rows[] = {
    {"two axes, moved", {2, 5, 3, 4}, 2, 2, {6, 9}, false, 1, 1},
    {"two axes, weighted", {2, 20, 5, 7}, 2, 2, {3, 8}, true, 0, 4},
    {"two axes, summed", {1, 3, 6, 5}, 2, 2, {3, 2}, false, 0, 3},
    {"the last axis", {3, 2, 3, 7}, 3, 1, {5, 0}, true, 1, 2},
    {"an axis before others", {2, 3, 5, 18}, 2, 1, {9, 0}, true, 0, 3},
    {"channels", {2, 5, 3, 2}, 1, 1, {7, 0}, true, 1, 3},
    {"channels and lines", {2, 5, 3, 2}, 1, 2, {4, 5}, false, 1, 1},
    {"samples", {4, 3, 1, 2}, 0, 1, {6, 0}, false, 1, 1},
    {"nothing", {2, 3, 4, 4}, 2, 2, {0, 3}, true, 1, 1},
};

TEST(NativeResample, SumsWhatItsTablesName) {
  std::mt19937 random(5);
  for (const Row& row : rows)
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16, DType::int64, DType::uint8})
      for (const char* tag : {"abcd", "acdb", "aBcd16b", "aBcd8b", "cdba"})
        for (const int threads : {1, 3}) {
          if (!is_float(dtype) && (row.weighted || row.most > 1)) continue;
          Shape y = row.x;
          const DType weights = dtype == DType::float64 ? DType::float64 : DType::float32;
          Case c{"Resample", {{"axis", std::int64_t{row.axis}}}, {operand(dtype, row.x, tag)}, {}, threads};
          std::vector<Values> values{random_values(row.x.elements(), 7, 0, 8)};
          for (double& v : values[0]) v = std::floor(v);  // sums are then exact in all types
          Values wanted = values[0];
          for (int a = 0; a < row.axes; ++a) {
            const int axis = row.axis + a;
            const Table t = random_table(random, row.sizes[a], row.x[axis], row.least, row.most);
            wanted = resampled(wanted, y, axis, t, row.weighted);
            y[axis] = row.sizes[a];
            values.insert(values.end(), {t.starts, t.index});
            c.inputs.insert(c.inputs.end(), {plain(DType::int32, {t.size() + 1}), plain(DType::int32, {std::ssize(t.index)})});
            if (row.weighted) values.push_back(t.weight);
            if (row.weighted) c.inputs.push_back(plain(weights, {std::ssize(t.index)}));
            if (!row.weighted && a + 1 < row.axes) values.emplace_back();
            if (!row.weighted && a + 1 < row.axes) c.inputs.emplace_back();
          }
          c.outputs = {operand(dtype, y)};
          const Values got = run_values(c, values)[0];
          ASSERT_EQ(got.size(), wanted.size()) << row.name;
          for (std::size_t i = 0; i < got.size(); ++i)
            ASSERT_NEAR(got[i], wanted[i],
                        dtype == DType::bfloat16  ? 0.004 * std::abs(wanted[i])
                        : dtype == DType::float16 ? 0.0005 * std::abs(wanted[i])
                                                  : 1e-5)
                << row.name << ' ' << name_of(dtype) << ' ' << tag << " at " << i;
        }
}

// A plan's tables may come from anywhere: memory outside of the operands is not read.
TEST(NativeResample, LeavesOutWhatIsOutsideOfTheAxis) {
  Case c{"Resample",
         {{"axis", std::int64_t{1}}},
         {plain(DType::float32, {1, 3}), plain(DType::int32, {5}), plain(DType::int32, {3})},
         {plain(DType::float32, {1, 4})}};
  EXPECT_EQ(run_values(c, {{1, 2, 4}, {-9, 1, 2, 3, 99}, {-1, 3, 1}})[0], (Values{0, 0, 2, 0}));
  EXPECT_EQ(run_values(c, {{1, 2, 4}, {2, 0, 3, 3, 3}, {0, 1, 2}})[0], (Values{0, 7, 0, 0}));
}

// Twice as long and back, which have loops of their own.
TEST(NativeResample, DoublesAndAddsUpPairs) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::int64}) {
    for (const std::int64_t size : {6, 5}) {
      Values starts{0}, index, wanted;
      for (std::int64_t i = 0; i < size; ++i) {
        index.push_back(static_cast<double>(i / 2));
        starts.push_back(static_cast<double>(index.size()));
        wanted.push_back(static_cast<double>(1 + i / 2));
      }
      const Case twice{"Resample",
                       {{"axis", std::int64_t{1}}},
                       {plain(dtype, {1, 3}), plain(DType::int32, {size + 1}), plain(DType::int32, {size})},
                       {plain(dtype, {1, size})}};
      EXPECT_EQ(run_values(twice, {{1, 2, 3}, starts, index})[0], wanted);
    }
    if (!is_float(dtype)) continue;
    const Case pairs{"Resample",
                     {{"axis", std::int64_t{1}}},
                     {plain(dtype, {2, 5}), plain(DType::int32, {3}), plain(DType::int32, {4})},
                     {plain(dtype, {2, 2})}};
    EXPECT_EQ(run_values(pairs, {{1, 2, 4, 8, 16, 3, 5, 7, 9, 11}, {0, 2, 4}, {0, 1, 2, 3}})[0], (Values{3, 12, 8, 16}));
  }
}

TEST(NativeResample, KeepsTheLayoutsOfConvolutions) {
  for (const char* tag : {"acdb", "aBcd16b"}) {
    const Case c{"Resample",
                 {{"axis", std::int64_t{2}}},
                 {operand(DType::float32, {2, 32, 4, 4}, tag),
                  plain(DType::int32, {9}),
                  plain(DType::int32, {8}),
                  {},
                  plain(DType::int32, {9}),
                  plain(DType::int32, {8})},
                 {operand(DType::float32, {2, 32, 8, 8})}};
    const KernelDescription d = described(c);
    EXPECT_EQ(d.inputs[0].layout.tag(), tag);
    EXPECT_EQ(d.outputs[0].layout.tag(), tag);
  }
}

}  // namespace
}  // namespace tandem::native_tests
