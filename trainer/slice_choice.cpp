#include "trainer/slice_choice.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/option.h"
#include "base/units.h"
#include "planner/memory_limit.h"
#include "planner/plan/plan_file.h"

namespace tandem {
namespace {

void check_room(std::span<const SliceCost> costs, std::int64_t batch) {
  std::int64_t room = 0;
  for (const SliceCost& c : costs) room += std::min(c.most, batch);
  if (room < batch)
    fail(ExitCode::device, "a batch of ", batch, " does not fit: the devices' memory holds ", room, " samples all together");
}

// How many samples a device computes within so many seconds.
std::int64_t within(const SliceCost& c, double seconds, std::int64_t batch) {
  const double n = std::floor((seconds - c.fixed) / c.each * (1 + 1e-12));
  return static_cast<std::int64_t>(std::clamp(n, 0.0, static_cast<double>(std::min(c.most, batch))));
}

double seconds_of(const SliceCost& c, std::int64_t samples) { return samples == 0 ? 0 : c.fixed + c.each * static_cast<double>(samples); }

// A plan of devices of one kind alone, of as many samples on each.
Plan alone(const ModelTemplate& model, ModelOptions options, const std::vector<DeviceSpec>& alike, std::int64_t samples,
           Backends backends) {
  options.plan.devices = alike;
  for (DeviceSpec& d : options.plan.devices) d.weight = 1;
  options.plan.batch = samples * std::ssize(alike) * options.plan.parallel.micro_batches;
  options.plan.parallel.data = 0;
  options.plan.passes.on_placement = {};
  return model.make_plan(options, backends);
}

// By two plans, of half of an equal share and of all of it, or of what fits.
SliceCost cost_of(const ModelTemplate& model, const ModelOptions& options, const std::vector<DeviceSpec>& alike, std::int64_t batch,
                  Backends backends) {
  const auto plan_of = [&](std::int64_t samples) { return alone(model, options, alike, samples, backends); };
  std::int64_t some = std::max<std::int64_t>(1, batch / (2 * std::ssize(options.plan.devices))), more = 2 * some,
               fits = std::int64_t{1} << 40;
  Plan large;
  try {
    large = plan_of(more);
  } catch (const BatchTooLarge& e) {
    fits = more = e.fits / (std::ssize(alike) * options.plan.parallel.micro_batches);
    some = more / 2;
    if (some == 0) return {1e-12, 1e-12, fits};
    large = plan_of(more);
  }
  const Plan small = plan_of(some);
  SliceCost cost;
  const double difference = static_cast<double>(more - some);
  cost.each = std::max((large.seconds - small.seconds) / difference, 1e-12);
  cost.fixed = std::max(small.seconds - cost.each * static_cast<double>(some), 1e-12);
  const DeviceProgram& program = large.programs[0];
  const double bytes = static_cast<double>(program.peak_bytes()),
               each = std::max(1.0, (bytes - static_cast<double>(small.programs[0].peak_bytes())) / difference);
  double memory = static_cast<double>(program.model.memory);
  if (!options.plan.memory.most.empty())
    memory = std::min(memory > 0 ? memory : 1e18, static_cast<double>(options.plan.memory.most[0]));
  const double beyond = memory > 0 ? std::clamp((memory - bytes) / each, 0.0, 1e12) : 1e12;
  cost.most = std::min(fits, more + static_cast<std::int64_t>(beyond));
  return cost;
}

// The device whose slice takes longest by the sample, where the step is shorter without it; "" where there is none.
std::string delaying(const ModelTemplate& model, const ModelOptions& options, std::span<const SliceCost> costs, Backends backends) {
  const auto slow = std::ranges::max_element(costs, {}, &SliceCost::each) - costs.begin();
  ModelOptions with = options;
  with.plan.passes.on_placement = {};
  ModelOptions without = with;
  without.plan.devices.erase(without.plan.devices.begin() + slow);
  without.plan.parallel.data = 0;
  if (without.plan.memory.most.size() > 1) without.plan.memory.most.erase(without.plan.memory.most.begin() + slow);
  try {
    const double all = model.make_plan(with, backends).seconds, fewer = model.make_plan(without, backends).seconds;
    if (fewer >= all) return "";
    return concat("; ", options.plan.devices[static_cast<std::size_t>(slow)].id, " only delays: the estimated step is ",
                  text_of_seconds(all), " with it and ", text_of_seconds(fewer), " without it");
  } catch (const Error&) {  // the others have no room for the batch
    return "";
  }
}

// Fails (usage) where something but the weights says what a device does.
void check_replicas_only(const CompileOptions& o, const std::string& asked) {
  const Parallelism& p = o.parallel;
  const bool otherwise = p.tensor > 1 || p.pipeline > 1 || p.zero > 0 || !p.places.empty() || !p.stages.empty() || p.weights_on >= 0 ||
                         p.merge_on >= 0 || !o.memory.activations_on.empty() || o.placement || o.configuration;
  if (otherwise) fail(ExitCode::usage, asked, ": it is for replicas that share a batch, and here a model is split otherwise: give numbers");
}

// By their names. What is no plan is left out.
std::vector<Plan> plans_in(const std::filesystem::path& folder) {
  std::set<std::filesystem::path> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.path().extension() == ".plan") files.insert(entry.path());
  std::vector<Plan> plans;
  for (const auto& file : files) try {
      plans.push_back(read_plan(file.string()));
    } catch (const Error&) {  // the run tells of it
    }
  return plans;
}

// The weights that a plan of these devices and this batch has: the one that is given, or one that a resumed run keeps.
std::optional<std::vector<double>> kept_weights(const ModelOptions& o) {
  std::vector<Plan> plans;
  if (!o.plan_file.empty())
    plans.push_back(read_plan(o.plan_file.string()));
  else if (o.resume)
    plans = plans_in(o.plans);
  const auto same = [](const PlanDevice& a, const DeviceSpec& b) { return a.device == b.id; };
  for (const Plan& plan : plans) {
    if (plan.mode != o.plan.mode || plan.batch != o.plan.batch || !std::ranges::equal(plan.devices, o.plan.devices, same)) continue;
    std::vector<double> weights;
    for (const PlanDevice& d : plan.devices) weights.push_back(d.weight);
    return weights;
  }
  return std::nullopt;
}

// The costs of each device; of devices of one kind once. `kinds`: how many there are.
std::vector<SliceCost> costs_of(const ModelTemplate& model, const ModelOptions& options, Backends backends, std::size_t& kinds) {
  const std::vector<DeviceSpec>& devices = options.plan.devices;
  const std::vector<std::int64_t>& most = options.plan.memory.most;
  std::map<std::string, std::vector<std::size_t>> alike;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const DeviceId& id = devices[d].id;
    const std::string kind = concat(id.backend, ' ', find_backend(backends, id.backend).model(id.index, 1).name);
    alike[most.size() > 1 ? concat(kind, ' ', most[d]) : kind].push_back(d);
  }
  kinds = alike.size();
  std::vector<SliceCost> costs(devices.size());
  for (const auto& [kind, members] : alike) {
    std::vector<DeviceSpec> specs;
    for (const std::size_t d : members) specs.push_back(devices[d]);
    ModelOptions own = options;
    if (most.size() > 1) own.plan.memory.most = {most[members[0]]};
    const SliceCost cost = cost_of(model, own, specs, options.micro_batch(), backends);
    for (const std::size_t d : members) costs[d] = cost;
  }
  return costs;
}

}  // namespace

std::vector<std::int64_t> shortest_slices(std::span<const SliceCost> costs, std::int64_t batch) {
  check_room(costs, batch);
  double low = 0, high = 0;
  for (const SliceCost& c : costs) high = std::max(high, c.fixed + c.each * static_cast<double>(batch));
  const auto all = [&](double seconds) {
    std::int64_t sum = 0;
    for (const SliceCost& c : costs) sum += within(c, seconds, batch);
    return sum;
  };
  for (int i = 0; i < 100; ++i) (all((low + high) / 2) >= batch ? high : low) = (low + high) / 2;
  std::vector<std::int64_t> slices;
  for (const SliceCost& c : costs) slices.push_back(within(c, high, batch));
  for (std::int64_t more = std::accumulate(slices.begin(), slices.end(), std::int64_t{0}) - batch; more > 0; --more) {
    std::size_t last = 0;
    for (std::size_t i = 1; i < slices.size(); ++i)
      if (seconds_of(costs[i], slices[i]) > seconds_of(costs[last], slices[last])) last = i;
    --slices[last];
  }
  return slices;
}

std::vector<std::int64_t> slices_by_memory(std::span<const SliceCost> costs, std::int64_t batch) {
  check_room(costs, batch);
  double sum = 0;
  for (const SliceCost& c : costs) sum += static_cast<double>(c.most);
  std::vector<std::int64_t> slices;
  for (const SliceCost& c : costs)
    slices.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(batch) * static_cast<double>(c.most) / sum)));
  std::int64_t left = batch - std::accumulate(slices.begin(), slices.end(), std::int64_t{0});
  for (std::size_t i = 0; left > 0; i = (i + 1) % slices.size())
    if (slices[i] < costs[i].most) ++slices[i], --left;
  return slices;
}

namespace {

// What there is to say of the weights it gives.
std::string choose(const ModelTemplate& model, const ModelOptions& asked, SliceBy by, Backends backends, std::vector<double>& weights) {
  if (auto kept = kept_weights(asked)) {
    weights = *std::move(kept);
    return ", as before";
  }
  ModelOptions options = asked;
  options.plan_file.clear();
  options.record.clear();
  options.world = nullptr;
  std::size_t kinds = 0;
  const std::vector<SliceCost> costs = costs_of(model, options, backends, kinds);
  const std::int64_t batch = options.micro_batch();
  const std::vector<std::int64_t> slices = by == SliceBy::time ? shortest_slices(costs, batch) : slices_by_memory(costs, batch);
  for (std::size_t i = 0; i < slices.size(); ++i) options.plan.devices[i].weight = weights[i] = static_cast<double>(slices[i]);
  return kinds > 1 ? delaying(model, options, costs, backends) : "";
}

}  // namespace

std::string choose_slices(const ModelTemplate& model, ModelOptions& options, SliceBy by, Backends backends) {
  std::vector<DeviceSpec>& devices = options.plan.devices;
  if (by == SliceBy::given || devices.size() < 2) return "";
  const std::string asked = concat(option("slice_weights"), by == SliceBy::time ? " auto" : " memory");
  check_replicas_only(options.plan, asked);
  std::vector<double> weights(devices.size());
  std::string found;
  if (!options.world || options.world->rank() == 0) found = choose(model, options, by, backends, weights);
  if (options.world) options.world->gather(std::as_writable_bytes(std::span(weights)));
  std::string text;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    devices[i].weight = weights[i];
    text += concat(i == 0 ? "" : ",", weights[i]);
  }
  return concat(asked, " is ", text, found);
}

}  // namespace tandem
