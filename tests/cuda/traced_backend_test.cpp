// The trace that tandem_steps takes of copies and steps: of a training on the host's stand-in for GPUs, and its arithmetic.
#include "kernels/traced_backend.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/cuda/host_backend.h"
#include "tests/cuda/small_network.h"

namespace tandem::cuda {
namespace {

TEST(TracedBackends, TellOfEachCopyAndStep) {
  for (const bool captures : {false, true}) {
    HostCudaBackend host(false);
    host.devices.captures = captures;
    const std::vector<float> wanted = train_small_network(host, {"sgd", 1});
    const TracedBackend traced(host);
    traced.start();
    Trace trace;
    std::size_t step = 0;
    const std::vector<float> got = train_small_network(traced, {"sgd", 1}, [&](const Session&) {
      if (++step < 4) return;
      trace = traced.stop();  // before the last step
    });
    EXPECT_EQ(got, wanted) << "a trace changes nothing";
    ASSERT_EQ(trace.steps.size(), 3U);
    ASSERT_EQ(trace.copies.size(), 4U) << "one more was announced";
    for (const auto* intervals : {&trace.steps, &trace.copies})
      for (std::size_t i = 0; i < intervals->size(); ++i) {
        EXPECT_LE((*intervals)[i].begin, (*intervals)[i].end);
        if (i > 0) {
          EXPECT_LE((*intervals)[i - 1].end, (*intervals)[i].begin);
        }
      }
    for (std::size_t s = 0; s < 3; ++s) EXPECT_LE(trace.copies[s].end, trace.steps[s].end) << "a step has its batch";
  }
}

TEST(TracedBackends, CountTheShareOfCopiesWithinSteps) {
  const std::vector<TracedInterval> steps{{1, 2}, {3, 4}};
  EXPECT_EQ(overlap({{{1, 2}, {9, 9}}, steps}), 1);
  EXPECT_EQ(overlap({{{2, 3}, {9, 9}}, steps}), 0);
  EXPECT_EQ(overlap({{{1.5, 3.5}, {9, 9}}, steps}), 0.5);
  EXPECT_EQ(overlap({{{0, 1}, {3, 4}, {9, 9}}, steps}), 0.5);
  EXPECT_EQ(overlap({{{0, 1}, {3, 4}, {9, 9}}, steps}, 1), 1) << "the first does not count";
  EXPECT_TRUE(std::isnan(overlap({{}, steps})));
}

}  // namespace
}  // namespace tandem::cuda
