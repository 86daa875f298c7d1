// Passes over the updates of parameters and running statistics: how many nodes they are, and what those read and write.
#include <gtest/gtest.h>

#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "tests/graph/notation.h"
#include "tests/planner/passed.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;
using test::expression;
using Names = std::vector<std::string>;

constexpr DType f = DType::float32;

TEST(AppendUpdates, SmallParametersShareOne) {
  Graph g;
  GraphBuilder b(g, "n", {});
  for (const std::int64_t size : {3, 20000, 4}) {
    const std::string name = concat('w', size);
    g.add_parameter(name, {f, {size}}, Tensor(TensorType{f, {size}}), true);
    g.outputs.emplace_back(b.neg(g.add_input(concat('g', size), {f, {size}})), ValueRole::gradient, name);
  }
  const Graph got = passed("append_updates", g);
  std::vector<std::string> updates;
  for (const Node& n : got.nodes) {
    if (n.op->in_place.empty()) continue;
    std::string names;
    for (const ValueId v : updated_by(n)) names += concat(names.empty() ? "" : " ", got[v].name);
    updates.push_back(names);
  }
  EXPECT_EQ(updates, (Names{"w20000", "w3 w4"}));
}

// Those that do the same, whatever small ones share already; a bucket of gradients at a time, and no parameter twice.
TEST(GroupUpdates, OneForEachBucket) {
  const auto grouped = [](bool summed, const Fuses& fuses) {
    Graph g;
    GraphBuilder b(g, "n", {});
    std::vector<ValueId> sums;
    for (const std::int64_t size : {3, 20000, 4, 30000}) {
      const ValueId gradient = b.neg(g.add_input(concat('g', size), {f, {size}}));
      const std::string name = concat('w', size);
      g.add_parameter(name, {f, {size}}, Tensor(TensorType{f, {size}}), true);
      sums.push_back(summed ? b.emit("AllReduce", {gradient}) : gradient);
      g.outputs.emplace_back(sums.back(), ValueRole::gradient, name);
    }
    const auto statistic = [&](const char* name, ValueId value) {
      const ValueId running = g.find(name) ? *g.find(name) : g.add_parameter(name, {f, {3}}, Tensor(TensorType{f, {3}}), false);
      b.emit("RunningStatistics", {running, value}, {{"momentum", 0.5F}});
    };
    const ValueId value = b.neg(g.inputs[0]);
    for (const char* const name : {"mean", "variance", "mean"}) statistic(name, value);
    Graph appended = passed("append_updates", g);
    CompileOptions o;
    o.memory.first_bucket_bytes = o.memory.bucket_bytes = 90000;
    if (summed) appended = passed("bucket_sums", std::move(appended), {.options = o});
    const Graph got = passed("group_updates", std::move(appended), {.fuses = fuses});
    std::vector<std::string> updates;
    for (const Node& n : got.nodes) {
      if (n.op->in_place.empty()) continue;
      std::string names;
      for (const ValueId v : updated_by(n)) names += concat(names.empty() ? "" : " ", got[v].name);
      updates.push_back(names);
    }
    return updates;
  };
  const Fuses all = [](const KernelRequest&) { return true; }, none = [](const KernelRequest&) { return false; };
  EXPECT_EQ(grouped(false, all), (Names{"w20000 w30000 w3 w4", "mean variance", "mean"}));
  EXPECT_EQ(grouped(false, none), (Names{"w20000", "w30000", "w3 w4", "mean", "variance", "mean"}));
  EXPECT_EQ(grouped(true, all), (Names{"w30000", "w20000 w3 w4", "mean variance", "mean"}));
}

// The variance is not made where running statistics alone want it, and the deviation is offered in its place.
TEST(RunningVariances, FollowTheDeviation) {
  for (const bool read : {false, true}) {
    Graph g;
    GraphBuilder b(g, "n", {});
    const auto parameter = [&](const char* name) { return g.add_parameter(name, {f, {3}}, Tensor(TensorType{f, {3}}), false); };
    const std::vector<ValueId> y = b.emit("BatchNormalizationTraining",
                                          {g.add_input("x", {f, {2, 3}}), parameter("scale"), parameter("bias")}, {{"epsilon", 0.5F}}, 4);
    for (const int i : {1, 2})
      b.emit("RunningStatistics", {parameter(i == 1 ? "mean" : "variance"), y[static_cast<std::size_t>(i)]}, {{"momentum", 0.25F}});
    g.outputs = {y[0]};
    if (read) g.outputs.emplace_back(y[2]);
    const Graph got = passed("running_variances", g, {.fuses = [](const KernelRequest& r) { return r.attributes->has("inverse"); }});
    verify(got);
    EXPECT_EQ(got.nodes[0].outputs[2].present(), read);
    const Node& variance = got.nodes.back();
    EXPECT_EQ(variance.attributes.has("inverse"), !read);
    EXPECT_EQ(variance.inputs[read ? 1 : 2], got.nodes[0].outputs[read ? 2 : 3]);
    const Graph grouped = passed("group_updates", got, {.fuses = [](const KernelRequest&) { return true; }});
    if (!read) {
      EXPECT_EQ(operators_of(grouped), (Names{"BatchNormalizationTraining", "RunningStatistics"})) << print(grouped);
    }
    EXPECT_EQ(print(passed("running_variances", g, {.fuses = [](const KernelRequest&) { return false; }})), print(g));
  }
}

TEST(NarrowUpdates, ReadAndWriteSixteenBits) {
  Graph g;
  GraphBuilder b(g, "n", {});
  const ValueId w = g.add_parameter("w", {f, {3}}, Tensor(TensorType{f, {3}}), true);
  const auto cast = [&](ValueId v, DType to) { return b.emit("Cast", {v}, {{"to", static_cast<std::int64_t>(to)}}); };
  const ValueId narrow = cast(w, DType::bfloat16);
  g.outputs = {b.neg(narrow), {cast(b.neg(narrow), f), ValueRole::gradient, "w"}};
  const auto all = [](const KernelRequest&) { return true; };
  const Graph got = passed("append_updates", passed("narrow_updates", g, {.fuses = all}));
  verify(got);
  EXPECT_EQ(operators_of(got), (Names{"Neg", "Neg", "SgdUpdate"}));
  std::vector<std::string> written;
  for (const ValueId v : updated_by(got.nodes.back())) written.push_back(concat(got[v].name, ' ', name_of(got[v].role), ' ', got[v].of));
  EXPECT_EQ(written, (Names{"w plain ", "w/bfloat16 copy w"}));
  EXPECT_EQ(got[got.nodes.back().inputs[2]].type.dtype, DType::bfloat16);

  // An update that writes no copy still reads 16 bits.
  const auto reads = [](const KernelRequest& r) { return !r.attributes->has("copies"); };
  EXPECT_EQ(operators_of(passed("append_updates", passed("narrow_updates", g, {.fuses = reads}))),
            (Names{"Cast", "Neg", "Neg", "SgdUpdate"}));
  EXPECT_EQ(print(passed("narrow_updates", g)), print(g));
}

}  // namespace
}  // namespace tandem
