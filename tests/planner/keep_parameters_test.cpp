// Evaluation with the parameters of a training plan whose graph was fused in another way.
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using small_models::Builder;
using small_models::noise;

// Dropout keeps Flatten away from Gemm while training; without it they become one.
Graph flatten_dropout_gemm(std::int64_t n) {
  Builder b;
  b.graph.name = "flatten, dropout, gemm";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 16, 4, 4}});
  x = b.node("Flatten", {x}, {{"axis", std::int64_t{1}}});
  x = b.node("Dropout", {x}, {{"ratio", 0.5F}});
  b.graph.outputs = {b.node("Gemm", {x, b.weight("w", {5, 256}, 0.1F), b.weight("b", {5}, 0.1F)}, {{"transB", std::int64_t{1}}})};
  return b.graph;
}

struct Row {
  const char* name;
  Graph (*model)(std::int64_t);
  int devices;
  bool synchronize;
  std::map<std::string, std::vector<Part>, std::less<>> split = {};  // along a mesh of `sizes`, where there are some
  std::vector<std::int64_t> sizes = {1, 1};
};
class KeepParameters : public testing::TestWithParam<Row> {};

std::vector<float> outputs_of(Session& session, std::size_t plan, const Tensor& x) {
  std::vector<const std::byte*> in;
  for (const HostInput& h : session.plan(plan).inputs) in.push_back(h.name == "x" ? x.bytes().data() : nullptr);
  std::vector<float> out(static_cast<std::size_t>(session.plan(plan).outputs.at(0).type.shape.elements()));
  std::byte* const to = reinterpret_cast<std::byte*>(out.data());
  session.run(plan, in, {&to, 1}, {});
  return out;
}

TEST_P(KeepParameters, EvaluationGivesWhatItGivesAlone) {
  const Row& row = GetParam();
  const Backend* backends[] = {&cpu_backend()};
  CompileOptions o;
  o.batch = 6;
  o.synchronize_batch_norm = row.synchronize;
  for (int d = 0; d < row.devices; ++d) o.devices.push_back({{"cpu", d}, 1});
  if (!row.split.empty()) {
    o.placement = {.groups = {{"all", {{"columns", row.sizes}}, {0, 1}}}, .nodes = {}, .values = row.split};
  }
  Session trained(compile(row.model, o, backends), backends);
  o.mode = PlanMode::inference;
  const std::size_t shared = trained.add(compile(row.model, o, backends, &trained.plan()));
  o.placement.reset();
  Session alone(compile(row.model, o, backends), backends);
  std::vector<NamedTensor> values;
  const Graph graph = row.model(1);
  for (const Value& v : graph.values)
    if (v.kind == ValueKind::parameter) values.push_back({v.name, *v.data});
  trained.set_parameters(values);
  alone.set_parameters(values);
  Shape shape = graph[graph.inputs[0]].type.shape;
  shape[0] = o.batch;
  const Tensor x = noise(shape, 5);
  const std::vector<float> got = outputs_of(trained, shared, x), want = outputs_of(alone, 0, x);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5F * (1 + std::abs(want[i]))) << i;
}

INSTANTIATE_TEST_SUITE_P(Rows, KeepParameters,
                         testing::Values(Row{"flatten_dropout_gemm", flatten_dropout_gemm, 1, false},
                                         Row{"synchronised_statistics", small_models::normalized, 2, true},
                                         Row{"nothing_differs", small_models::convnet, 2, false},
                                         Row{"split", small_models::mlp, 2, false, {{"w1", {Part::split(0)}}, {"b1", {Part::split(0)}}, {"w2", {Part::split(0)}}}},
                                         Row{"classes_split_unequally", small_models::mlp, 2, false, {{"w2", {Part::split(1)}}, {"b2", {Part::split(0)}}}, {4, 1}},
                                         Row{"split_behind_flatten", small_models::convnet, 2, false, {{"w", {Part::split(0)}}}},
                                         Row{"split_in_another_form", flatten_dropout_gemm, 2, false, {{"w", {Part::split(0)}}, {"b", {Part::split(0)}}}, {3, 2}},
                                         Row{"columns_in_another_form", flatten_dropout_gemm, 2, false, {{"w", {Part::split(1)}}}}),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace tandem
