#include <array>

#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

using Index = std::vector<std::int64_t>;

Index index_of(const Shape& s, std::int64_t number) {
  Index index(static_cast<std::size_t>(s.rank()));
  for (std::size_t axis = index.size(); axis-- > 0; number /= s.dims[axis]) index[axis] = number % s.dims[axis];
  return index;
}
std::size_t number_of(const Shape& s, const Index& index) {
  std::int64_t n = 0;
  for (std::size_t axis = 0; axis < index.size(); ++axis) n = n * s.dims[axis] + index[axis];
  return static_cast<std::size_t>(n);
}

// y[i] = x[f(i)], or `value` where f gives nothing.
template <class F>
Values moved(const Shape& x, const Values& vx, const Shape& y, double value, F f) {
  Values out;
  for (std::int64_t i = 0; i < y.elements(); ++i) {
    Index at = index_of(y, i);
    const bool inside = f(at);
    out.push_back(inside ? vx[number_of(x, at)] : value);
  }
  return out;
}

const std::array<const char*, 8> tags4 = {"abcd", "acdb", "aBcd16b", "aBcd8b", "ABcd16b16a", "ABcd4b16a4b", "cdba", "Abcd8a"};

TEST(NativeMovement, ReordersBetweenAllLayouts) {
  for (const Shape& shape : {Shape{5, 37, 3, 2}, Shape{16, 32, 1, 3}, Shape{1, 3, 9, 11}, Shape{40, 3, 2, 2}})
    for (const char* from : tags4)
      for (const char* to : tags4)
        for (const DType dtype : {DType::float32, DType::float64, DType::int8}) {
          const Case c{"Reorder", {}, {operand(dtype, shape, from)}, {operand(dtype, shape, to)}, 2};
          const Values v = random_values(shape.elements(), 3, -100, 100);
          Values wanted = v;
          if (dtype == DType::int8)
            for (double& w : wanted) w = std::trunc(w);
          EXPECT_EQ(run_values(c, {v})[0], wanted) << from << " -> " << to << " " << to_string(shape);
        }
}

TEST(NativeMovement, FiltersOfSixteenBitsChangeTheirBlocks) {
  for (const Shape& shape : {Shape{5, 37, 3, 2}, Shape{96, 64, 1, 1}, Shape{33, 20, 5}, Shape{70, 130}})
    for (const DType dtype : {DType::bfloat16, DType::float16})
      for (const std::string outer : {"AB", "BA"}) {
        const std::string spatial = std::string("cd").substr(0, static_cast<std::size_t>(shape.rank()) - 2);
        Values v(static_cast<std::size_t>(shape.elements()));
        for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>(i % 251);  // exact in 8 bits
        const Case c{
            "Reorder", {}, {operand(dtype, shape, outer + spatial + "16b16a")}, {operand(dtype, shape, outer + spatial + "8b16a2b")}, 2};
        EXPECT_EQ(described(c).kernel, "native.reorder.filter");
        EXPECT_EQ(run_values(c, {v})[0], v) << outer << ' ' << to_string(shape);
      }
}

TEST(NativeMovement, ReordersAndReshapesBetweenShapes) {
  const Values v = random_values(8 * 20 * 6, 1);
  for (const char* op : {"Reorder", "Reshape"})
    for (const char* from : {"abcd", "aBcd16b", "acdb"})
      for (const char* to : {"ab", "aB8b"}) {
        const Case c{op, {}, {operand(DType::float32, {8, 20, 3, 2}, from)}, {operand(DType::float32, {8, 120}, to)}};
        EXPECT_EQ(run_values(c, {v})[0], v) << op << " " << from << " -> " << to;
      }
  const Case scalar{"Reshape", {}, {operand(DType::float32, {1, 1})}, {operand(DType::float32, {})}};
  EXPECT_EQ(run_values(scalar, {{5}})[0], Values{5});
  const Case large{"Reshape", {}, {operand(DType::float32, {300, 70})}, {operand(DType::float32, {21000})}, 3};
  const Values w = random_values(21000, 2);
  EXPECT_EQ(run_values(large, {w})[0], w);
}

struct Moved {
  const char* name;
  const char* op;
  Attributes attributes;
  Shape x, y;
  double value;
  bool (*f)(Index&, const Shape& x);
};

Ints ints(std::initializer_list<std::int64_t> list) { return Ints(list); }

std::int64_t reflected(std::int64_t i, std::int64_t n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }

const Moved moves[] = {
    {"channels inside", "Slice", {{"starts", ints({16})}, {"ends", ints({32})}, {"axes", ints({1})}, {"steps", ints({1})}}, {2, 48, 3, 5}, {2, 16, 3, 5}, 0,
     [](Index& i, const Shape&) { i[1] += 16; return true; }},
    {"channels across blocks", "Slice", {{"starts", ints({5})}, {"ends", ints({42})}, {"axes", ints({1})}}, {2, 48, 3, 5}, {2, 37, 3, 5}, 0,
     [](Index& i, const Shape&) { i[1] += 5; return true; }},
    {"backwards in steps", "Slice", {{"starts", ints({6, 1})}, {"ends", ints({-8, 5})}, {"axes", ints({2, 3})}, {"steps", ints({-2, 3})}}, {2, 20, 7, 5}, {2, 20, 4, 2}, 0,
     [](Index& i, const Shape&) { i[2] = 6 - 2 * i[2]; i[3] = 1 + 3 * i[3]; return true; }},
    {"nothing", "Slice", {{"starts", ints({3})}, {"ends", ints({3})}, {"axes", ints({1})}}, {2, 20, 2, 5}, {2, 0, 2, 5}, 0, [](Index&, const Shape&) { return true; }},
    {"back to channels", "SliceBackward", {{"starts", ints({5})}, {"ends", ints({42})}, {"axes", ints({1})}, {"input_shape", ints({2, 48, 3, 5})}}, {2, 37, 3, 5}, {2, 48, 3, 5}, 0,
     [](Index& i, const Shape&) { i[1] -= 5; return i[1] >= 0 && i[1] < 37; }},
    {"back from steps", "SliceBackward", {{"starts", ints({6})}, {"ends", ints({-8})}, {"axes", ints({2})}, {"steps", ints({-2})}, {"input_shape", ints({2, 20, 7, 3})}}, {2, 20, 4, 3}, {2, 20, 7, 3}, 0,
     [](Index& i, const Shape&) { const bool hit = i[2] % 2 == 0; i[2] = (6 - i[2]) / 2; return hit; }},
    {"zeros around", "Pad", {{"pads", ints({0, 0, 1, 2, 0, 0, 3, 1})}, {"mode", "constant"}, {"value", 0.0F}}, {2, 20, 3, 4}, {2, 20, 7, 7}, 0,
     [](Index& i, const Shape& x) { i[2] -= 1; i[3] -= 2; return i[2] >= 0 && i[2] < x[2] && i[3] >= 0 && i[3] < x[3]; }},
    {"a constant, channels too, one side cropped", "Pad", {{"pads", ints({0, 3, -1, 0, 0, 2, 0, 1})}, {"mode", "constant"}, {"value", 2.5F}}, {2, 20, 3, 4}, {2, 25, 2, 5}, 2.5,
     [](Index& i, const Shape& x) { i[1] -= 3; i[2] += 1; return i[1] >= 0 && i[1] < x[1] && i[3] < x[3]; }},
    {"reflected", "Pad", {{"pads", ints({0, 0, 2, 3, 0, 0, 1, 2})}, {"mode", "reflect"}, {"value", 0.0F}}, {2, 20, 3, 4}, {2, 20, 6, 9}, 0,
     [](Index& i, const Shape& x) { i[2] = reflected(i[2] - 2, x[2]); i[3] = reflected(i[3] - 3, x[3]); return true; }},
    {"edges repeated", "Pad", {{"pads", ints({0, 0, 2, 3, 0, 0, 1, 2})}, {"mode", "edge"}, {"value", 0.0F}}, {2, 20, 3, 4}, {2, 20, 6, 9}, 0,
     [](Index& i, const Shape& x) { i[2] = std::clamp<std::int64_t>(i[2] - 2, 0, x[2] - 1); i[3] = std::clamp<std::int64_t>(i[3] - 3, 0, x[3] - 1); return true; }},
    {"wrapped around", "Pad", {{"pads", ints({0, 0, 2, 3, 0, 0, 1, 2})}, {"mode", "wrap"}, {"value", 0.0F}}, {2, 20, 3, 4}, {2, 20, 6, 9}, 0,
     [](Index& i, const Shape& x) { i[2] = (i[2] - 2 + 3 * x[2]) % x[2]; i[3] = (i[3] - 3 + 4 * x[3]) % x[3]; return true; }},
    {"back from a constant", "PadBackward", {{"pads", ints({0, 3, -1, 0, 0, 2, 0, 1})}, {"mode", "constant"}, {"value", 2.5F}, {"input_shape", ints({2, 20, 3, 4})}}, {2, 25, 2, 5}, {2, 20, 3, 4}, 0,
     [](Index& i, const Shape&) { i[1] += 3; i[2] -= 1; return i[2] >= 0; }},
    {"along two axes", "Expand", {{"shape", ints({3, 20, 5, 4})}}, {1, 20, 1, 4}, {3, 20, 5, 4}, 0, [](Index& i, const Shape&) { i[0] = i[2] = 0; return true; }},
    {"with new axes", "Expand", {{"shape", ints({3, 20, 5, 4})}}, {5, 1}, {3, 20, 5, 4}, 0, [](Index& i, const Shape&) { i = {i[2], 0}; return true; }},
    {"all axes", "Tile", {{"repeats", ints({2, 3, 1, 2})}}, {2, 5, 3, 4}, {4, 15, 3, 8}, 0, [](Index& i, const Shape&) { i[0] %= 2; i[1] %= 5; i[3] %= 4; return true; }},
    {"to channels last", "Transpose", {{"perm", ints({0, 2, 3, 1})}}, {3, 20, 4, 5}, {3, 4, 5, 20}, 0, [](Index& i, const Shape&) { i = {i[0], i[3], i[1], i[2]}; return true; }},
    {"around", "Transpose", {}, {3, 20, 4, 5}, {5, 4, 20, 3}, 0, [](Index& i, const Shape&) { i = {i[3], i[2], i[1], i[0]}; return true; }},
    {"a large matrix", "Transpose", {{"perm", ints({1, 0})}}, {150, 301}, {301, 150}, 0, [](Index& i, const Shape&) { i = {i[1], i[0]}; return true; }},
};

TEST(NativeMovement, EveryOperatorInEveryLayout) {
  for (const Moved& m : moves)
    for (const char* tag : {"abcd", "acdb", "aBcd16b", "aBcd8b"})
      for (const char* tag_y : {"", "abcd", "aBcd16b"}) {
        if (m.x.rank() != 4 && std::string_view(tag) != "abcd") continue;
        if (m.y.rank() != 4 && *tag_y) continue;
        Case c{m.op, m.attributes, {operand(DType::float32, m.x, m.x.rank() == 4 ? tag : "")}, {operand(DType::float32, m.y, tag_y)}, 2};
        const Values v = random_values(m.x.elements(), 5);
        const auto f = [&](Index& i) { return m.f(i, m.x); };
        EXPECT_EQ(run_values(c, {v})[0], moved(m.x, v, m.y, m.value, f)) << m.op << ": " << m.name << ", " << tag << " -> " << tag_y;
      }
}

TEST(NativeMovement, SquaresAndWhatIsLeftOfThemAreTransposedOnEveryInstructionSet) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    for (const DType dtype : {DType::bfloat16, DType::float32, DType::uint8, DType::float64})
      for (const Shape& x : {Shape{64, 64}, Shape{32, 16}, Shape{37, 29}, Shape{1, 70}, Shape{130, 3}, Shape{65, 150}}) {
        Values v, wanted;
        for (std::int64_t i = 0; i < x.elements(); ++i) v.push_back(static_cast<double>(i * 7 % 251));
        for (std::int64_t i = 0; i < x[1]; ++i)
          for (std::int64_t j = 0; j < x[0]; ++j) wanted.push_back(v[static_cast<std::size_t>(j * x[1] + i)]);
        const Case c{"Transpose", {{"perm", ints({1, 0})}}, {plain(dtype, x)}, {plain(dtype, {x[1], x[0]})}, 2};
        EXPECT_EQ(run_values(c, {v})[0], wanted) << concat(x, " ", dtype, " ", isa);
      }
  }
}

TEST(NativeMovement, WholeNumbersMoveToo) {
  const Case pad{
      "Pad", {{"pads", ints({1, 1})}, {"mode", "constant"}, {"value", 7.0F}}, {operand(DType::int64, {2})}, {operand(DType::int64, {4})}};
  EXPECT_EQ(run_values(pad, {{-1, 5}})[0], (Values{7, -1, 5, 7}));
  const Case transpose{"Transpose", {{"perm", ints({1, 0})}}, {operand(DType::boolean, {2, 3})}, {operand(DType::boolean, {3, 2})}};
  EXPECT_EQ(run_values(transpose, {{1, 0, 0, 1, 1, 0}})[0], (Values{1, 1, 0, 1, 0, 0}));
}

// Each element's gradient is the sum over the places it was copied to.
TEST(NativeMovement, GradientsOfBordersSum) {
  const Shape x{2, 20, 3, 4}, y{2, 20, 6, 9};
  for (const Moved& m : moves) {
    if (std::string_view(m.op) != "Pad" || m.attributes.text("mode") == "constant") continue;
    for (const char* tag : {"abcd", "aBcd16b"}) {
      Attributes attributes = m.attributes;
      attributes.set("input_shape", x.dims);
      const Case c{"PadBackward", attributes, {operand(DType::float64, y, tag)}, {operand(DType::float64, x)}};
      const Values dy = random_values(y.elements(), 9);
      Values wanted(static_cast<std::size_t>(x.elements()), 0);
      for (std::int64_t i = 0; i < y.elements(); ++i) {
        Index at = index_of(y, i);
        m.f(at, x);
        wanted[number_of(x, at)] += dy[static_cast<std::size_t>(i)];
      }
      const Values got = run_values(c, {dy})[0];
      for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-13) << m.name << " " << tag;
    }
  }
}

TEST(NativeMovement, ConcatJoinsAnyWidthsInAnyLayouts) {
  for (const std::int64_t axis : {1, 2})
    for (const char* tag : {"abcd", "acdb", "aBcd16b", "aBcd8b"}) {
      const std::array<std::int64_t, 3> widths = {7, 16, 9};
      Case c{"Concat", {{"axis", axis}}, {}, {}};
      Shape y{2, 20, 3, 5};
      y[static_cast<int>(axis)] = 32;
      std::vector<Values> parts;
      Values wanted(static_cast<std::size_t>(y.elements()));
      std::int64_t begin = 0;
      for (const std::int64_t w : widths) {
        Shape x = y;
        x[static_cast<int>(axis)] = w;
        c.inputs.push_back(operand(DType::float32, x, tag));
        parts.push_back(random_values(x.elements(), static_cast<unsigned>(w)));
        for (std::int64_t i = 0; i < x.elements(); ++i) {
          Index at = index_of(x, i);
          at[static_cast<std::size_t>(axis)] += begin;
          wanted[number_of(y, at)] = parts.back()[static_cast<std::size_t>(i)];
        }
        begin += w;
      }
      c.outputs = {operand(DType::float32, y)};
      EXPECT_EQ(run_values(c, parts)[0], wanted) << tag << " along " << axis;
    }
}

TEST(NativeMovement, FillsLeavePaddingZero) {
  for (const char* tag : {"abcd", "aBcd16b", "ABcd16b16a"}) {
    const Case c{"Fill", {{"value", 1.5F}}, {}, {operand(DType::float32, {3, 20, 3, 5}, tag)}};
    EXPECT_EQ(run_values(c, {})[0], Values(900, 1.5)) << tag;
  }
  EXPECT_EQ(run_values({"Fill", {{"value", std::int64_t{-3}}}, {}, {operand(DType::int64, {2})}}, {})[0], (Values{-3, -3}));
}

TEST(NativeMovement, GatherTakesRowsAndNothingFromOutside) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Case rows{"Gather",
                  {{"axis", std::int64_t{0}}},
                  {plain(DType::float32, {3, 2}), plain(DType::int64, {2, 2})},
                  {plain(DType::float32, {2, 2, 2})}};
  expect_near(run_values(rows, {{1, 2, 3, 4, 5, 6}, {2, -3, 3, 0}})[0], {5, 6, 1, 2, nan, nan, 1, 2}, 0, "rows");
  const Case columns{
      "Gather", {{"axis", std::int64_t{1}}}, {plain(DType::int32, {2, 3}), plain(DType::int32, {2})}, {plain(DType::int32, {2, 2})}};
  EXPECT_EQ(run_values(columns, {{1, 2, 3, 4, 5, 6}, {2, -4}})[0], (Values{3, 0, 6, 0}));
}

TEST(NativeMovement, GatherBackwardSumsRepeatedRows) {
  for (const int threads : {1, 4})
    for (const std::int64_t n : {50, 5000}) {
      const std::int64_t outer = 3, count = 400, inner = 60;
      const Case c{"GatherBackward",
                   {{"axis", std::int64_t{1}}, {"input_shape", ints({outer, n, inner})}},
                   {plain(DType::float32, {outer, count, inner}), plain(DType::int64, {count})},
                   {plain(DType::float32, {outer, n, inner})},
                   threads};
      const Values dy = random_values(outer * count * inner, 1);
      Values indices, wanted(static_cast<std::size_t>(outer * n * inner), 0);
      for (std::int64_t i = 0; i < count; ++i) indices.push_back(static_cast<double>(i % 100 * 67 % (n + 3) - (i % 2 ? n : 0)));
      for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t i = 0; i < count; ++i) {
          auto row = static_cast<std::int64_t>(indices[static_cast<std::size_t>(i)]);
          row += row < 0 ? n : 0;
          if (row < 0 || row >= n) continue;
          for (std::int64_t j = 0; j < inner; ++j)
            wanted[static_cast<std::size_t>((o * n + row) * inner + j)] += dy[static_cast<std::size_t>((o * count + i) * inner + j)];
        }
      const Values got = run_values(c, {dy, indices})[0];
      for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 2e-5) << threads;
    }
}

TEST(NativeMovement, GatherElementsTakesEachAndNothingFromOutside) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Case columns{"GatherElements",
                     {{"axis", std::int64_t{0}}},
                     {plain(DType::float32, {3, 2}), plain(DType::int64, {2, 2})},
                     {plain(DType::float32, {2, 2})}};
  expect_near(run_values(columns, {{1, 2, 3, 4, 5, 6}, {2, -3, 3, 0}})[0], {5, 2, nan, 2}, 0, "columns");
  const Case rows{"GatherElements",
                  {{"axis", std::int64_t{1}}},
                  {plain(DType::int32, {2, 3}), plain(DType::int32, {2, 2})},
                  {plain(DType::int32, {2, 2})}};
  EXPECT_EQ(run_values(rows, {{1, 2, 3, 4, 5, 6}, {2, -4, 0, -1}})[0], (Values{3, 0, 4, 6}));
}

TEST(NativeMovement, GatherElementsBackwardSumsRepeatedElements) {
  for (const int threads : {1, 4}) {
    const std::int64_t outer = 3, n = 50, count = 400, inner = 61;
    const Case c{"GatherElementsBackward",
                 {{"axis", std::int64_t{1}}, {"input_shape", ints({outer, n, inner})}},
                 {plain(DType::float32, {outer, count, inner}), plain(DType::int64, {outer, count, inner})},
                 {plain(DType::float32, {outer, n, inner})},
                 threads};
    const Values dy = random_values(outer * count * inner, 1);
    Values indices, wanted(static_cast<std::size_t>(outer * n * inner), 0);
    for (std::int64_t i = 0; i < outer * count * inner; ++i) {
      const std::int64_t given = i * 7 % (n + 3) - (i % 2 ? n : 0), to = given + (given < 0 ? n : 0);
      indices.push_back(static_cast<double>(given));
      if (to < n) wanted[static_cast<std::size_t>((i / inner / count * n + to) * inner + i % inner)] += dy[static_cast<std::size_t>(i)];
    }
    const Values got = run_values(c, {dy, indices})[0];
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 2e-5) << threads;
  }
}

}  // namespace
}  // namespace tandem::native_tests
