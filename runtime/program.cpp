#include "runtime/program.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "planner/plan/format.h"
#include "runtime/step_kernel.h"

namespace tandem {

struct Program::Adding {
  const Plan& plan;
  std::size_t index;  // of the device
  const DeviceProgram& device;
  const Place& place;
  std::span<std::byte* const> addresses;
  StepId id;
  const Step& step;
  Stream* stream;
  std::pair<StepId, int> own;  // of the plan that is expanded: the step, and the slot
  std::byte* address(BufferId buffer) const { return buffer.present() ? addresses[static_cast<std::size_t>(buffer.index)] : nullptr; }
};

Program::Program(const ExpandedPlan& expanded, std::size_t device_index, const Place& place, std::span<std::byte* const> addresses)
    : staging_(place.staging), group_(place.group), rank_(place.rank), ahead_(place.device.runs_ahead()), poisoned_(place.poisoned) {
  const Plan& plan = expanded.plan;
  const DeviceProgram& device = plan.program_of(device_index);
  const ProgramId program = plan.devices[device_index].program;
  step_of_ = expanded.step_of[program];
  IdVector<StepId, Event*> ended(device.steps.size(), nullptr);  // recorded where another stream waits for it
  for (const Step& s : device.steps)
    for (const StepId w : s.waits) {
      if (ended[w] || device.steps[w].stream == s.stream) continue;
      events_.push_back(place.device.create_event());
      ended[w] = events_.back().get();
    }

  std::array<std::array<StepId, plan_streams>, plan_streams> known{};  // known[a][b]: last step of b that a has waited for
  for (StepId id{0}; id.index < static_cast<int>(device.steps.size()); ++id.index) {
    const Step& step = device.steps[id];
    names_.push_back(text_of_step(plan, device, id));
    Stream* const stream = place.streams[static_cast<std::size_t>(step.stream)].get();
    if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
    for (const StepId w : step.waits) {
      const int other = device.steps[w].stream;
      StepId& last = known[static_cast<std::size_t>(step.stream)][static_cast<std::size_t>(other)];
      if (other == step.stream || w <= last) continue;
      last = w;
      instructions_.push_back({.kind = Instruction::wait, .step = id.index, .stream = stream, .event = ended[w]});
    }
    const Adding adding{
        plan, device_index, device, place, addresses, id, step, stream, {step_of_[at(id.index)], expanded.place_of[program][at(id.index)]}};
    std::visit([&](const auto& what) { add(adding, what); }, step.what);
    if (ended[id]) instructions_.push_back({.kind = Instruction::record, .step = id.index, .stream = stream, .event = ended[id]});
  }
  if (ahead_) prepare_slots(place);
}

void Program::add_kernel(const Adding& a, std::unique_ptr<Kernel> kernel) {
  std::vector<std::byte*> inputs, outputs;
  for (const BufferId id : a.step.inputs) inputs.push_back(a.address(id));
  for (const BufferId id : a.step.outputs) outputs.push_back(a.address(id));
  kernel->bind(inputs, outputs, a.address(a.step.workspace));
  launch(a, *kernel);
  kernels_.push_back(std::move(kernel));
}

void Program::launch(const Adding& a, Kernel& kernel) {
  instructions_.push_back({.kind = Instruction::launch, .step = a.id.index, .stream = a.stream, .kernel = &kernel});
}

void Program::add(const Adding& a, const LaunchStep& launch) {
  Kernel*& shared = shared_[a.own];
  if (shared) return this->launch(a, *shared);
  try {
    add_kernel(a, make_kernel(a.place.backend, a.plan, a.index, a.step, launch));
    shared = kernels_.back().get();
  } catch (const Error& e) {
    fail(e.code(), names_.back(), ": ", e.what());
  }
}

void Program::add(const Adding& a, const ExchangeStep& step) {
  const Exchange& e = a.plan.exchanges[step.exchange];
  if (!a.place.group || e.elements == 0 || e.row_length() < 2) return;
  try {
    add_kernel(a, a.place.group->make(*a.place.exchanges[at(step.exchange.index)], a.place.rank));
    instructions_.back().channel = a.place.exchanges[at(step.exchange.index)]->channel;
  } catch (const Error& error) {
    fail(error.code(), names_.back(), ": ", error.what());
  }
}

Program::Instruction Program::copy_of(const Adding& a, BufferId buffer, Instruction::Kind kind, int host, std::int64_t offset) const {
  return {.kind = kind,
          .step = a.id.index,
          .stream = a.stream,
          .memory = a.address(buffer),
          .host = static_cast<std::size_t>(host),
          .offset = offset,
          .bytes = a.device.buffers[buffer].operand.bytes()};
}

void Program::add(const Adding& a, const SliceStep& slice) {
  const BufferId id = a.step.outputs[0];
  const Operand& operand = a.device.buffers[id].operand;
  if (operand.bytes() == 0) return;
  const HostInput& input = a.plan.inputs[at(slice.host)];
  const std::int64_t row = a.plan.first_row(static_cast<int>(a.index), a.step.micro_batch);
  // Of the runtime's own there is one for each micro-batch.
  const std::int64_t own = input.role == ValueRole::step_state ? operand.bytes() * a.step.micro_batch : 0;
  Instruction copy = copy_of(a, id, Instruction::copy_in, slice.host, input.batched ? operand.bytes() / operand.shape[0] * row : own);
  if (a.step.workspace.present()) {
    Instruction staged = copy;
    staged.stream = staging_.stream.get();
    staged.memory = a.address(a.step.workspace);
    copy.kind = Instruction::copy;
    copy.from = staged.memory;
    staged_.push_back(staged);
    taken_.push_back(copy);
  } else {
    instructions_.push_back(copy);
  }
}

void Program::add(const Adding& a, const ConcatStep& part) {
  const BufferId id = a.step.inputs[0];
  const Operand& operand = a.device.buffers[id].operand;
  if (operand.bytes() == 0) return;
  const bool rows = a.plan.outputs[static_cast<std::size_t>(part.host)].combine == Combine::rows;
  const int device = static_cast<int>(a.index);
  const std::int64_t offset =
      rows ? operand.bytes() / operand.shape[0] * a.plan.first_row(device, part, a.step.micro_batch)
           : operand.bytes() * a.plan.parts_before(device, a.step);
  instructions_.push_back(copy_of(a, id, Instruction::copy_out, part.host, offset));
  const Instruction& copy = instructions_.back();
  host_parts_.push_back({copy.host, copy.offset, copy.bytes});
}

void Program::execute(const Instruction& i, const HostBuffers& host, const Slot& slot) const {
  Stream& stream = *i.stream;
  switch (i.kind) {
    case Instruction::launch: stream.launch(*i.kernel); break;
    case Instruction::copy_in:
      stream.copy_in(i.memory, i.place < 0 ? host.inputs[i.host] + i.offset : slot.memory + i.place, i.bytes);
      break;
    case Instruction::copy_out:
      if (i.place >= 0)
        stream.copy_out(slot.memory + i.place, i.memory, i.bytes);
      else if (host.outputs[i.host])
        stream.copy_out(host.outputs[i.host] + i.offset, i.memory, i.bytes);
      break;
    case Instruction::copy: stream.copy(i.memory, i.from, i.bytes); break;
    case Instruction::record: stream.record(*i.event); break;
    case Instruction::wait: stream.wait(*i.event); break;
  }
}

// What a wait fails with was named where it happened.
template <class List, class Execute>
void Program::for_each(List& list, const Execute& call) const {
  const Instruction* at = nullptr;
  const auto where = [&] { return at->kind == Instruction::wait ? "" : names_[static_cast<std::size_t>(at->step)] + ": "; };
  try {
    for (auto& i : list) {
      at = &i;
      call(i);
    }
  } catch (const Error& e) {
    fail(e.code(), where(), e.what());
  } catch (const std::exception& e) {
    fail(ExitCode::device, where(), e.what());
  }
}

void Program::each(const std::vector<Instruction>& list, const std::function<void(const Instruction&)>& call) const {
  for_each(list, call);
}

void Program::queue(const HostBuffers& host, const Slot& slot) const {
  const bool first = ahead_ && begun_ == 1;
  for_each(instructions_, [&](const Instruction& i) {
    if (host.stop && (*host.stop)()) return;
    if (!first || i.channel < 0) return execute(i, host, slot);
    for (Stream* s : streams_) s->synchronize();  // kernels are launched for the first time
    alone(i, [&] {
      execute(i, host, slot);
      i.stream->synchronize();
    });
  });
}

// Waits until the step before has taken its batch.
void Program::announce(std::span<const std::byte* const> inputs) {
  if (staged_.empty()) return;
  staging_.holder = nullptr;
  staging_.stream->wait(*staging_.taken);
  for_each(staged_, [&](Instruction& i) {
    execute(i, {inputs, {}}, {});
    i.from = inputs[i.host];
  });
  staging_.stream->record(*staging_.filled[staging_.fillings++ % 2]);
  staging_.holder = this;
}

void Program::take(const HostBuffers& host) {
  if (staged_.empty()) return;
  const auto lies_there = [&](const Instruction& i) { return i.from == host.inputs[i.host]; };
  if (!host.announced || staging_.holder != this || !std::all_of(staged_.begin(), staged_.end(), lies_there)) announce(host.inputs);
  staging_.in_use = staging_.filled[(staging_.fillings - 1) % 2].get();
  Stream& stream = *taken_.front().stream;
  stream.wait(*staging_.in_use);
  for_each(taken_, [&](const Instruction& i) { execute(i, host, {}); });
  stream.record(*staging_.taken);
  staging_.holder = nullptr;
}

void Program::run_timed(const HostBuffers& host, std::span<double> seconds, int repeats) {
  std::vector<double> times;
  const Slot& slot = slots_[0];
  const auto run = [&](const Instruction& i) {
    times.assign(i.kind == Instruction::launch ? static_cast<std::size_t>(repeats) : 1, 0);
    for (double& time : times) {
      const auto begin = std::chrono::steady_clock::now();
      execute(i, host, slot);
      i.stream->synchronize();
      time = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    const auto middle = times.begin() + std::ssize(times) / 2;
    std::nth_element(times.begin(), middle, times.end());
    seconds[at(step_of_[at(i.step)].index)] += *middle;
  };
  const auto timed = [&](const Instruction& i) { i.channel < 0 ? run(i) : alone(i, [&] { run(i); }); };
  staging_.holder = nullptr;
  put_inputs(host.inputs, slot);
  for (const auto* list : {&staged_, &taken_, &instructions_}) for_each(*list, timed);
  get_outputs(host.outputs, slot);
}

void Program::put_inputs(std::span<const std::byte* const> inputs, const Slot& slot) const {
  for (const Instruction& i : instructions_)
    if (i.kind == Instruction::copy_in && i.place >= 0) std::copy_n(inputs[i.host] + i.offset, i.bytes, slot.memory + i.place);
}

void Program::get_outputs(std::span<std::byte* const> outputs, const Slot& slot) const {
  for (const Instruction& i : instructions_)
    if (i.kind == Instruction::copy_out && i.place >= 0 && outputs[i.host])
      std::copy_n(slot.memory + i.place, i.bytes, outputs[i.host] + i.offset);
}

void Program::begin(const HostBuffers& host, Program* next, std::span<const std::byte* const> next_inputs) {
  if (group_) group_->begin_step(rank_);
  Slot& slot = slot_of(begun_++);
  put_inputs(host.inputs, slot);
  if (!poisoned_.empty() && !streams_.empty()) {
    streams_[0]->fill(poisoned_.data(), std::byte{0xFF}, std::ssize(poisoned_));
    if (!ahead_) streams_[0]->synchronize();
  }
  take(host);
  slot.graph ? slot.graph->launch(*streams_[0]) : queue(host, slot);
  if (slot.ended) streams_[0]->record(*slot.ended);
  if (next) next->announce(next_inputs);
}

void Program::finish(std::span<std::byte* const> outputs) {
  Slot& slot = slot_of(finished_++);
  if (slot.ended) {
    slot.ended->synchronize();
    if (staging_.in_use) staging_.in_use->synchronize();
    get_outputs(outputs, slot);
  } else {
    for (Stream* s : streams_) s->synchronize();
  }
  if (group_) group_->end_step(rank_);
}

void Program::run(const HostBuffers& host, Program* next, std::span<const std::byte* const> next_inputs) {
  begin(host, next, next_inputs);
  finish(host.outputs);
  if (staging_.stream) staging_.stream->synchronize();
}

// A step starts behind all of the one before it, of whatever program, and ends with its first stream. What it copies from the host,
// but for what is staged, and to it lies in slots, so that all of it can be captured.
void Program::prepare_slots(const Place& place) {
  if (streams_.empty()) return;
  std::int64_t bytes = 0;
  for (Instruction& i : instructions_) {
    if (i.kind != Instruction::copy_in && i.kind != Instruction::copy_out) continue;
    i.place = bytes;
    bytes = aligned(bytes + i.bytes);
  }
  for (Slot& slot : slots_) {
    slot.memory = place.device.allocate_host(bytes);
    slot.ended = place.device.create_event();
  }
  Stream* const main = place.streams[0].get();
  std::erase(streams_, main);
  streams_.insert(streams_.begin(), main);
  std::vector<Instruction> fork, join;
  const auto add = [&](std::vector<Instruction>& list, Instruction::Kind kind, Stream* stream, Event* event) {
    list.push_back({.kind = kind, .step = 0, .stream = stream, .event = event});
  };
  for (std::size_t s = 1; s < streams_.size(); ++s) {
    for (int i = 0; i < 2; ++i) events_.push_back(place.device.create_event());
    Event *const begun = events_[events_.size() - 2].get(), *const ended = events_.back().get();
    add(fork, Instruction::record, streams_[0], begun);
    add(fork, Instruction::wait, streams_[s], begun);
    add(join, Instruction::record, streams_[s], ended);
    add(join, Instruction::wait, streams_[0], ended);
  }
  instructions_.insert(instructions_.begin(), fork.begin(), fork.end());
  instructions_.insert(instructions_.end(), join.begin(), join.end());
  // The kernels of some groups wait for other devices on the host, which a graph cannot.
  if (!place.device.can_capture()) return;
  if (place.group && !place.group->captures())
    not_captured_ = "it sums over devices of this process";
  else
    capturing_ = &place.device;
}

bool Program::capture() {
  try {
    record(*std::exchange(capturing_, nullptr));
  } catch (const std::exception& e) {
    drop_capture(e.what());
  }
  return not_captured_.empty();
}

void Program::record(Device& device) {
  for (Slot& slot : slots_) {
    device.begin_capture(*streams_[0]);
    try {
      for (const Instruction& i : instructions_) execute(i, {}, slot);
    } catch (...) {
      try {
        device.end_capture(*streams_[0]);
      } catch (...) {  // what went wrong first is told
      }
      throw;
    }
    slot.graph = device.end_capture(*streams_[0]);
  }
}

void Program::drop_capture(const std::string& reason) {
  for (Slot& slot : slots_) slot.graph.reset();
  if (not_captured_.empty()) not_captured_ = reason;
}

void Program::drain() noexcept {
  const auto wait = [](Stream& stream) {
    try {
      stream.synchronize();
    } catch (...) {  // the first failure is already known
    }
  };
  for (Stream* s : streams_) wait(*s);
  if (staging_.stream) wait(*staging_.stream);
}

}  // namespace tandem
