// Parameters in parts, or on one device, and replicas: nothing is summed otherwise, and the same kernels compute.
#include <gtest/gtest.h>

#include "planner/place/parallel.h"
#include "tests/planner/placed_plans.h"
#include "tests/planner/shared_transformer.h"

namespace tandem {
namespace {

using namespace small_models;

struct Row {
  const char* name;
  Graph (*model)(std::int64_t);
  const char* mesh = "data=4";
};
// As a base of adapters: all but its last layers.
Graph frozen(std::int64_t n) {
  Graph graph = transformer(n);
  for (Value& v : graph.values)
    if (v.kind == ValueKind::parameter) v.trainable = v.name == "down" || v.name.starts_with("head");
  return graph;
}
class PartsOfReplicas : public testing::TestWithParam<Row> {};

TEST_P(PartsOfReplicas, TrainTheirBits) {
  const Row& row = GetParam();
  for (const char* optimizer : {"sgd", "adamw"}) {
    const auto trained = [&](const std::string& parallel, int weights_on = -1) {
      CompileOptions o = shared_by(4, parallel.c_str());
      o.optimizer = optimizer_defaults(optimizer);
      if (std::string_view(optimizer) == "sgd") o.optimizer.momentum = 0.9;
      o.parallel.weights_on = weights_on;
      return train(row.model, o, 6, 0.02);
    };
    const Trained replicas = trained(row.mesh);
    const auto expect_same = [&](const Trained& other) {
      EXPECT_EQ(other.losses, replicas.losses);
      expect_same_bits(other.replicas[0], replicas.replicas[0]);
    };
    for (const int stage : {1, 2, 3}) {
      SCOPED_TRACE(concat(optimizer, " stage ", stage));
      expect_same(trained(concat(row.mesh, ",zero=", stage)));
    }
    SCOPED_TRACE(concat(optimizer, " on one device"));
    if (std::string_view(row.mesh).find("tensor") == std::string_view::npos) expect_same(trained(row.mesh, 0));
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, PartsOfReplicas,
                         testing::Values(Row{"mlp", mlp}, Row{"transformer", transformer}, Row{"convnet", convnet}, Row{"grouped", grouped}, Row{"frozen", frozen},
                                         Row{"transformer_mesh", transformer, "data=2,tensor=2"}),
                         [](const auto& info) { return std::string(info.param.name); });

// Norms of whole parameters are added in the order in which these lie: the owner's is not that of a replica. Stages have the same owners.
TEST(PartsOfReplicas, HaveTheBitsOfOtherStagesWhereEachHasAnOwner) {
  const auto trained = [&](int stage) {
    CompileOptions o = shared_by(4, concat("data=4,zero=", stage).c_str());
    o.optimizer = optimizer_defaults("lamb");
    return train(transformer, o, 6, 0.02);
  };
  const Trained first = trained(1);
  for (const int stage : {2, 3}) {
    SCOPED_TRACE(stage);
    const Trained other = trained(stage);
    EXPECT_EQ(other.losses, first.losses);
    expect_same_bits(other.replicas[0], first.replicas[0]);
  }
}

}  // namespace
}  // namespace tandem
