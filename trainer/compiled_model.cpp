// Plans as they are needed, and one step of one of them.
#include "trainer/compiled_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/pattern.h"
#include "base/printable.h"
#include "planner/loss/attach_loss.h"
#include "planner/plan/plan_file.h"
#include "planner/update/optimizer.h"
#include "trainer/loss_measures.h"
#include "trainer/share.h"

namespace tandem {
namespace {

// The sum over devices of a scalar output.
double sum_of(const HostOutput& output, const std::vector<std::byte>& values) {
  double sum = 0;
  visit_float(output.type.dtype, [&]<class T>() {
    const T* v = reinterpret_cast<const T*>(values.data());
    for (std::size_t i = 0; i < values.size() / sizeof(T); ++i) sum += static_cast<double>(v[i]);
  });
  return sum;
}

}  // namespace

// Rank 0 plans, for kernels may be timed, with what the ranks say is free on their devices; the others take its plan.
Plan plan_together(World* world, KeptPlans& kept, const GraphSource& source, CompileOptions options, Backends backends,
                   const Plan* parameters_of) {
  if (!world) return kept.compile(source, options, backends, parameters_of);
  if (!parameters_of) {
    options.memory.free = free_memory(options.devices, devices_of(world, static_cast<int>(options.devices.size())), backends);
    world->gather(std::as_writable_bytes(std::span(options.memory.free)));
  }
  std::string bytes;
  if (world->rank() == 0) {
    const World::Busy busy(world);
    bytes = serialize(kept.compile(source, options, backends, parameters_of));
  }
  return parse_plan(world->broadcast(bytes));
}

std::span<const FeedTarget> CompiledModel::inputs() const {
  const auto labels = std::find_if(targets.begin(), targets.end(), [](const FeedTarget& t) { return t.label; });
  return {targets.begin(), labels};
}

LoaderOptions::RowsOf CompiledModel::rows_here() const {
  // where devices differ, any may read any rows
  const CompileOptions& o = options.plan;
  const bool alike = o.parallel.tensor == 1 && o.parallel.pipeline == 1 && o.parallel.places.empty() && o.parallel.micro_batches == 1;
  if (!options.world || o.placement || o.configuration || !alike) return {};
  std::vector<double> weights;
  for (const DeviceSpec& d : options.plan.devices) weights.push_back(d.weight);
  return [weights, own = devices_of(options.world, static_cast<int>(weights.size()))](std::int64_t batch) {
    const std::vector<std::int64_t> sizes = slice_sizes(batch, weights);
    const auto first = sizes.begin() + own.first, last = first + own.count;
    return RowRange{std::accumulate(sizes.begin(), first, std::int64_t{0}), std::accumulate(first, last, std::int64_t{0})};
  };
}

Session& CompiledModel::running() const {
  if (!session) fail(ExitCode::usage, "model '", source.file().name(), "' is not compiled");
  return *session;
}

std::size_t CompiledModel::plan_for(const PlanKey& key) {
  const auto found = plans.find(key);
  if (found != plans.end()) return found->second;
  const std::size_t index = running().add(plan_together(options.world, kept_plans, source.graphs(options, key, losses),
                                                        source.plan_options(options, key), backends, &running().plan(0)));
  plans[key] = index;
  prepare_runner(index, key);
  return index;
}

void CompiledModel::prepare_runner(std::size_t index, const PlanKey& key) {
  const Plan& plan = session->plan(index);
  const std::size_t bucket = key.bucket;
  Runner r{.bucket = bucket};
  std::vector<std::optional<TensorType>> fed;
  for (const HostInput& input : plan.inputs) {
    const auto target = std::find_if(targets.begin(), targets.end(), [&](const FeedTarget& t) { return feeds(t, input); });
    if (target == targets.end() && input.role != ValueRole::step_state)
      fail("plan of '", plan.model, "': nothing feeds its input '", input.name, "'");
    r.targets.push_back(target == targets.end() ? -1 : static_cast<int>(target - targets.begin()));
    fed.push_back({});
    if (target == targets.end()) continue;
    fed.back() = TensorType{target->sample.dtype, bucket_forms[bucket].shapes[static_cast<std::size_t>(r.targets.back())]};
    fed.back()->shape.dims.insert(fed.back()->shape.dims.begin(), plan.batch);
    if (const auto bytes = options.plan.given_bytes.find(input.name);
        key.bytes && input.role == ValueRole::plain && bytes != options.plan.given_bytes.end())
      fed.back() = given_type(bytes->second, fed.back()->shape);
  }
  session->check_inputs(index, fed);
  r.inputs.resize(r.targets.size());
  r.ahead.resize(r.targets.size());
  for (const HostOutput& output : plan.outputs) r.storage.emplace_back(static_cast<std::size_t>(output.bytes()));
  for (auto& s : r.storage) r.outputs.push_back(s.data());
  if (runners.size() <= index) runners.resize(index + 1);
  runners[index] = std::move(r);
}

void CompiledModel::run(std::size_t plan, std::span<std::byte* const> inputs, double rate, const BatchAhead& ahead, std::int64_t first) {
  StepState state = step_state(rate);
  state.first = first;
  run(plan, inputs, state, ahead);
}

void CompiledModel::run(std::size_t plan, std::span<std::byte* const> inputs, const StepState& state, const BatchAhead& ahead) {
  const Ahead next = put_inputs(plan, inputs, ahead);
  session->run(plan, runners[plan].inputs, runners[plan].outputs, in_micro_batches(plan, inputs, state), next);
}

void CompiledModel::begin(std::size_t plan, std::span<std::byte* const> inputs, const StepState& state, const BatchAhead& ahead) {
  if (!session->runs_ahead(plan)) return run(plan, inputs, state, ahead);
  const Ahead next = put_inputs(plan, inputs, ahead);
  session->begin(plan, runners[plan].inputs, runners[plan].outputs, in_micro_batches(plan, inputs, state), next);
  ++under_way;
}

// The shares of the batch's means become those of its micro-batches, each by what its own means are divided by.
StepState CompiledModel::in_micro_batches(std::size_t index, std::span<std::byte* const> inputs, StepState state) const {
  const Plan& plan = session->plan(index);
  if (plan.micro_batches == 1) return state;
  const std::size_t means = loss_means(), bucket = runners[index].bucket;
  const std::int64_t rows = plan.batch / plan.micro_batches;
  std::vector<double> weights(means, 0), shares;
  for (std::int64_t m = 0; m < plan.micro_batches; ++m) {
    std::vector<double> own(means, 1);
    if (!weighs_alike()) {
      std::vector<std::byte*> from(inputs.begin(), inputs.end());
      for (std::size_t t = 0; t < targets.size(); ++t)
        if (from[t])
          from[t] += m * rows * bucket_forms[bucket].shapes[t].elements() * static_cast<std::int64_t>(size_of(targets[t].sample.dtype));
      own = weigh(from, rows, bucket);
    }
    for (std::size_t i = 0; i < means; ++i) weights[i] += own[i];
    shares.insert(shares.end(), own.begin(), own.end());
  }
  for (std::size_t s = 0; s < shares.size(); ++s) {
    const std::size_t i = s % means;
    const double of_step = i < state.shares.size() ? state.shares[i] : 1;
    shares[s] = weights[i] == 0 ? 0 : of_step * shares[s] / weights[i];
  }
  state.shares = std::move(shares);
  return state;
}

void CompiledModel::finish() {
  if (under_way == 0) return;
  --under_way;
  session->finish();
}

Ahead CompiledModel::put_inputs(std::size_t plan, std::span<std::byte* const> inputs, const BatchAhead& ahead) {
  Runner& r = runners[plan];
  const auto list = [](const Runner& runner, std::span<std::byte* const> from, std::vector<const std::byte*>& to) {
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = runner.targets[i] < 0 ? nullptr : from[static_cast<std::size_t>(runner.targets[i])];
  };
  list(r, inputs, r.inputs);
  Ahead next{.announced = ahead.announced, .plan = ahead.plan};
  if (!ahead.inputs.empty()) {
    Runner& follows = runners[ahead.plan];
    list(follows, ahead.inputs, follows.ahead);
    next.inputs = follows.ahead;
  }
  return next;
}

StepState CompiledModel::step_state(double rate) const {
  const OptimizerOptions& o = options.plan.optimizer;
  return {.learning_rate = rate,
          .step = step + o.steps_before,
          .beta1 = o.beta1,
          .beta2 = o.beta2,
          .seed = options.seed,
          .kind = scalars_kind(o)};
}

void CompiledModel::start_states() {
  if (options.states.empty()) return;
  std::vector<NamedTensor> given;
  for (const PlanParameter& p : session->plan(0).parameters) {
    const auto it = options.states.find(p.name);
    if (p.role != ValueRole::optimizer_state || it == options.states.end()) continue;
    if (it->second.type() != p.type) fail("training_info: the state '", p.name, "' is ", it->second.type(), ", expected ", p.type);
    given.push_back({p.name, it->second});
  }
  if (!given.empty()) set_shared(*session, options.world, std::move(given), ValueRole::optimizer_state);
}

std::vector<double> CompiledModel::weigh(std::span<std::byte* const> inputs, std::int64_t samples, std::size_t bucket) const {
  const Losses& all = bucket_forms[bucket].losses;
  const BatchLabels batch = labels_in(all, targets, inputs, samples);
  std::vector<double> weights;
  for (std::size_t i = 0; i < all.size(); ++i)
    weights.push_back(std::max(loss_weight(all[i], batch.labels[i], batch.weights, samples), all[i].of_file() ? 0 : least_loss_weight));
  weights.resize(loss_means(), static_cast<double>(samples));
  return weights;
}

bool CompiledModel::weighs_alike() const {
  return bucket_forms.size() == 1 && std::none_of(losses.begin(), losses.end(), weight_depends_on_data);
}

StepReport CompiledModel::report(std::size_t index, double rate) const {
  const Plan& plan = session->plan(index);
  const Runner& r = runners[index];
  StepReport report{.step = step, .samples = plan.batch, .learning_rate = rate};
  constexpr std::string_view part_of_loss = "loss/";
  double counted = not_measured;
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    if (plan.outputs[i].role == ValueRole::loss) report.loss = sum_of(plan.outputs[i], r.storage[i]);
    if (plan.outputs[i].role != ValueRole::metric) continue;
    const std::string& metric = plan.outputs[i].of;
    if (metric == "loss_scale") {  // the same on all devices; one without samples says 0
      const auto* scales = reinterpret_cast<const float*>(r.storage[i].data());
      report.loss_scale = static_cast<double>(*std::max_element(scales, scales + plan.outputs[i].parts));
    }
    if (metric == "correct") report.accuracy = sum_of(plan.outputs[i], r.storage[i]);
    if (metric == "counted") counted = sum_of(plan.outputs[i], r.storage[i]);
    if (metric.starts_with(part_of_loss))
      report.metrics[concat(metric.substr(part_of_loss.size()), "_loss")] = sum_of(plan.outputs[i], r.storage[i]);
  }
  if (std::isnan(report.accuracy)) return report;  // it has no meaning
  report.counted = std::isnan(counted) ? static_cast<double>(plan.batch * bucket_forms[r.bucket].positions) : counted;
  report.accuracy = report.counted > 0 ? report.accuracy / report.counted : 0;
  return report;
}

Buckets CompiledModel::buckets_for(Feed& feed) const {
  std::vector<std::vector<Shape>> shapes;
  for (const BucketForm& form : bucket_forms) shapes.push_back(form.shapes);
  return {feed, std::move(shapes)};
}

}  // namespace tandem
