// What replicas give goes to one device, which computes the loss of the whole batch: what moves for it, and that it trains as one device.
#include <gtest/gtest.h>

#include "planner/plan/plan_file.h"
#include "tests/planner/placed_plans.h"

namespace tandem {
namespace {

using namespace small_models;

struct Row {
  const char* name;
  Graph (*model)(std::int64_t);
  std::vector<double> weights;  // of slices
  int device;                   // that computes the loss
  const char* parallel = "";
  void (*more)(CompileOptions&) = [](CompileOptions&) {};
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

CompileOptions merging(const Row& row) {
  CompileOptions o = options_for(8, row.weights);
  o.parallel = parse_parallelism(row.parallel);
  o.parallel.merge_on = row.device;
  row.more(o);
  return o;
}

class Merge : public testing::TestWithParam<Row> {};

TEST_P(Merge, TrainsAsOneDevice) {
  CompileOptions one = options_for(8, {1});
  GetParam().more(one);
  expect_trained_alike(train(GetParam().model, merging(GetParam()), 8, 0.05), train(GetParam().model, one, 8, 0.05), 1e-5);
}

// The loss is computed there alone. Scores and their gradient move by all_to_all, in which nobody else gets anything.
TEST_P(Merge, ComputesTheLossThere) {
  const Plan plan = plan_of(GetParam().model, merging(GetParam()));
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    bool computes = false;
    for (const Step& s : plan.program_of(d).steps)
      if (s.as<LaunchStep>() && plan.program_of(d).buffers[s.outputs[0]].operand.shape.elements() > 0)
        computes = computes || s.as<LaunchStep>()->op.find("SoftmaxCrossEntropy") != std::string::npos;
    EXPECT_EQ(computes, static_cast<int>(d) == GetParam().device) << "device " << d << '\n' << text_of_plan(plan, true);
  }
  const std::int64_t bytes = 8 / plan.micro_batches * 5 * 4;
  std::int64_t scores = 0;
  for (const PlanTransfer& t : plan.transfers) scores += t.kind == ExchangeKind::all_to_all && t.bytes == bytes;
  EXPECT_EQ(scores, 2) << "there and back\n" << text_of_plan(plan, true);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, Merge,
    testing::Values(Row{"the_first", mlp, {1, 1}, 0}, Row{"the_last", mlp, {1, 1, 1, 1}, 3}, Row{"unequal_slices", convnet, {3, 1, 2}, 1},
                    Row{"a_device_without_samples", mlp, {1, 1, 0}, 2}, Row{"parts_of_parameters", mlp, {1, 1}, 1, "zero=3"},
                    Row{"weights_there_too",
                        mlp,
                        {1, 1, 0},
                        2,
                        "",
                        [](CompileOptions& o) {
                          if (o.devices.size() > 1) o.parallel.weights_on = 2;
                        }},
                    Row{"two_micro_batches", mlp, {1, 1}, 1, "", [](CompileOptions& o) { o.parallel.micro_batches = 2; }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Merge, WeighsSamplesAndSmoothsAsOneDevice) {
  CompileOptions one = options_for(8, {1}), many = options_for(8, {1, 1});
  many.parallel.merge_on = 1;
  for (CompileOptions* o : {&one, &many}) {
    o->loss.sample_weights = true;
    o->loss.smoothing = 0.1;
  }
  expect_trained_alike(train(mlp, many, 8, 0.05), train(mlp, one, 8, 0.05), 1e-5);
}

// Of a batch of one there is nothing to bring together.
TEST(Merge, LeavesOneSampleWhereItIs) {
  CompileOptions o = options_for(1, {1, 1});
  o.parallel.merge_on = 1;
  const Plan plan = plan_of(mlp, o);
  for (const Exchange& e : plan.exchanges) EXPECT_NE(e.kind, ExchangeKind::all_to_all) << e.name;
}

TEST(Merge, GoesWithReplicasAlone) {
  CompileOptions o = shared_by(4, "data=2,tensor=2");
  o.parallel.merge_on = 0;
  expect_refused(mlp, o, "merge_on brings the outputs of replicas together");
  o = options_for(8, {1, 1});
  o.parallel.merge_on = 2;
  expect_refused(mlp, o, "merge_on: device 2, there are 2");
}

}  // namespace
}  // namespace tandem
