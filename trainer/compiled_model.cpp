// Plans as they are needed, and one step of one of them.
#include "trainer/compiled_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/pattern.h"
#include "base/printable.h"
#include "planner/loss/attach_loss.h"
#include "planner/micro_batches.h"
#include "planner/plan/plan_file.h"
#include "planner/update/optimizer.h"
#include "planner/plan/timeline.h"
#include "trainer/loss_measures.h"
#include "trainer/share.h"

namespace tandem {
namespace {

// The sum over devices of a scalar output, each times a factor.
double sum_of(const HostOutput& output, const std::vector<std::byte>& values, const std::function<double(std::size_t)>& factor) {
  double sum = 0;
  visit_float(output.type.dtype, [&]<class T>() {
    const T* v = reinterpret_cast<const T*>(values.data());
    for (std::size_t i = 0; i < values.size() / sizeof(T); ++i) sum += static_cast<double>(v[i]) * factor(i);
  });
  return sum;
}
double sum_of(const HostOutput& output, const std::vector<std::byte>& values) {
  return sum_of(output, values, [](std::size_t) { return 1.0; });
}

}  // namespace

// Rank 0 plans, for kernels may be timed, with what the ranks say is free on their devices; the others take its plan.
Plan plan_together(World* world, KeptPlans& kept, const GraphSource& source, CompileOptions options, Backends backends,
                   const Plan* parameters_of, const Plan* given) {
  if (!world) return kept.compile(source, options, backends, parameters_of, given);
  if (!parameters_of) {
    options.memory.free = free_memory(options.devices, devices_of(world, static_cast<int>(options.devices.size())), backends);
    world->gather(std::as_writable_bytes(std::span(options.memory.free)));
  }
  std::string bytes;
  if (world->rank() == 0) {
    const World::Busy busy(world);
    bytes = serialize(kept.compile(source, options, backends, parameters_of, given));
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
  const bool alike = o.parallel.tensor == 1 && o.parallel.pipeline == 1 && o.parallel.places.empty();
  if (!options.world || o.placement || o.configuration || !alike) return {};
  std::vector<double> weights;
  for (const DeviceSpec& d : options.plan.devices) weights.push_back(d.weight);
  return [weights, own = devices_of(options.world, static_cast<int>(weights.size()))](std::int64_t batch, std::int64_t parts) {
    const std::vector<std::int64_t> sizes = slice_sizes(batch / parts, weights);
    const auto first = sizes.begin() + own.first, last = first + own.count;
    const RowRange of_part{std::accumulate(sizes.begin(), first, std::int64_t{0}), std::accumulate(first, last, std::int64_t{0})};
    std::vector<RowRange> rows;
    for (std::int64_t p = 0; p < parts; ++p) rows.push_back({p * (batch / parts) + of_part.first, of_part.count});
    return rows;
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
  Runner r{.bucket = bucket, .samples = {key.batch}};
  if (plan.micro_batches > 1) r.samples = own_rows(micro_batches_of(key.batch, micro_batch()));
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

void CompiledModel::run(std::size_t plan, std::span<std::byte* const> inputs, const StepState& state, const BatchAhead& ahead,
                        Outputs become) {
  const Ahead next = put_inputs(plan, inputs, ahead);
  session->run(plan, runners[plan].inputs, runners[plan].outputs, in_micro_batches(plan, inputs, state), next, become);
}

std::vector<Timeline> CompiledModel::run_traced(std::size_t plan, std::span<std::byte* const> inputs, const StepState& state) {
  put_inputs(plan, inputs, {});
  return session->run_traced(plan, runners[plan].inputs, runners[plan].outputs, in_micro_batches(plan, inputs, state));
}

void CompiledModel::begin(std::size_t plan, std::span<std::byte* const> inputs, const StepState& state, const BatchAhead& ahead) {
  if (!session->runs_ahead(plan)) return run(plan, inputs, state, ahead, Outputs::kept);
  const Ahead next = put_inputs(plan, inputs, ahead);
  session->begin(plan, runners[plan].inputs, runners[plan].outputs, in_micro_batches(plan, inputs, state), next, Outputs::kept);
  ++under_way;
}

std::vector<std::vector<double>> CompiledModel::weights_of(std::size_t index, std::span<std::byte* const> inputs) const {
  const Runner& r = runners[index];
  const Plan& plan = session->plan(index);
  std::vector<std::vector<double>> all;
  std::vector<std::byte*> from(inputs.begin(), inputs.end());
  for (const std::int64_t samples : r.samples) {
    all.push_back(weighs_alike() ? std::vector<double>(loss_means(), static_cast<double>(samples)) : weigh(from, samples, r.bucket));
    for (std::size_t t = 0; t < targets.size(); ++t)
      if (from[t])
        from[t] += plan.batch / plan.micro_batches * bucket_forms[r.bucket].shapes[t].elements() *
                   static_cast<std::int64_t>(size_of(targets[t].sample.dtype));
  }
  return all;
}

// Micro-batches share the batch's means, each by what its own means are divided by.
StepState CompiledModel::in_micro_batches(std::size_t index, std::span<std::byte* const> inputs, StepState state) const {
  if (session->plan(index).micro_batches == 1) return state;
  const std::vector<std::vector<double>> all = weights_of(index, inputs);
  std::vector<double> sums(loss_means(), 0);
  for (const std::vector<double>& own : all)
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += own[i];
  for (const std::vector<double>& own : all) {
    for (std::size_t i = 0; i < sums.size(); ++i) state.shares.push_back(sums[i] == 0 ? 0 : own[i] / sums[i]);
    if (options.plan.optimizer.average) state.shares.push_back(&own == &all.back() ? 1 : 0);
  }
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
  const std::int64_t samples = std::accumulate(r.samples.begin(), r.samples.end(), std::int64_t{0});
  StepReport report{.step = step, .samples = samples, .learning_rate = rate};
  constexpr std::string_view part_of_loss = "loss/";
  double counted = not_measured;
  // Rows that stand several times in a micro-batch were counted as often. Values stand by micro-batch, then by device.
  const auto count_of = [&](std::size_t i) {
    const std::size_t devices = static_cast<std::size_t>(plan.outputs[i].parts) / r.samples.size();
    return sum_of(plan.outputs[i], r.storage[i], [&](std::size_t part) {
      return static_cast<double>(r.samples[part / devices] * plan.micro_batches) / static_cast<double>(plan.batch);
    });
  };
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    if (plan.outputs[i].role == ValueRole::loss) report.loss = sum_of(plan.outputs[i], r.storage[i]);
    if (plan.outputs[i].role != ValueRole::metric) continue;
    const std::string& metric = plan.outputs[i].of;
    if (metric == "loss_scale") {  // the same on all devices; one without samples says 0
      const auto* scales = reinterpret_cast<const float*>(r.storage[i].data());
      report.loss_scale = static_cast<double>(*std::max_element(scales, scales + plan.outputs[i].parts));
    }
    if (metric == "correct") report.accuracy = count_of(i);
    if (metric == "counted") counted = count_of(i);
    if (metric.starts_with(part_of_loss))
      report.metrics[concat(metric.substr(part_of_loss.size()), "_loss")] = sum_of(plan.outputs[i], r.storage[i]);
  }
  if (std::isnan(report.accuracy)) return report;  // it has no meaning
  report.counted = std::isnan(counted) ? static_cast<double>(samples * bucket_forms[r.bucket].positions) : counted;
  report.accuracy = report.counted > 0 ? report.accuracy / report.counted : 0;
  return report;
}

Buckets CompiledModel::buckets_for(Feed& feed) const {
  std::vector<std::vector<Shape>> shapes;
  for (const BucketForm& form : bucket_forms) shapes.push_back(form.shapes);
  return {feed, std::move(shapes)};
}

}  // namespace tandem
