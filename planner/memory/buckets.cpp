// Gathers the values that are summed over devices into buckets: one collective moves many small gradients, and starts as soon
// as the last of them is ready, while the backward pass goes on.
#include <algorithm>

#include "planner/memory/assemble.h"
#include "planner/plan/format.h"

namespace tandem {

BucketPlan plan_buckets(const LoweredGraph& leader, const CompileOptions& options, const DeviceModel& device, int devices) {
  struct Ready {
    std::string name;
    int step;
    std::int64_t bytes;
    DType dtype;
  };
  IdVector<BufferId, int> written(leader.buffers.size(), -1);
  for (std::size_t s = 0; s < leader.steps.size(); ++s)
    for (const BufferId o : leader.steps[s].outputs)
      if (o.present()) written[o] = static_cast<int>(s);
  std::vector<Ready> values;
  for (const auto& [name, id] : leader.reduced) {
    const Buffer& b = leader.buffers[id];
    values.push_back({name, written[id], b.bytes, b.operand.dtype});
  }
  std::stable_sort(values.begin(), values.end(), [](const Ready& a, const Ready& b) { return a.step < b.step; });

  BucketPlan plan;
  for (const Ready& v : values) {
    const std::int64_t limit = plan.buckets.size() == 1 ? options.first_bucket_bytes : options.bucket_bytes;
    const bool fits = !plan.buckets.empty() && plan.buckets.back().dtype == v.dtype &&
                      plan.buckets.back().elements * static_cast<std::int64_t>(size_of(v.dtype)) + v.bytes <= std::max(limit, plan_alignment);
    if (!fits) {
      plan.offsets.push_back(plan.bytes);
      plan.buckets.push_back({.name = concat("bucket ", plan.buckets.size()), .dtype = v.dtype});
    }
    Bucket& bucket = plan.buckets.back();
    plan.places[v.name] = {static_cast<int>(plan.buckets.size()) - 1, plan.bytes - plan.offsets.back()};
    bucket.elements += v.bytes / static_cast<std::int64_t>(size_of(v.dtype));
    bucket.values.push_back(v.name);
    plan.bytes += v.bytes;
  }
  // When each bucket is complete, among the graph's own sums.
  std::vector<int> complete(plan.buckets.size(), -1);
  for (const Ready& v : values) {
    int& c = complete[static_cast<std::size_t>(plan.places[v.name].bucket)];
    c = std::max(c, v.step);
  }
  std::size_t next = 0;
  const auto value_buckets = complete.size();
  for (std::size_t s = 0; s <= leader.steps.size(); ++s) {
    const bool last = s == leader.steps.size();
    for (; next < value_buckets && (last || complete[next] < static_cast<int>(s)); ++next) plan.sequence.push_back(static_cast<int>(next));
    if (last || leader.steps[s].kind != StepKind::all_reduce) continue;
    const Buffer& b = leader.buffers[leader.steps[s].outputs[0]];
    plan.sequence.push_back(static_cast<int>(plan.buckets.size()));
    plan.buckets.push_back({.name = concat("sum of ", b.name), .elements = b.operand.bytes() / static_cast<std::int64_t>(size_of(b.operand.dtype)), .dtype = b.operand.dtype, .values = {b.name}});
  }
  // A ring moves every byte twice over each link, less its own share; few bytes cost no less than a kernel does.
  for (Bucket& b : plan.buckets) {
    const double bytes = static_cast<double>(b.elements) * static_cast<double>(size_of(b.dtype));
    if (device.link_bandwidth > 0) b.seconds = device.launch_seconds + 2 * bytes * (devices - 1) / devices / device.link_bandwidth;
  }
  return plan;
}

}  // namespace tandem
