// Which indices an input may hold follows from what its readers' rows say of them.
#include "trainer/feed/index_range.h"

#include <gtest/gtest.h>

#include "graph/operator.h"

namespace tandem {
namespace {

struct Row {
  const char* name;
  ValueId (*make)(GraphBuilder&, ValueId indices);  // of int64[4]
  IndexRange wanted;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

ValueId table(GraphBuilder& b, Shape shape) {
  return b.graph().add_parameter("table", {DType::float32, std::move(shape)}, std::nullopt, true);
}

const Row rows[] = {
    {"nobody picks by them",
     [](GraphBuilder& b, ValueId i) {
       return b.emit("Cast", {i}, {{"to", std::int64_t{1}}});
     },
     {}},
    {"rows of a table",
     [](GraphBuilder& b, ValueId i) {
       return b.emit("Gather", {table(b, {7, 3}), i});
     },
     {.lowest = -7, .count = 7}},
    {"columns of a table",
     [](GraphBuilder& b, ValueId i) {
       return b.emit("Gather", {table(b, {7, 3}), i}, {{"axis", std::int64_t{1}}});
     },
     {.lowest = -3, .count = 3}},
    {"behind views",
     [](GraphBuilder& b, ValueId i) {
       const ValueId narrow = b.emit("Cast", {b.reshape(i, {2, 2})}, {{"to", std::int64_t{6}}});
       return b.emit("Gather", {table(b, {7, 3}), b.emit("Concat", {narrow, narrow}, {{"axis", std::int64_t{0}}})});
     },
     {.lowest = -7, .count = 7}},
    {"the smaller of two tables",
     [](GraphBuilder& b, ValueId i) {
       return b.add(b.emit("Gather", {table(b, {7, 3}), i}), b.emit("Gather", {table(b, {5, 3}), i}));
     },
     {.lowest = -5, .count = 5}},
    {"what is sorted is no place",
     [](GraphBuilder& b, ValueId i) {
       const std::vector<ValueId> sorted = b.emit("TopK", {i}, {{"k", std::int64_t{2}}, {"axis", std::int64_t{0}}}, 2);
       return b.emit("Gather", {table(b, {7, 3}), sorted[1]});
     },
     {}},
    {"labels",
     [](GraphBuilder& b, ValueId i) {
       return b.emit("NegativeLogLikelihoodLoss", {table(b, {4, 9}), i}, {{"ignore_index", std::int64_t{-100}}});
     },
     {.count = 9, .ignored = -100}},
};

class IndexRanges : public testing::TestWithParam<Row> {};

TEST_P(IndexRanges, FollowFromTheRows) {
  Graph g;
  const ValueId i = g.add_input("i", {DType::int64, {4}});
  GraphBuilder b(g, "b", {});
  g.outputs = {GetParam().make(b, i)};
  const IndexRange got = index_range(g, i);
  EXPECT_EQ(got.lowest, GetParam().wanted.lowest);
  EXPECT_EQ(got.count, GetParam().wanted.count);
  EXPECT_EQ(got.ignored, GetParam().wanted.ignored);
}

INSTANTIATE_TEST_SUITE_P(All, IndexRanges, testing::ValuesIn(rows));

}  // namespace
}  // namespace tandem
