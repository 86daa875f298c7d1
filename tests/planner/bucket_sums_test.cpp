// Which sums over devices are taken together, and when.
#include <gtest/gtest.h>

#include "planner/rewrite/graph_copy.h"
#include "tests/planner/passed.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;
using Names = std::vector<std::string>;

constexpr DType f = DType::float32;

// Four gradients of 64 bytes or more, one behind the other, and between them a sum that the next node reads.
Graph with_sums() {
  Graph g;
  g.groups = two_devices(g).groups;
  GraphBuilder b(g, "n", {});
  ValueId x = g.add_input("x", {f, {16}});
  const auto sum = [&](ValueId v, const std::string& of) {
    const ValueId whole = b.emit("AllReduce", {v});
    g[v].placement = {0, {{Spread::partial}}};
    g[whole].placement = {0, {{}}};
    g[whole].of = of;
    return whole;
  };
  std::vector<std::pair<std::string, ValueId>> gradients;
  for (const char* name : {"a", "b", "c", "d"}) {
    x = b.neg(x);
    gradients.emplace_back(name, x);
    if (name == std::string("b")) x = b.neg(sum(b.neg(x), ""));
  }
  for (const auto& [name, value] : gradients) {
    const ValueId parameter = g.add_parameter(name, {f, {16}}, Tensor(TensorType{f, {16}}), true);
    b.emit("RunningStatistics", {parameter, sum(value, name)}, {{"momentum", 0.5F}});
  }
  put_updates_last(g);
  return g;
}

TEST(BucketSums, GatherWhatMayWait) {
  CompileOptions o;
  o.memory.first_bucket_bytes = 64;
  o.memory.bucket_bytes = 128;
  const Graph got = passed("bucket_sums", with_sums(), {.options = o});
  verify(got);
  std::vector<std::string> sums;
  for (const Node& node : got.nodes) {
    if (node.op->name != "AllReduce") continue;
    sums.emplace_back();
    for (const ValueId whole : node.outputs) sums.back() += got[whole].of.empty() ? "-" : got[whole].of;
  }
  EXPECT_EQ(sums, (Names{"a", "-", "bc", "d"}));
  // Each as soon as its last operand is there.
  EXPECT_EQ(operators_of(got), (Names{"Neg", "AllReduce", "Neg", "Neg", "AllReduce", "Neg", "Neg", "AllReduce", "Neg", "AllReduce",
                                      "RunningStatistics", "RunningStatistics", "RunningStatistics", "RunningStatistics"}));
}

// Addends that lie along another axis of the mesh are summed by other devices.
TEST(BucketSums, ApartWhereOtherDevicesSum) {
  CompileOptions o;
  o.memory.first_bucket_bytes = o.memory.bucket_bytes = 1 << 20;
  Graph g = with_sums();
  const auto buckets = [&] {
    const Graph got = passed("bucket_sums", g, {.options = o});
    return std::count_if(got.nodes.begin(), got.nodes.end(), [](const Node& n) { return n.op->name == "AllReduce"; });
  };
  EXPECT_EQ(buckets(), 2);
  g.groups[0].axes.push_back({"columns", {1, 1}});
  for (std::size_t i = 0; i < g.values.size(); ++i)
    if (!g.values[i].placement.parts.empty()) g.values[i].placement.parts.push_back(Part{});
  for (const Node& node : g.nodes)
    if (node.op->name == "AllReduce" && g[node.outputs[0]].of == "d")
      std::swap(g[node.inputs[0]].placement.parts[0], g[node.inputs[0]].placement.parts[1]);
  EXPECT_EQ(buckets(), 3);
}

// Largest numbers are taken once, behind the last of them, and break no bucket of sums.
TEST(BucketSums, LargestNumbersWaitForTheLast) {
  CompileOptions o;
  o.memory.first_bucket_bytes = o.memory.bucket_bytes = 1 << 20;
  Graph g = with_sums();
  for (Node& node : g.nodes)
    if (node.op->name == "AllReduce" && (g[node.outputs[0]].of == "b" || g[node.outputs[0]].of == "d"))
      node.attributes.set("max", std::int64_t{1});
  std::vector<std::string> taken;
  const Graph got = passed("bucket_sums", g, {.options = o});
  for (const Node& node : got.nodes) {
    if (node.op->name != "AllReduce") continue;
    taken.emplace_back(node.attributes.has("max") ? "largest of " : "");
    for (const ValueId whole : node.outputs) taken.back() += got[whole].of.empty() ? "-" : got[whole].of;
  }
  EXPECT_EQ(taken, (Names{"-", "ac", "largest of bd"}));
}

}  // namespace
}  // namespace tandem
