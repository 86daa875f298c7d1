// The text of a graph, as --dump-passes writes it, is that graph: for every pass of plans of models/.
#include <gtest/gtest.h>

#include <filesystem>

#include "graph/parse.h"
#include "kernels/cpu/backend.h"
#include "trainer/model.h"

namespace tandem {
namespace {

struct Row {
  const char* name;
  PlanMode mode;
  int devices;
  Precision precision = Precision::fp32;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class GraphTexts : public testing::TestWithParam<Row> {};

TEST_P(GraphTexts, OfEveryPassReadBack) {
  const Row& row = GetParam();
  if (const std::string reason = cpu_backend().declines(row.precision); !reason.empty()) GTEST_SKIP() << reason;
  const Backend* backends[] = {&cpu_backend()};
  int graphs = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::filesystem::path(TANDEM_SOURCE_DIR) / "models")) {
    if (file.path().extension() != ".onnx") continue;
    ModelOptions o;
    o.plan.mode = row.mode;
    o.plan.batch = 4;
    o.plan.precision = row.precision;
    for (int d = 0; d < row.devices; ++d) o.plan.devices.push_back({{"cpu", d}, 1});
    o.plan.passes.after = [&](const PassResult& r) {
      const std::string text = print(r.graph);
      Graph back;
      ASSERT_NO_THROW(back = parse(text)) << file.path() << ' ' << r.name;
      ASSERT_EQ(print(back), text) << file.path() << ' ' << r.name;
      EXPECT_EQ(back.values.size() <= r.graph.values.size(), true);
      ++graphs;
    };
    Model::load(file.path()).source().make_plan(o, backends);
  }
  EXPECT_GT(graphs, 0);
}
INSTANTIATE_TEST_SUITE_P(Rows, GraphTexts,
                         testing::Values(Row{"training", PlanMode::training, 1}, Row{"on_two_devices", PlanMode::training, 2, Precision::bf16}, Row{"predictions", PlanMode::inference, 1}),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace tandem
