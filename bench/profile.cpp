#include "bench/profile.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>

namespace tandem {
namespace {

// "launch Conv onednn.conv_forward", "slice", "all_reduce"
std::string name_of(const Plan& plan, const Step& step) {
  std::string name{kind_of(plan, step)};
  if (const auto* launch = step.as<LaunchStep>()) name += concat(' ', launch->op, ' ', launch->kernel);
  return name;
}

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

std::vector<double> median_seconds(const TimedRun& run, int rounds) {
  std::vector<std::vector<double>> all;
  for (int round = 0; round < rounds; ++round) all.push_back(run());
  std::vector<double> medians, times(all.size());
  for (std::size_t step = 0; step < all[0].size(); ++step) {
    for (std::size_t round = 0; round < all.size(); ++round) times[round] = all[round][step];
    const auto middle = times.begin() + std::ssize(times) / 2;
    std::nth_element(times.begin(), middle, times.end());
    medians.push_back(*middle);
  }
  return medians;
}

void print_by_kernel(const Plan& plan, const std::vector<double>& seconds) {
  struct Sum {
    std::string name;
    int count = 0;
    double seconds = 0, flops = 0, bytes = 0;
  };
  std::map<std::string, Sum> sums;
  const IdVector<StepId, Step>& steps = plan.programs[0].steps;
  for (std::size_t s = 0; s < seconds.size(); ++s) {
    const std::string name = name_of(plan, steps[s]);
    Sum& sum = sums[name];
    sum.name = name;
    ++sum.count;
    sum.seconds += seconds[s];
    sum.flops += steps[s].flops;
    sum.bytes += steps[s].bytes;
  }
  std::vector<Sum> list;
  for (const auto& [name, sum] : sums) list.push_back(sum);
  std::sort(list.begin(), list.end(), [](const Sum& a, const Sum& b) { return a.seconds > b.seconds; });
  const double all = sum_of(seconds);
  std::fprintf(stderr, "%9s %6s %5s %8s %7s  kernel\n", "ms", "share", "steps", "GFLOP/s", "GB/s");
  for (const Sum& s : list)
    std::fprintf(stderr, "%9.3f %5.1f%% %5d %8.1f %7.1f  %s\n", 1e3 * s.seconds, 100 * s.seconds / all, s.count, 1e-9 * s.flops / s.seconds,
                 1e-9 * s.bytes / s.seconds, s.name.c_str());
  std::fprintf(stderr, "%9.3f ms in all, the plan expects %.3f\n", 1e3 * all, 1e3 * plan.seconds);
}

void print_by_step(const Plan& plan, const std::vector<double>& seconds) {
  const DeviceProgram& device = plan.programs[0];
  for (std::size_t s = 0; s < seconds.size(); ++s) {
    const Step& step = device.steps[s];
    const auto text = [&](BufferId id) { return id.present() ? to_string(device.buffers[id].operand) : std::string("-"); };
    std::fprintf(stderr, "%4zu %9.1f us, expected %9.1f, %6.1f GFLOP/s  %s ", s, 1e6 * seconds[s], 1e6 * step.seconds,
                 1e-9 * step.flops / seconds[s], name_of(plan, step).c_str());
    for (const BufferId id : step.inputs) std::fprintf(stderr, " %s", text(id).c_str());
    std::fprintf(stderr, " ->");
    for (const BufferId id : step.outputs) std::fprintf(stderr, " %s", text(id).c_str());
    std::fprintf(stderr, "\n");
  }
}

}  // namespace tandem
