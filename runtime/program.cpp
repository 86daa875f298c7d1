#include "runtime/program.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "planner/plan/format.h"

namespace tandem {
namespace {

std::string name_of_step(const Plan& plan, const DevicePlan& device, StepId id) {
  const Step& step = device.steps[id];
  const auto* launch = step.as<LaunchStep>();
  const std::string what = launch ? concat(launch->op, ", ", launch->kernel) : std::string(kind_of(plan, step));
  return concat("step ", id.index, " (", what, step.origin.empty() ? "" : concat(", from '", step.origin.front(), "'"), ")");
}

std::vector<Operand> operands(const DevicePlan& device, const std::vector<BufferId>& ids) {
  std::vector<Operand> out;
  for (const BufferId id : ids) out.push_back(id.present() ? device.buffers[id].operand : Operand{});
  return out;
}

std::string text(const std::vector<Operand>& operands) {
  std::string s;
  for (const Operand& o : operands) s += (s.empty() ? "" : " ") + to_string(o);
  return s;
}

// Absent operands of the plan need no match: a kernel may describe fewer operands, or optional ones.
bool agree(const std::vector<Operand>& wanted, const std::vector<Operand>& got) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i].present() && (i >= got.size() || got[i] != wanted[i])) return false;
  return true;
}

// The kernel of a launch step as the backend makes it. Fails (device) where it has none that matches.
std::unique_ptr<Kernel> make_kernel(const Backend& backend, const Plan& plan, const DevicePlan& device, const Step& step, const LaunchStep& launch) {
  KernelRequest request{.op = launch.op,
                        .attributes = &launch.attributes,
                        .inputs = operands(device, step.inputs),
                        .outputs = operands(device, step.outputs),
                        .options = plan.options,
                        .kernel = launch.kernel};
  if (device.model.threads > 0) request.options.threads = device.model.threads;
  request.options.device = device.device.index;
  std::string offers;
  for (const KernelDescription& d : backend.describe(request)) {
    if (d.kernel != launch.kernel || !agree(request.inputs, d.inputs) || !agree(request.outputs, d.outputs)) {
      offers += concat("\n  ", d.kernel, ": ", text(d.inputs), " → ", text(d.outputs));
      continue;
    }
    const std::int64_t room = step.workspace.present() ? device.buffers[step.workspace].bytes : 0;
    if (d.workspace > room) fail(ExitCode::device, "kernel ", d.kernel, " needs ", d.workspace, " bytes of workspace, the plan has ", room);
    return d.make();
  }
  fail(ExitCode::device, "the plan wants kernel ", launch.kernel, ": ", text(request.inputs), " → ", text(request.outputs), "; backend ",
       backend.name(), " ", backend.version(), " offers ", offers.empty() ? "none" : offers);
}

}  // namespace

struct Program::Adding {
  const Plan& plan;
  const DevicePlan& device;
  const Place& place;
  std::span<std::byte* const> addresses;
  StepId id;
  const Step& step;
  Stream* stream;
  std::byte* address(BufferId buffer) const { return buffer.present() ? addresses[static_cast<std::size_t>(buffer.index)] : nullptr; }
};

Program::Program(const Plan& plan, std::size_t device_index, const Place& place, std::span<std::byte* const> addresses)
    : staging_(place.staging), group_(place.group), rank_(place.rank) {
  const DevicePlan& device = plan.devices[device_index];
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
    names_.push_back(name_of_step(plan, device, id));
    Stream* const stream = place.streams[static_cast<std::size_t>(step.stream)].get();
    if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
    for (const StepId w : step.waits) {
      const int other = device.steps[w].stream;
      StepId& last = known[static_cast<std::size_t>(step.stream)][static_cast<std::size_t>(other)];
      if (other == step.stream || w <= last) continue;
      last = w;
      instructions_.push_back({.kind = Instruction::wait, .step = id.index, .stream = stream, .event = ended[w]});
    }
    const Adding adding{plan, device, place, addresses, id, step, stream};
    std::visit([&](const auto& what) { add(adding, what); }, step.what);
    if (ended[id]) instructions_.push_back({.kind = Instruction::record, .step = id.index, .stream = stream, .event = ended[id]});
  }
  frame_staging();
  prepare_capture(place);
}

void Program::add_kernel(const Adding& a, std::unique_ptr<Kernel> kernel) {
  std::vector<std::byte*> inputs, outputs;
  for (const BufferId id : a.step.inputs) inputs.push_back(a.address(id));
  for (const BufferId id : a.step.outputs) outputs.push_back(a.address(id));
  kernel->bind(inputs, outputs, a.address(a.step.workspace));
  instructions_.push_back({.kind = Instruction::launch, .step = a.id.index, .stream = a.stream, .kernel = kernel.get()});
  kernels_.push_back(std::move(kernel));
}

void Program::add(const Adding& a, const LaunchStep& launch) {
  try {
    add_kernel(a, make_kernel(a.place.backend, a.plan, a.device, a.step, launch));
  } catch (const Error& e) {
    fail(e.code(), names_.back(), ": ", e.what());
  }
}

void Program::add(const Adding& a, const ExchangeStep& step) {
  const Exchange& e = a.plan.exchanges[step.exchange];
  if (!a.place.group || e.elements == 0 || e.devices.size() < 2) return;
  const ExchangeSpec spec{e.kind, e.devices, e.elements, e.dtype, parts_of(a.plan, step.exchange), a.place.first_channel + step.exchange.index};
  try {
    add_kernel(a, a.place.group->make(spec, a.place.rank));
  } catch (const Error& error) {
    fail(error.code(), names_.back(), ": ", error.what());
  }
}

// The staged copies wait until the step before has taken its batch, the step's copies until the batch is there.
void Program::frame_staging() {
  if (staged_.empty()) return;
  const auto instruction = [](const Instruction& like, Instruction::Kind kind, Event& event) {
    return Instruction{.kind = kind, .step = like.step, .stream = like.stream, .event = &event};
  };
  staged_.insert(staged_.begin(), instruction(staged_.front(), Instruction::wait, *staging_.taken));
  staged_.push_back(instruction(staged_.back(), Instruction::record, *staging_.filled));
  taken_.insert(taken_.begin(), instruction(taken_.front(), Instruction::wait, *staging_.filled));
  taken_.push_back(instruction(taken_.back(), Instruction::record, *staging_.taken));
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
  const bool rows = a.plan.inputs[static_cast<std::size_t>(slice.host)].batched;
  Instruction copy = copy_of(a, id, Instruction::copy_in, slice.host, rows ? operand.bytes() / operand.shape[0] * slice.begin : 0);
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
  instructions_.push_back(copy_of(a, id, Instruction::copy_out, part.host, operand.bytes() / (rows ? operand.shape[0] : 1) * part.begin));
  const Instruction& copy = instructions_.back();
  host_parts_.push_back({copy.host, copy.offset, copy.bytes});
}

void Program::execute(const Instruction& i, Stream& stream, const HostBuffers& host) {
  switch (i.kind) {
    case Instruction::launch: stream.launch(*i.kernel); break;
    case Instruction::copy_in: stream.copy_in(i.memory, host.inputs[i.host] + i.offset, i.bytes); break;
    case Instruction::copy_out:
      if (host.outputs[i.host]) stream.copy_out(host.outputs[i.host] + i.offset, i.memory, i.bytes);
      break;
    case Instruction::copy: stream.copy(i.memory, i.from, i.bytes); break;
    case Instruction::record: stream.record(*i.event); break;
    case Instruction::wait: stream.wait(*i.event); break;
  }
}

template <class List, class Execute>
void Program::for_each(List& list, const Execute& call) const {
  const Instruction* at = nullptr;
  try {
    for (auto& i : list) {
      at = &i;
      call(i);
    }
  } catch (const Error& e) {
    fail(e.code(), names_[static_cast<std::size_t>(at->step)], ": ", e.what());
  } catch (const std::exception& e) {
    fail(ExitCode::device, names_[static_cast<std::size_t>(at->step)], ": ", e.what());
  }
}

void Program::queue(const HostBuffers& host) const {
  for_each(instructions_, [&](const Instruction& i) {
    if (!host.stop || !(*host.stop)()) execute(i, *i.stream, host);
  });
}

void Program::announce(std::span<const std::byte* const> inputs) {
  if (staged_.empty()) return;
  staging_.holder = nullptr;
  for_each(staged_, [&](Instruction& i) {
    execute(i, *i.stream, {inputs, {}});
    if (i.kind == Instruction::copy_in) i.from = inputs[i.host];
  });
  staging_.holder = this;
}

void Program::take(const HostBuffers& host) {
  if (staged_.empty()) return;
  const auto lies_there = [&](const Instruction& i) { return i.kind != Instruction::copy_in || i.from == host.inputs[i.host]; };
  if (!host.announced || staging_.holder != this || !std::all_of(staged_.begin(), staged_.end(), lies_there)) announce(host.inputs);
  for_each(taken_, [&](const Instruction& i) { execute(i, *i.stream, host); });
  staging_.holder = nullptr;
}

void Program::run_timed(const HostBuffers& host, std::span<double> seconds, int repeats) {
  std::vector<double> times;
  const auto timed = [&](const Instruction& i) {
    times.assign(i.kind == Instruction::launch ? static_cast<std::size_t>(repeats) : 1, 0);
    for (double& time : times) {
      const auto begin = std::chrono::steady_clock::now();
      execute(i, *i.stream, host);
      i.stream->synchronize();
      time = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    const auto middle = times.begin() + std::ssize(times) / 2;
    std::nth_element(times.begin(), middle, times.end());
    seconds[static_cast<std::size_t>(i.step)] += *middle;
  };
  staging_.holder = nullptr;
  for (const auto* list : {&staged_, &taken_, &instructions_}) for_each(*list, timed);
}

void Program::run(const HostBuffers& host, Program* next, std::span<const std::byte* const> next_inputs) {
  if (group_) group_->begin_step(rank_);
  take(host);
  graph_ ? replay(host) : queue(host);
  if (next) next->announce(next_inputs);
  for (Stream* s : streams_) s->synchronize();
  if (staging_.stream) staging_.stream->synchronize();
  if (group_) group_->end_step(rank_);
  if (capturing_) capture();
}

// Host addresses differ from step to step, so copies stay outside the graph: possible where they stand at both ends. The
// kernels of some groups wait for other devices on the host, which a graph cannot.
void Program::prepare_capture(const Place& place) {
  if (!place.device.can_capture() || streams_.empty()) return;
  const auto is_copy = [](const Instruction& i) { return i.kind == Instruction::copy_in || i.kind == Instruction::copy_out; };
  const auto is_launch = [](const Instruction& i) { return i.kind == Instruction::launch; };
  const auto first = std::find_if(instructions_.begin(), instructions_.end(), is_launch);
  const auto after = std::find_if(instructions_.rbegin(), instructions_.rend(), is_launch).base();
  if (first >= after) return;
  if (place.group && !place.group->captures())
    not_captured_ = "it sums over devices of this process";
  else if (std::any_of(first, after, is_copy))
    not_captured_ = "it copies to or from the host between kernels";
  if (!not_captured_.empty()) return;
  capturing_ = &place.device;
  captured_ = static_cast<std::size_t>(first - instructions_.begin());
  after_ = static_cast<std::size_t>(after - instructions_.begin());
  for (std::size_t s = 0; s < streams_.size(); ++s) events_.push_back(place.device.create_event());  // to fork and join
}

void Program::capture() {
  Device& device = *std::exchange(capturing_, nullptr);
  Stream& main = *streams_[0];
  const auto event = [&](std::size_t stream) -> Event& { return *events_[events_.size() - streams_.size() + stream]; };
  std::vector<const Event*> outside;  // recorded before the captured part, which follows all of that
  for (std::size_t i = 0; i < captured_; ++i)
    if (instructions_[i].kind == Instruction::record) outside.push_back(instructions_[i].event);
  try {
    device.begin_capture(main);
    try {
      main.record(event(0));
      for (std::size_t s = 1; s < streams_.size(); ++s) streams_[s]->wait(event(0));
      for (std::size_t i = captured_; i < after_; ++i) {
        const Instruction& in = instructions_[i];
        const bool known = in.kind == Instruction::wait && std::find(outside.begin(), outside.end(), in.event) != outside.end();
        if (!known) execute(in, *in.stream, {});
      }
      for (std::size_t s = 1; s < streams_.size(); ++s) {
        streams_[s]->record(event(s));
        main.wait(event(s));
      }
    } catch (...) {
      try {
        device.end_capture(main);
      } catch (...) {  // what went wrong first is told
      }
      throw;
    }
    graph_ = device.end_capture(main);
  } catch (const std::exception& e) {
    not_captured_ = e.what();
  }
}

void Program::replay(const HostBuffers& host) {
  Stream& main = *streams_[0];
  for (std::size_t i = 0; i < captured_; ++i)
    if (instructions_[i].kind == Instruction::copy_in) execute(instructions_[i], main, host);
  graph_->launch(main);
  for (std::size_t i = after_; i < instructions_.size(); ++i)
    if (instructions_[i].kind == Instruction::copy_out) execute(instructions_[i], main, host);
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
