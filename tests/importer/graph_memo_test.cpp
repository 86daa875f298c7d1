// A file's graphs are kept by their options: asked for again, none is built, and what was handed out is nobody else's.
#include <gtest/gtest.h>

#include <thread>

#include "importer/model_file.h"
#include "tests/importer/model_builder.h"

namespace tandem {
namespace {

ModelFile lenet() { return ModelFile::read(std::string(TANDEM_SOURCE_DIR) + "/models/lenet.onnx"); }

struct Row {
  const char* name;
  std::vector<ImportOptions> asked;
  std::int64_t built;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::vector<ImportOptions> batches(std::initializer_list<std::int64_t> list) {
  std::vector<ImportOptions> asked;
  for (const std::int64_t batch : list) asked.push_back({.batch = batch});
  return asked;
}

const Row rows[] = {
    {"the_same", batches({4, 4, 4}), 1},
    {"another_batch", batches({4, 8, 4, 8}), 2},
    {"another_use", {{.batch = 4}, {.batch = 4, .training = false}}, 2},
    {"equal_constants", {{.batch = 1, .constants = {{"x", Tensor::scalar(1.0F)}}}, {.batch = 1, .constants = {{"x", Tensor::scalar(1.0F)}}}}, 1},
    {"other_constants", {{.batch = 1, .constants = {{"x", Tensor::scalar(1.0F)}}}, {.batch = 1, .constants = {{"x", Tensor::scalar(2.0F)}}}}, 2},
    {"the_last_eight", batches({1, 2, 3, 4, 5, 6, 7, 8, 1, 8}), 8},
    {"no_more_than_eight", batches({1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 1}), 10},
};

class GraphMemoTest : public testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Rows, GraphMemoTest, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

TEST_P(GraphMemoTest, builds_what_it_does_not_keep) {
  const ModelFile file = lenet();
  for (const ImportOptions& o : GetParam().asked) {
    ImportOptions known = o;
    known.constants.clear();
    for (const auto& [name, value] : o.constants) known.constants.emplace(file.inputs()[0].name, value);
    file.graph(known);
  }
  EXPECT_EQ(file.graphs_built(), GetParam().built);
}

TEST(GraphMemoTest, hands_out_copies) {
  const ModelFile file = lenet();
  Graph first = file.graph({.batch = 2});
  const std::string whole = print(first);
  for (Value& v : first.values)
    if (v.data && v.data->dtype() == DType::float32) v.data->write<float>()[0] += 1;
  first.outputs.clear();
  EXPECT_EQ(print(file.graph({.batch = 2})), whole);
  EXPECT_EQ(file.graphs_built(), 1);
}

// Weights that a ConstantOfShape node fills are values of each graph; others lie in the file.
TEST(GraphMemoTest, a_run_frees_graphs_with_large_values) {
  struct {
    const char* what;
    std::int64_t inner;
    bool filled;
    std::int64_t built;
  } const rows[] = {{"2 MiB of the graph", 512, true, 3}, {"16 KiB of the graph", 4, true, 1}, {"2 MiB of the file", 512, false, 1}};
  for (const auto& [what, inner, filled, built] : rows) {
    SCOPED_TRACE(what);
    test::Model model;
    model.input("x", concat("N,", inner)).output("y");
    if (filled)
      model.add(test::int_tensor("shape", {2}, {inner, 1024})).add(test::node("ConstantOfShape", {"shape"}, {"w"}));
    else
      model.add(test::filled_tensor("w", {inner, 1024}));
    const ModelFile file = model.add(test::node("MatMul", {"x", "w"}, {"y"})).parse();
    for (int i = 0; i < 2; ++i) file.graph({.batch = 2});
    EXPECT_EQ(file.graphs_built(), 1);
    file.release_graphs();
    for (int i = 0; i < 2; ++i) file.graph({.batch = 2});  // large ones are not kept from now on, either
    EXPECT_EQ(file.graphs_built(), built);
  }
}

TEST(GraphMemoTest, threads_share_one) {
  const ModelFile file = lenet();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { file.graph({.batch = 2}); });
  }
  EXPECT_EQ(file.graphs_built(), 1);
}

}  // namespace
}  // namespace tandem
