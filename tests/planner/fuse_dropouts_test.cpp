// Which dropouts become part of a normalization of rows, and of its gradient, and which samples these count.
#include "planner/rewrite/fusing.h"
#include "tests/graph/notation.h"
#include "tests/planner/passed.h"

namespace tandem {
namespace {

struct Network {
  Graph graph;
  ValueId x = graph.add_input("x", {DType::float32, {6, 3, 8}}), z = graph.add_input("z", {DType::float32, {6, 3, 8}}),
          s = graph.add_input("s", {DType::float32, {8}}), r = graph.add_input("r", {DType::float32, {6, 3, 1}}),
          random = graph.add_input("random", {DType::int64, {4}});
  Attributes drops{{"ratio", 0.25F}, {"layer", std::int64_t{7}}, {"axis", std::int64_t{0}}};
  Node node(const char* op, std::vector<ValueId> in, Attributes a = {}, int outputs = 1) {
    return graph[graph.add_node(internal_operator(op), concat(op, graph.nodes.size()), std::move(a), std::move(in), outputs)];
  }
  ValueId dropped(ValueId v) { return node("DropoutTraining", {v, random}, drops).outputs[0]; }
  ValueId normalized(ValueId addend) {
    return node("RowNormalization", {x, s, {}, addend}, {{"axis", std::int64_t{2}}, {"epsilon", 0.5F}}, 4).outputs[0];
  }
  Node gradient(int outputs = 2, Attributes a = {{"axis", std::int64_t{2}}}) {
    return node("RowNormalizationBackward", {z, x, s, r, r}, std::move(a), outputs);
  }
};

struct Row {
  const char* name;
  bool offered;
  std::vector<ValueId> (*outputs)(Network&);
  std::vector<std::string> expected;
  std::int64_t sample = -1;  // that is said to have so many elements; -1: none is
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
const std::string apart = "RowNormalization(x, s, -, DropoutTraining(z, random))",
                  apart_back = "DropoutTraining(RowNormalizationBackward(z, x, s, r, r), random)";
const Row rows[] = {
    {"an_addend", true, [](Network& n) { return std::vector{n.normalized(n.dropped(n.z))}; }, {"RowNormalization(x, s, -, z, random)"}, 24},
    {"that_is_not_offered", false, [](Network& n) { return std::vector{n.normalized(n.dropped(n.z))}; }, {apart}},
    {"samples_of_several_tokens", true,
     [](Network& n) {
       n.drops.set("inner", std::int64_t{2});
       return std::vector{n.normalized(n.dropped(n.z))};
     },
     {"RowNormalization(x, s, -, z, random)"}, 48},
    {"no_samples", true,
     [](Network& n) {
       n.drops.erase("axis");
       return std::vector{n.normalized(n.dropped(n.z))};
     },
     {"RowNormalization(x, s, -, z, random)"}},
    {"samples_that_lie_apart", true,
     [](Network& n) {
       n.drops.set("axis", std::int64_t{1});
       return std::vector{n.normalized(n.dropped(n.z))};
     },
     {apart}},
    {"an_addend_that_is_read_elsewhere", true,
     [](Network& n) {
       const ValueId v = n.dropped(n.z);
       return std::vector{n.normalized(v), v};
     },
     {apart, "DropoutTraining(z, random)"}},
    {"a_residual", true,
     [](Network& n) {
       const Attributes a{{"axis", std::int64_t{2}}, {"epsilon", 0.5F}};
       return std::vector{n.node("RowNormalization", {n.dropped(n.z), n.s, {}, n.x}, a, 4).outputs[0]};
     },
     {"RowNormalization(DropoutTraining(z, random), s, -, x)"}},
    {"a_gradient", true,
     [](Network& n) {
       const ValueId dx = n.gradient().outputs[0];
       return std::vector{dx, n.dropped(dx)};
     },
     {"RowNormalizationBackward(z, x, s, r, r, -, -, random)", "RowNormalizationBackward:3(z, x, s, r, r, -, -, random)"}, 24},
    {"a_gradient_that_is_not_offered", false, [](Network& n) { return std::vector{n.dropped(n.gradient().outputs[0])}; }, {apart_back}},
    {"a_gradient_without_a_scale", true, [](Network& n) { return std::vector{n.dropped(n.gradient(1).outputs[0])}; }, {apart_back}},
    {"a_gradient_in_16_bits", true,
     [](Network& n) {
       return std::vector{n.dropped(n.gradient(4, {{"axis", std::int64_t{2}}, {"copy", static_cast<std::int64_t>(DType::bfloat16)}}).outputs[3])};
     },
     {"RowNormalizationBackward:3(z, x, s, r, r, -, -, random)"}, 24},
    {"a_gradient_in_16_bits_that_is_read_elsewhere", true,
     [](Network& n) {
       const ValueId dx = n.gradient(4, {{"axis", std::int64_t{2}}, {"copy", static_cast<std::int64_t>(DType::bfloat16)}}).outputs[3];
       return std::vector{n.dropped(dx), dx};
     },
     {"DropoutTraining(RowNormalizationBackward:3(z, x, s, r, r), random)", "RowNormalizationBackward:3(z, x, s, r, r)"}},
};

class FusedDropouts : public testing::TestWithParam<Row> {};

TEST_P(FusedDropouts, AreThoseOfRows) {
  Network n;
  for (const ValueId v : GetParam().outputs(n)) n.graph.outputs.emplace_back(v);
  const Graph got = passed("fuse_dropouts", n.graph, {.fuses = [](const KernelRequest&) { return GetParam().offered; }});
  verify(got);
  EXPECT_EQ(test::expressions(got), GetParam().expected);
  for (std::size_t i = 0; i < got.outputs.size(); ++i) EXPECT_EQ(got[got.outputs[i]].type, n.graph[n.graph.outputs[i]].type);
  for (const Node& node : got.nodes) {
    EXPECT_EQ(node.attributes.integer("sample", -1), GetParam().sample);
    if (GetParam().sample < 0) continue;
    EXPECT_EQ(node.attributes.real("ratio"), 0.25F);
    EXPECT_EQ(node.attributes.integer("layer"), 7);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, FusedDropouts, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem
