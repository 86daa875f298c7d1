// The C API over a session: codes in place of exceptions.
#include "tandem/runtime.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>

#include "base/spec.h"
#include "kernels/cpu/backend.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/step_parts.h"
#include "runtime/safetensors.h"
#include "runtime/session.h"

namespace tandem {
namespace {

constexpr const char* steps_key = "tandem.steps";  // how many a run has made, in what tandem_runtime_save keeps of it

thread_local std::string last_message;

}  // namespace
}  // namespace tandem

struct tandem_runtime {
  tandem::Session session;
  std::vector<std::size_t> given{};                      // of the plan's inputs those that the caller gives
  std::vector<const tandem::PlanParameter*> weights{};
  std::int64_t steps = 0;
  std::vector<const std::byte*> inputs{};                // of a step
  std::vector<std::byte*> outputs{};
  std::vector<std::vector<std::byte>> storage{};         // of each output, where the caller has no room
  bool failed = false;

  const tandem::Plan& plan() const { return session.plan(0); }
};

namespace tandem {
namespace {

// Runs `work`, and turns what it throws into a code and a message.
template <class Work>
int guarded(Work&& work) noexcept {
  last_message.clear();
  try {
    work();
    return TANDEM_RUNTIME_OK;
  } catch (const Error& e) {
    last_message = e.what();
    return static_cast<int>(e.code());
  } catch (const std::bad_alloc&) {
    last_message = "no memory is left";
    return TANDEM_RUNTIME_DEVICE;
  } catch (const std::exception& e) {
    last_message = e.what();
    return TANDEM_RUNTIME_DEVICE;
  }
}

void need(const void* pointer, std::string_view name) {
  if (!pointer) fail(ExitCode::usage, name, " is null");
}

template <class List>
const auto& at_index(const List& list, int index, std::string_view what) {
  if (index < 0 || index >= std::ssize(list)) fail(ExitCode::usage, what, ' ', index, ": there are ", list.size());
  return list[static_cast<std::size_t>(index)];
}

void check(const Plan& plan, const Backend& backend) {
  if (plan.record == PlanRecord())
    fail(ExitCode::model, "does not say what its steps take, as plans of earlier versions: make it again by 'tandem pack'");
  for (const PlanDevice& d : plan.devices)
    if (d.device.backend != backend.name())
      fail(ExitCode::device, "is for ", d.device, ", and this library runs on CPUs alone: it has the backend ", backend.name());
  for (const auto& [name, by] : plan.record.backends)
    if (name == backend.name() && by != backend.computes_by())
      fail(ExitCode::device, "was made for ", by, ", here is ", backend.computes_by(), ": make it again by 'tandem pack'");
  if (has_parts(plan))
    fail(ExitCode::model, "has a forward and a backward pass, whose gradients follow from the first: libtandem's Autograd runs it");
  if (std::ranges::any_of(plan.parameters, [](const PlanParameter& p) { return p.role == ValueRole::teacher; }))
    fail(ExitCode::model, "learns from a teacher, whose weights no packed model has");
}

void set_values(tandem_runtime& run, const std::string& path) {
  const SafetensorsFile file(path);
  const auto steps = file.metadata().find(steps_key);
  const bool state = steps != file.metadata().end();
  for (const PlanParameter& p : run.plan().parameters) {
    const bool of_optimizer = p.role == ValueRole::optimizer_state;
    if (!(p.role == ValueRole::plain || (of_optimizer && state))) continue;
    const NamedTensor value{p.name, file.read(of_optimizer ? concat(optimizer_state_prefix, p.name) : p.name)};
    if (value.tensor.type() != p.type)
      fail(ExitCode::data, path, ": '", p.name, "' is ", value.tensor.type(), ", expected ", p.type);
    run.session.set_parameters({&value, 1}, p.role);
  }
  if (state) run.steps = parse_integer(steps->second, concat(path, ": ", steps_key));
}

std::unique_ptr<tandem_runtime> open(const std::string& path, const std::string& weights) {
  Plan plan = read_plan(path);
  static const Backend* const backends[] = {&cpu_backend()};
  try {
    check(plan, *backends[0]);
  } catch (const Error& e) {
    fail(e.code(), path, ": ", e.what());
  }
  auto run = std::make_unique<tandem_runtime>(tandem_runtime{Session(std::move(plan), backends)});
  const Plan& of = run->plan();
  for (std::size_t i = 0; i < of.inputs.size(); ++i)
    if (of.inputs[i].role != ValueRole::step_state) run->given.push_back(i);
  for (const PlanParameter& p : of.parameters)
    if (p.role == ValueRole::plain) run->weights.push_back(&p);
  run->inputs.resize(of.inputs.size());
  run->outputs.resize(of.outputs.size());
  for (const HostOutput& o : of.outputs) run->storage.emplace_back(static_cast<std::size_t>(o.bytes()));
  set_values(*run, weights);
  return run;
}

tandem_runtime_value described(const std::string& name, const TensorType& type, std::int64_t bytes) {
  return {name.c_str(), static_cast<int>(type.dtype), type.shape.rank(), type.shape.dims.data(), bytes};
}

double sum_of(const HostOutput& output, std::span<const std::byte> values) {
  double sum = 0;
  visit_float(output.type.dtype, [&]<class T>() {
    const T* const v = reinterpret_cast<const T*>(values.data());
    for (std::size_t i = 0; i < values.size() / sizeof(T); ++i) sum += static_cast<double>(v[i]);
  });
  return sum;
}

tandem_runtime_numbers default_numbers(const tandem_runtime& run) { return {run.plan().record.learning_rate, 0, 0}; }

void step(tandem_runtime& run, const void* const* inputs, void* const* outputs, const tandem_runtime_numbers* values, double* loss) {
  if (run.failed) fail(ExitCode::usage, "the run failed before and can only be closed");
  for (std::size_t i = 0; i < run.given.size(); ++i) {
    need(inputs[i], "an input");
    run.inputs[run.given[i]] = static_cast<const std::byte*>(inputs[i]);
  }
  for (std::size_t o = 0; o < run.outputs.size(); ++o)
    run.outputs[o] = outputs && outputs[o] ? static_cast<std::byte*>(outputs[o]) : run.storage[o].data();
  const PlanRecord& record = run.plan().record;
  const tandem_runtime_numbers now = values ? *values : default_numbers(run);
  if (!(std::isfinite(now.learning_rate) && std::isfinite(now.epoch)))
    fail(ExitCode::usage, "learning rate ", now.learning_rate, " in epoch ", now.epoch, ": expected finite numbers");
  const bool trains = run.plan().mode == PlanMode::training;
  const StepState state{.learning_rate = now.learning_rate,
                        .step = run.steps + trains + record.steps_before,
                        .beta1 = record.beta1,
                        .beta2 = record.beta2,
                        .seed = record.seed,
                        .first = now.first_sample,
                        .kind = record.update,
                        .epoch = now.epoch};
  run.failed = true;  // unless it ends
  run.session.run(0, run.inputs, run.outputs, state);
  run.failed = false;
  run.steps += trains;
  if (!loss) return;
  *loss = std::nan("");
  for (std::size_t o = 0; o < run.outputs.size(); ++o)
    if (const HostOutput& output = run.plan().outputs[o]; output.role == ValueRole::loss)
      *loss = sum_of(output, {run.outputs[o], static_cast<std::size_t>(output.bytes())});
}

void save(tandem_runtime& run, const std::string& path, bool state) {
  std::map<std::string, std::string> metadata;
  if (state) metadata[steps_key] = std::to_string(run.steps);
  write_safetensors(path, metadata, [&](const Session::Visit& visit) {
    run.session.each_parameter(visit);
    if (state)
      run.session.each_optimizer_state([&](const NamedTensor& t) { visit({concat(optimizer_state_prefix, t.name), t.tensor}); });
  });
}

}  // namespace
}  // namespace tandem

using namespace tandem;

const char* tandem_runtime_message(void) { return last_message.c_str(); }

int tandem_runtime_open(const char* plan, const char* weights, tandem_runtime** run) {
  if (run) *run = nullptr;
  return guarded([&] {
    need(plan, "plan");
    need(weights, "weights");
    need(run, "run");
    *run = open(plan, weights).release();
  });
}
void tandem_runtime_close(tandem_runtime* run) { delete run; }

int tandem_runtime_input_count(const tandem_runtime* run) { return run ? static_cast<int>(run->given.size()) : 0; }
int tandem_runtime_output_count(const tandem_runtime* run) { return run ? static_cast<int>(run->outputs.size()) : 0; }
int tandem_runtime_weight_count(const tandem_runtime* run) { return run ? static_cast<int>(run->weights.size()) : 0; }

int tandem_runtime_input(const tandem_runtime* run, int index, tandem_runtime_value* input) {
  return guarded([&] {
    need(run, "run");
    need(input, "input");
    const HostInput& i = run->plan().inputs[at_index(run->given, index, "input")];
    *input = described(i.name, i.type, bytes_of(i.type));
  });
}
int tandem_runtime_output(const tandem_runtime* run, int index, tandem_runtime_value* output) {
  return guarded([&] {
    need(run, "run");
    need(output, "output");
    const HostOutput& o = at_index(run->plan().outputs, index, "output");
    *output = described(o.name, o.type, o.bytes());
  });
}
int tandem_runtime_weight(const tandem_runtime* run, int index, tandem_runtime_value* weight) {
  return guarded([&] {
    need(run, "run");
    need(weight, "weight");
    const PlanParameter& p = *at_index(run->weights, index, "weight");
    *weight = described(p.name, p.type, bytes_of(p.type));
  });
}

int tandem_runtime_default_numbers(const tandem_runtime* run, tandem_runtime_numbers* values) {
  return guarded([&] {
    need(run, "run");
    need(values, "values");
    *values = default_numbers(*run);
  });
}

int tandem_runtime_step(tandem_runtime* run, const void* const* inputs, void* const* outputs, const tandem_runtime_numbers* values,
                        double* loss) {
  return guarded([&] {
    need(run, "run");
    need(inputs, "inputs");
    step(*run, inputs, outputs, values, loss);
  });
}
int64_t tandem_runtime_steps(const tandem_runtime* run) { return run ? run->steps : 0; }

int tandem_runtime_read_weight(tandem_runtime* run, int index, void* values, int64_t bytes) {
  return guarded([&] {
    need(run, "run");
    need(values, "values");
    const PlanParameter& p = *at_index(run->weights, index, "weight");
    const std::int64_t wanted = bytes_of(p.type);
    if (bytes != wanted) fail(ExitCode::usage, "weight '", p.name, "' has ", wanted, " bytes, room is given for ", bytes);
    const Tensor tensor = run->session.parameter(p.name);
    std::ranges::copy(tensor.bytes(), static_cast<std::byte*>(values));
  });
}
int tandem_runtime_save(tandem_runtime* run, const char* weights, int state) {
  return guarded([&] {
    need(run, "run");
    need(weights, "weights");
    save(*run, weights, state != 0);
  });
}

int64_t tandem_runtime_memory(const tandem_runtime* run) {
  std::int64_t bytes = 0;
  for (int d = 0; run && d < run->session.devices(); ++d) bytes += run->session.allocated_bytes(d);
  return bytes;
}
