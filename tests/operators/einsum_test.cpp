// Einsum's expansion, run, against the sum that the equation names, element by element.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "graph/operator.h"
#include "tests/operators/run_graph.h"

namespace tandem {
namespace {

struct Row {
  const char* equation;  // with letters only, and an output
  const char* given;     // as the node has it; empty: the same
  std::vector<Shape> operands;
};

const Row rows[] = {
    {"ij,jk->ik", "", {{3, 4}, {4, 5}}},
    {"ij,jk->ik", "ij, jk", {{3, 4}, {4, 5}}},
    {"ji,kj->ik", "", {{4, 3}, {5, 4}}},
    {"bij,bjk->bik", "...ij,...jk->...ik", {{2, 3, 4}, {2, 4, 5}}},
    {"bhid,bhjd->bhij", "", {{2, 3, 4, 5}, {2, 3, 6, 5}}},
    {"bhij,bjhd->bihd", "", {{2, 3, 4, 5}, {2, 5, 3, 2}}},
    {"bsd,dhk->bhsk", "", {{2, 3, 4}, {4, 2, 5}}},
    {"i,i->", "", {{7}, {7}}},
    {"i,j->ji", "", {{2}, {3}}},
    {"ij->ji", "", {{2, 3}}},
    {"ijk->j", "", {{2, 3, 4}}},
    {"ii->i", "", {{4, 4}}},
    {"ii->", "ii", {{4, 4}}},
    {"iji->ij", "", {{3, 4, 3}}},
    {"iiji->j", "", {{3, 3, 2, 3}}},
    {"bii,bi->b", "...ii,...i->...", {{2, 3, 3}, {2, 3}}},
    {",ij->j", "", {{}, {2, 3}}},
    {",->", "", {{}, {}}},
    {"ij,jk,kl->il", "", {{2, 3}, {3, 4}, {4, 5}}},
    {"ab,cd,ef->ace", "", {{2, 3}, {4, 2}, {3, 2}}},
    {"bi,ijk,bk->bj", "", {{2, 3}, {3, 4, 5}, {2, 5}}},
    {"ijk,jil,kl->ij", "", {{2, 3, 4}, {3, 2, 5}, {4, 5}}},
    {"bij,bjk->bik", "", {{1, 3, 4}, {2, 4, 5}}},
    {"ij,ij->j", "", {{2, 1}, {2, 4}}},
    {"abij,jk->abik", "...ij,jk->...ik", {{2, 3, 4, 5}, {5, 2}}},
    {"Aa,ab->Ab", "", {{2, 3}, {3, 4}}},
};

std::vector<double> by_hand(const Row& row, const std::vector<std::vector<double>>& values) {
  const std::string text = row.equation, left = text.substr(0, text.find("->")), output = text.substr(text.find("->") + 2);
  std::vector<std::string> terms(1);
  for (const char c : left) c == ',' ? terms.emplace_back() : terms.back() += c;
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < terms.size(); ++i)
    for (std::size_t d = 0; d < terms[i].size(); ++d)
      sizes[terms[i][d]] = std::max(sizes[terms[i][d]], row.operands[i][static_cast<int>(d)]);
  std::int64_t all = 1, results = 1;
  for (const auto& [label, size] : sizes) all *= size;
  for (const char c : output) results *= sizes[c];
  std::vector<double> y(static_cast<std::size_t>(results), 0);
  for (std::int64_t n = 0; n < all; ++n) {
    std::map<char, std::int64_t> at;
    std::int64_t rest = n;
    for (const auto& [label, size] : sizes) {
      at[label] = rest % size;
      rest /= size;
    }
    double factor = 1;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      std::int64_t from = 0;
      for (std::size_t d = 0; d < terms[i].size(); ++d) {
        const std::int64_t size = row.operands[i][static_cast<int>(d)];
        from = from * size + (size == 1 ? 0 : at[terms[i][d]]);
      }
      factor *= values[i][static_cast<std::size_t>(from)];
    }
    std::int64_t to = 0;
    for (const char c : output) to = to * sizes[c] + at[c];
    y[static_cast<std::size_t>(to)] += factor;
  }
  return y;
}

class Einsum : public testing::TestWithParam<Row> {};

TEST_P(Einsum, IsTheSumThatTheEquationNames) {
  const Row& row = GetParam();
  for (const DType dtype : {DType::float32, DType::int32}) {
    std::mt19937 random(1);
    Graph graph;
    std::vector<ValueId> operands;
    std::vector<NamedTensor> inputs;
    std::vector<std::vector<double>> values;
    for (const Shape& shape : row.operands) {
      Tensor tensor(TensorType{DType::float64, shape});
      // sums are exact
      for (double& v : tensor.write<double>()) v = static_cast<double>(std::uniform_int_distribution<int>(-4, 4)(random));
      values.push_back(tensor.to_doubles());
      inputs.push_back({concat("x", inputs.size()), tensor.cast(dtype)});
      operands.push_back(graph.add_input(inputs.back().name, inputs.back().tensor.type()));
    }
    const std::string equation = *row.given ? row.given : row.equation;
    const NodeId node = graph.add_node(*find_operator("Einsum"), "e", {{"equation", equation}}, operands, 1);
    graph.outputs = {graph[node].outputs[0]};
    EXPECT_EQ(test::GraphRun(graph).run(inputs)[0].tensor.to_doubles(), by_hand(row, values)) << name_of(dtype);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, Einsum, testing::ValuesIn(rows));

}  // namespace
}  // namespace tandem
