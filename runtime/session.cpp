#include "runtime/session.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "kernels/mixed_group.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/step_parts.h"
#include "runtime/exchange_specs.h"
#include "runtime/parameter_parts.h"
#include "runtime/session_state.h"
#include "runtime/step_trace.h"

namespace tandem {
namespace {

bool exchanges(const Plan& plan) {
  return std::any_of(plan.exchanges.begin(), plan.exchanges.end(), [](const Exchange& e) { return e.row_length() > 1; });
}

[[noreturn]] void rethrow(const DeviceId& device, const Workers::Failure& failure) {
  try {
    std::rethrow_exception(failure.error);
  } catch (const Error& e) {
    fail(e.code(), device, ": ", e.what());
  } catch (const std::exception& e) {
    fail(ExitCode::device, device, ": ", e.what());
  }
}

}  // namespace

void Session::State::end(const Workers::Failure& f) {
  under_way = 0;
  failure = reason_of(f.error);
  if (world) world->stop(concat(name_of(f.worker), ": ", failure));
  rethrow(name_of(f.worker), f);
}

Session::Session(Plan plan, std::span<const Backend* const> backends, World* world) : state_(std::make_unique<State>()) {
  verify(plan);
  State& s = *state_;
  s.world = world;
  s.range = devices_of(world, static_cast<int>(plan.devices.size()));
  s.backends = backends;
  int threads = 0;
  for (int d = 0; d < s.range.count; ++d) {
    const auto device = static_cast<std::size_t>(s.range.first + d);
    find_backend(backends, plan.devices[device].device);
    threads += std::max(1, plan.program_of(device).model.threads);
  }
  s.devices.resize(static_cast<std::size_t>(s.range.count));
  s.inputs.resize(s.devices.size());
  s.workers = std::make_unique<Workers>(s.range.count, threads);
  if (has_parts(plan)) {
    auto [forward, backward] = parts_of(plan);
    s.load(std::move(forward));
    s.load(std::move(backward));
  } else {
    s.load(std::move(plan));
  }
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;

void Session::State::check_same_session(const Plan& plan) const {
  const Plan& first = *plans[0];
  const bool same_devices = std::equal(plan.devices.begin(), plan.devices.end(), first.devices.begin(), first.devices.end(),
                                       [](const PlanDevice& a, const PlanDevice& b) { return a.device == b.device; });
  if (!same_devices) fail(ExitCode::usage, "session: the plan to add has other devices than the first");
  for (const PlanParameter& p : plan.parameters) {
    const auto it = parameters.find(p.key());
    if (it == parameters.end())
      fail(ExitCode::usage, "session: the plan to add has parameter '", p.name, "', which the first plan has not");
    const PlanParameter& q = *it->second;
    if (const std::string how = difference(plan, p, first, q); !how.empty())
      fail(ExitCode::usage, "session: parameter '", p.name, "' is ", how, " in the first");
  }
}

void Session::State::load(Plan plan) {
  const Plan& p = *plans.emplace_back(std::make_unique<const Plan>(std::move(plan)));
  if (plans.size() == 1)
    for (const PlanParameter& parameter : p.parameters) parameters.emplace(parameter.key(), &parameter);
  OwnInputs own;
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const auto claim = [&](int& index, std::string_view state, const TensorType& type) {
      if (p.inputs[i].role != ValueRole::step_state || p.inputs[i].of != state) return;
      if (p.inputs[i].type != type || p.inputs[i].batched)
        fail(ExitCode::usage, "session: input '", p.inputs[i].name, "' is ", p.inputs[i].type, ", expected ", type, " without a batch");
      index = static_cast<int>(i);
    };
    claim(own.scalars, step_scalars, {DType::float32, {StepScalars::count}});
    claim(own.random, step_random, {DType::int64, {4}});
    const std::int64_t means = p.inputs[i].type.shape.elements();
    claim(own.shares, step_shares, {DType::float32, {means}});
    if (own.shares == static_cast<int>(i)) shares.resize(std::max(shares.size(), static_cast<std::size_t>(means * p.micro_batches)));
  }
  own_inputs.push_back(own);
  can_be_left.push_back(p.mode == PlanMode::inference && !exchanges(p));
  for (DeviceInputs& i : inputs) {
    i.inputs.resize(std::max(i.inputs.size(), p.inputs.size()));
    i.random.resize(std::max(i.random.size(), static_cast<std::size_t>(4 * p.micro_batches)));
  }

  if (world) world->agree(std::vector<World::Fact>{{"plan", hash_of(p)}});
  if (!group && exchanges(p)) make_group(p);
  const ExpandedPlan written_out = expanded(p);
  const std::vector<ExchangeSpec> specs = exchange_specs(written_out.plan, channels);
  if (group) group->connect(specs);
  on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
    const std::size_t index = static_cast<std::size_t>(range.first) + d;
    if (!device) device = std::make_unique<DeviceRuntime>(p, index, find_backend(backends, p.devices[index].device));
    device->add(written_out, group.get(), specs);
  });
  channels += static_cast<int>(specs.size());

  if (!world) return;
  std::int64_t bytes = 0;
  for (const HostOutput& o : p.outputs) bytes += o.bytes();
  std::vector<Program::HostPart> written;
  for (const auto& device : devices) {
    const std::vector<Program::HostPart>& parts = device->program(plans.size() - 1).host_parts();
    written.insert(written.end(), parts.begin(), parts.end());
  }
  if (!between_ranks) between_ranks = std::make_unique<OutputExchange>(*world, range.count);
  between_ranks->add(written, bytes);
}

void Session::State::give(std::size_t plan, std::span<std::byte* const> outputs, Outputs become) {
  if (!world) return;
  between_ranks->keep(plan, outputs);
  if (become == Outputs::kept) return;
  between_ranks->exchange();
  between_ranks->get(0, outputs);
}

std::span<const std::uint64_t> Session::exchange_outputs(std::uint64_t word) { return state_->between_ranks->exchange(word); }
void Session::get_outputs(std::size_t step, std::span<std::byte* const> outputs) const { state_->between_ranks->get(step, outputs); }

void Session::State::make_group(const Plan& p) {
  GroupSpec spec;
  spec.first_rank = range.first;
  spec.ranks = static_cast<int>(p.devices.size());
  spec.world = world;
  for (int d = 0; d < range.count; ++d) spec.devices.push_back(p.devices[static_cast<std::size_t>(range.first + d)].device.index);
  spec.deterministic = p.options.deterministic;
  if (world) spec.timeout_seconds = world->timeout_seconds();
  std::vector<const Backend*> of;
  for (int d = 0; d < range.count; ++d) of.push_back(&find_backend(backends, p.devices[static_cast<std::size_t>(range.first + d)].device));
  const std::string& first = p.devices[0].device.backend;
  const bool mixed = std::ranges::any_of(p.devices, [&](const PlanDevice& d) { return d.device.backend != first; });
  group = mixed ? mixed_group(spec, std::move(of)) : of[0]->create_group(spec);
}

std::size_t Session::add(Plan plan) {
  verify(plan);
  state_->check_same_session(plan);
  state_->load(std::move(plan));
  return state_->plans.size() - 1;
}

const Plan& Session::plan(std::size_t index) const { return *state_->plans.at(index); }
int Session::devices() const { return static_cast<int>(state_->devices.size()); }

std::int64_t Session::allocated_bytes(int device) const {
  return state_->devices.at(static_cast<std::size_t>(device))->allocated_bytes();
}

std::byte* Session::host_memory(std::size_t number, std::int64_t bytes) {
  State& s = *state_;
  if (s.host_memory.size() <= number) s.host_memory.resize(number + 1);
  State::HostMemory& kept = s.host_memory[number];
  if (!kept.memory || kept.bytes < bytes)
    s.on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
      if (d == 0) kept = {device->allocate_host(bytes), bytes};
    });
  return kept.memory;
}

std::string Session::not_captured(std::size_t plan, int device) const {
  return state_->devices.at(static_cast<std::size_t>(device))->program(plan).not_captured();
}

void Session::check_inputs(std::size_t index, std::span<const std::optional<TensorType>> fed) const {
  const Plan& p = plan(index);
  if (fed.size() != p.inputs.size()) fail(ExitCode::data, "session: ", fed.size(), " inputs for a plan of ", p.inputs.size());
  for (std::size_t i = 0; i < fed.size(); ++i)
    if (fed[i] && *fed[i] != p.inputs[i].type)
      fail(ExitCode::data, "plan of '", p.model, "': its input '", p.inputs[i].name, "' is ", p.inputs[i].type,
           p.inputs[i].batched ? "" : " for the whole batch", ", what feeds it gives ", *fed[i]);
}

template <class Call>
void Session::step(std::size_t index, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs, const StepState& state,
                   const Ahead& ahead, const Call& call) {
  const bool known = !ahead.inputs.empty();
  if (known && ahead.inputs.size() != plan(ahead.plan).inputs.size())
    fail(ExitCode::usage, "session: ", ahead.inputs.size(), " inputs ahead, expected ", plan(ahead.plan).inputs.size());
  run_programs(index, inputs, outputs, state, ahead.announced, [&](Program& program, const HostBuffers& host, std::size_t device) {
    call(program, host, known ? &state_->program(ahead.plan, device) : nullptr, ahead.inputs);
  });
}

void Session::run(std::size_t index, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs, const StepState& state,
                  const Ahead& ahead, Outputs become) {
  State& s = *state_;
  s.check_idle();
  step(index, inputs, outputs, state, ahead,
       [](Program& program, const HostBuffers& host, Program* next, std::span<const std::byte* const> next_inputs) {
         program.run(host, next, next_inputs);
       });
  s.give(index, outputs, become);
  s.capture(index);
}

bool Session::runs_ahead(std::size_t index) const {
  State& s = *state_;
  for (std::size_t d = 0; d < s.devices.size(); ++d)
    if (!s.program(index, d).runs_ahead()) return false;
  return true;
}

bool Session::will_run_ahead() const {
  State& s = *state_;
  for (std::size_t d = 0; d < s.devices.size(); ++d)
    if (!s.program(0, d).will_run_ahead()) return false;
  return true;
}

void Session::begin(std::size_t index, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                    const StepState& state, const Ahead& ahead, Outputs become) {
  State& s = *state_;
  if (s.under_way == s.begun.size() || (s.under_way == 1 && !(runs_ahead(index) && runs_ahead(s.begun[0].plan)))) s.check_idle();
  step(index, inputs, outputs, state, ahead,
       [](Program& program, const HostBuffers& host, Program* next, std::span<const std::byte* const> next_inputs) {
         program.begin(host, next, next_inputs);
       });
  s.begun[s.under_way++] = {index, outputs, become};
}

void Session::finish() {
  State& s = *state_;
  if (!s.failure.empty()) fail(ExitCode::device, "the session failed before: ", s.failure);
  if (s.under_way == 0) fail(ExitCode::usage, "session: no step is under way");
  const State::Begun step = s.begun[0];
  const auto job = [&](int d) { s.program(step.plan, static_cast<std::size_t>(d)).finish(step.outputs); };
  const auto failed = [&](int d, const std::exception_ptr& error) { s.leave_step(step.plan, d, error); };
  if (const Workers::Failure f = s.workers->run(job, failed); f.worker >= 0) s.end(f);
  s.begun[0] = s.begun[1];
  --s.under_way;
  s.give(step.plan, step.outputs, step.become);
  if (s.under_way == 0) s.capture(step.plan);
}

// A step is captured on all devices of all ranks or on none: their sums must be.
void Session::State::capture(std::size_t index) {
  if (!program(index, 0).wants_capture()) return;
  std::atomic<bool> failed = false;
  on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t) {
    if (!device->program(index).capture()) failed = true;
  });
  if (!(world ? world->any(failed.load()) : failed.load())) return;
  on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t) {
    device->program(index).drop_capture("another device could not capture it");
  });
}

void Session::set_stop(std::function<bool()> stop) {
  state_->stop = std::move(stop);
}

std::vector<std::vector<double>> Session::run_timed(std::size_t index, std::span<const std::byte* const> inputs,
                                                    std::span<std::byte* const> outputs, const StepState& step, int repeats) {
  if (repeats > 1 && !plan(index).exchanges.empty()) fail(ExitCode::usage, "session: kernels of a plan that exchanges cannot be repeated");
  std::vector<std::vector<double>> seconds;
  for (int d = 0; d < devices(); ++d)
    seconds.emplace_back(plan(index).program_of(static_cast<std::size_t>(state_->range.first + d)).steps.size(), 0.0);
  state_->check_idle();
  run_programs(index, inputs, outputs, step, false, [&](Program& program, const HostBuffers& host, std::size_t device) {
    program.run_timed(host, seconds[device], repeats);
  });
  state_->give(index, outputs, Outputs::of_all_ranks);
  return seconds;
}

std::vector<Timeline> Session::run_traced(std::size_t index, std::span<const std::byte* const> inputs,
                                          std::span<std::byte* const> outputs, const StepState& step) {
  State& s = *state_;
  s.check_idle();
  const Plan flat = written_out(plan(index));
  StepTrace trace(flat);
  trace.begin(s.world);
  run_programs(index, inputs, outputs, step, false, [&](Program& program, const HostBuffers& host, std::size_t device) {
    const std::size_t own = at(s.range.first) + device;
    program.run_traced(host, trace.line(own).begins, trace.line(own).ends);
    trace.set(own);
  });
  s.give(index, outputs, Outputs::kept);
  return trace.take(s.world);
}

template <class Job>
void Session::run_programs(std::size_t index, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                           const StepState& step, bool announced, const Job& run) {
  State& s = *state_;
  const Plan& plan = *s.plans[index];
  s.gathered.clear();
  if (!s.failure.empty()) fail(ExitCode::device, "the session failed before: ", s.failure);
  if (inputs.size() != plan.inputs.size() || outputs.size() != plan.outputs.size())
    fail(ExitCode::usage, "session: ", inputs.size(), " inputs and ", outputs.size(), " outputs, expected ", plan.inputs.size(), " and ",
         plan.outputs.size());
  s.scalars = {.learning_rate = static_cast<float>(step.learning_rate), .epoch = static_cast<float>(step.epoch),
               .average = static_cast<float>(step.average)};
  set_step(s.scalars, step.kind, static_cast<double>(step.step), step.beta1, step.beta2);
  for (std::size_t i = 0; i < s.shares.size(); ++i)
    s.shares[i] = i < step.shares.size() ? static_cast<float>(step.shares[i]) : 1.0F / static_cast<float>(plan.micro_batches);
  const State::OwnInputs own = s.own_inputs[index];
  for (std::size_t d = 0; d < s.inputs.size(); ++d) {
    State::DeviceInputs& in = s.inputs[d];
    for (int m = 0; m < plan.micro_batches; ++m) {
      std::int64_t* const random = &in.random[static_cast<std::size_t>(4 * m)];
      random[0] = static_cast<std::int64_t>(step.seed);
      random[1] = step.step;
      random[2] = plan.first_row(s.range.first + static_cast<int>(d), m) + step.first;
    }
    std::copy(inputs.begin(), inputs.end(), in.inputs.begin());
    if (own.scalars >= 0) in.inputs[static_cast<std::size_t>(own.scalars)] = reinterpret_cast<const std::byte*>(&s.scalars);
    if (own.shares >= 0) in.inputs[static_cast<std::size_t>(own.shares)] = reinterpret_cast<const std::byte*>(s.shares.data());
    if (own.random >= 0) in.inputs[static_cast<std::size_t>(own.random)] = reinterpret_cast<const std::byte*>(in.random.data());
  }
  const std::function<bool()>* const stop = s.stop && s.can_be_left[index] ? &s.stop : nullptr;
  const auto job = [&](int d) {
    const std::size_t device = static_cast<std::size_t>(d);
    run(s.devices[device]->program(index), {std::span(s.inputs[device].inputs.data(), plan.inputs.size()), outputs, announced, stop},
        device);
  };
  const auto failed = [&](int d, const std::exception_ptr& error) { s.leave_step(index, d, error); };
  if (const Workers::Failure f = s.workers->run(job, failed); f.worker >= 0) s.end(f);
}

}  // namespace tandem
