// What the stages of a pipeline send each other, by every schedule, over the groups of GPUs: whose calls may run one behind the other.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "kernels/cuda/collectives/local_group.h"
#include "kernels/cuda/collectives/nccl_group.h"
#include "runtime/exchange_specs.h"
#include "tests/cuda/nccl/stand_in.h"
#include "tests/planner/placed_plans.h"

namespace tandem::cuda {
namespace {

using namespace test;
using namespace small_models;

// Seven layers of one size.
Graph seven(std::int64_t n) {
  Builder b;
  b.graph.name = "seven";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 16}});
  for (int i = 0; i < 7; ++i) x = gemm(b, x, concat("layer.", i), 16, 16);
  b.graph.outputs = {x};
  return b.graph;
}

struct Row {
  const char *name, *parallel, *schedule;
  std::size_t devices;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

class StagesOnGpus : public testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
    CompileOptions o = shared_by(GetParam().devices, GetParam().parallel);
    o.parallel.schedule = parse_pipeline_schedule(GetParam().schedule);
    o.parallel.micro_batches = 8;
    plan_ = expanded(plan_of(seven, o)).plan;
    specs_ = exchange_specs(plan_, 0);
  }

  // All exchanges of a device, in its order, and that each receive has what was sent. `end`: waits for what was queued.
  void exchange(CollectiveGroup& group, int device, const std::function<void(CUstream_st&)>& end) {
    CUstream_st stream{.process = device};
    const std::vector<const ExchangeSpec*> own = specs_of(plan_, specs_, device);
    std::vector<std::unique_ptr<Kernel>> kernels;
    std::vector<std::pair<int, std::vector<float>>> memory;  // with the exchange of a receive, else -1
    for (const Step& s : plan_.program_of(at(device)).steps) {
      const auto* step = s.as<ExchangeStep>();
      if (!step) continue;
      const ExchangeSpec& spec = *own[at(step->exchange.index)];
      const bool receives = spec.kind == ExchangeKind::send && spec.members[1] == device;
      auto& floats =
          memory.emplace_back(receives ? step->exchange.index : -1, std::vector<float>(at(static_cast<int>(spec.elements)))).second;
      if (!receives) std::ranges::fill(floats, static_cast<float>(step->exchange.index));
      std::byte* const bytes = reinterpret_cast<std::byte*>(floats.data());
      const std::span<std::byte*const> operand(&bytes, 1), none;
      kernels.push_back(group.make(spec, device));
      kernels.back()->bind(s.inputs.empty() ? none : operand, s.outputs.empty() ? none : operand, nullptr);
    }
    for (const auto& kernel : kernels) kernel->run({&stream});
    end(stream);
    for (const auto& [exchange, floats] : memory)
      if (exchange >= 0) EXPECT_EQ(floats, std::vector<float>(floats.size(), static_cast<float>(exchange))) << "device " << device;
    exchanges_ += static_cast<int>(kernels.size());
  }

  void on_devices(CollectiveGroup& group, const std::function<void(CUstream_st&)>& end) {
    std::vector<std::jthread> threads;
    for (int d = 0; d < std::ssize(plan_.devices); ++d)
      threads.emplace_back([&, d] {
        try {
          exchange(group, d, end);
        } catch (const Error& e) {
          ADD_FAILURE() << e.what();
          group.abort(e.what());
        }
      });
    threads.clear();
    EXPECT_GE(exchanges_, 8 * 2 * 2) << "each way, of each micro-batch, both ends of it";
  }

  Plan plan_;
  std::vector<ExchangeSpec> specs_;
  std::atomic<int> exchanges_ = 0;
};

TEST_P(StagesOnGpus, SendBothWaysByNccl) {
  nccl::reset();
  {
    std::vector<int> devices;
    for (int d = 0; d < std::ssize(plan_.devices); ++d) devices.push_back(d);
    const auto group = nccl_group({.devices = devices, .ranks = static_cast<int>(devices.size()), .timeout_seconds = 5});
    group->connect(specs_);
    on_devices(*group, [](CUstream_st& stream) {
      while (!nccl::ended(stream.process) && !nccl::is_done(stream)) std::this_thread::yield();
      EXPECT_FALSE(nccl::ended(stream.process)) << "rank " << stream.process << " waited for ever";
    });
  }
  EXPECT_EQ(nccl::misuses(), 0) << nccl::misuse();
}

TEST_P(StagesOnGpus, SendBothWaysOnOneGpu) {
  const auto group = local_group(static_cast<int>(plan_.devices.size()), 5);
  on_devices(*group, [](CUstream_st&) {});
}

INSTANTIATE_TEST_SUITE_P(
    Rows, StagesOnGpus,
    testing::Values(Row{"gpipe_2", "pipeline=2", "gpipe", 2}, Row{"one_forward_one_backward_2", "pipeline=2", "1f1b", 2},
                    Row{"one_forward_one_backward_4", "pipeline=4", "1f1b", 4}, Row{"zb_h1_2", "pipeline=2", "zb-h1", 2},
                    Row{"zb_h1_4", "pipeline=4", "zb-h1", 4}, Row{"interleaved_2", "pipeline=2", "interleaved=2", 2},
                    Row{"interleaved_3", "pipeline=3", "interleaved=2", 3}, Row{"replicas", "data=2,pipeline=2", "1f1b", 4},
                    Row{"parts_of_layers", "tensor=2,pipeline=2", "zb-h1", 4}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::cuda
