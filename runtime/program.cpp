#include "runtime/program.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace tandem {
namespace {

constexpr std::size_t stream_count = 3;

std::string name_of_step(const DevicePlan& device, std::size_t s) {
  const Step& step = device.steps[s];
  const std::string what = step.kind == StepKind::launch ? concat(step.op, ", ", step.kernel) : std::string(name_of(step.kind));
  return concat("step ", s, " (", what, step.origin.empty() ? "" : concat(", from '", step.origin.front(), "'"), ")");
}

std::vector<Operand> operands(const DevicePlan& device, const std::vector<BufferId>& ids) {
  std::vector<Operand> out;
  for (const BufferId id : ids) out.push_back(id.present() ? device.buffers[static_cast<std::size_t>(id.index)].operand : Operand{});
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
std::unique_ptr<Kernel> make_kernel(const Backend& backend, const Plan& plan, const DevicePlan& device, const Step& step) {
  KernelRequest request{.op = step.op,
                        .attributes = &step.attributes,
                        .inputs = operands(device, step.inputs),
                        .outputs = operands(device, step.outputs),
                        .options = plan.options,
                        .kernel = step.kernel};
  if (device.model.threads > 0) request.options.threads = device.model.threads;
  std::string offers;
  for (const KernelDescription& d : backend.describe(request)) {
    if (d.kernel != step.kernel || !agree(request.inputs, d.inputs) || !agree(request.outputs, d.outputs)) {
      offers += concat("\n  ", d.kernel, ": ", text(d.inputs), " → ", text(d.outputs));
      continue;
    }
    const std::int64_t room = step.workspace.present() ? device.buffers[static_cast<std::size_t>(step.workspace.index)].bytes : 0;
    if (d.workspace > room) fail(ExitCode::device, "kernel ", d.kernel, " needs ", d.workspace, " bytes of workspace, the plan has ", room);
    return d.make();
  }
  fail(ExitCode::device, "the plan wants kernel ", step.kernel, ": ", text(request.inputs), " → ", text(request.outputs), "; backend ",
       backend.name(), " ", backend.version(), " offers ", offers.empty() ? "none" : offers);
}

}  // namespace

Program::Program(const Plan& plan, std::size_t device_index, const Place& place, std::span<std::byte* const> addresses)
    : staging_(place.staging), group_(place.group), rank_(place.rank) {
  const DevicePlan& device = plan.devices[device_index];
  const auto address = [&](BufferId id) { return id.present() ? addresses[static_cast<std::size_t>(id.index)] : nullptr; };
  std::vector<Event*> ended(device.steps.size(), nullptr);  // by step: recorded where another stream waits for it
  for (std::size_t s = 0; s < device.steps.size(); ++s)
    for (const StepId w : device.steps[s].waits) {
      Event*& event = ended[static_cast<std::size_t>(w.index)];
      if (event || device.steps[static_cast<std::size_t>(w.index)].stream == device.steps[s].stream) continue;
      events_.push_back(place.device.create_event());
      event = events_.back().get();
    }

  std::array<std::array<int, stream_count>, stream_count> known;  // known[a][b]: last step of b that a has waited for
  for (auto& row : known) row.fill(-1);
  for (std::size_t s = 0; s < device.steps.size(); ++s) {
    const Step& step = device.steps[s];
    const int number = static_cast<int>(s);
    names_.push_back(name_of_step(device, s));
    Stream* const stream = place.streams[static_cast<std::size_t>(step.stream)].get();
    if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
    for (const StepId w : step.waits) {
      const int other = device.steps[static_cast<std::size_t>(w.index)].stream;
      int& last = known[static_cast<std::size_t>(step.stream)][static_cast<std::size_t>(other)];
      if (other == step.stream || w.index <= last) continue;
      last = w.index;
      instructions_.push_back(
          {.kind = Instruction::wait, .step = number, .stream = stream, .event = ended[static_cast<std::size_t>(w.index)]});
    }
    switch (step.kind) {
      case StepKind::slice:
      case StepKind::concat: add_copy(plan, device_index, number, stream, addresses); break;
      case StepKind::all_reduce: {
        const Bucket& bucket = plan.buckets[static_cast<std::size_t>(step.bucket)];
        if (!place.group || bucket.elements == 0) break;
        kernels_.push_back(place.group->all_reduce(place.rank, place.first_channel + step.bucket, bucket.elements, bucket.dtype));
        std::byte* const memory = address(step.outputs[0]);
        kernels_.back()->bind({&memory, 1}, {&memory, 1}, nullptr);
        instructions_.push_back({.kind = Instruction::launch, .step = number, .stream = stream, .kernel = kernels_.back().get()});
        break;
      }
      case StepKind::launch: {
        try {
          kernels_.push_back(make_kernel(place.backend, plan, device, step));
        } catch (const Error& e) {
          fail(e.code(), names_.back(), ": ", e.what());
        }
        std::vector<std::byte*> inputs, outputs;
        for (const BufferId id : step.inputs) inputs.push_back(address(id));
        for (const BufferId id : step.outputs) outputs.push_back(address(id));
        kernels_.back()->bind(inputs, outputs, address(step.workspace));
        instructions_.push_back({.kind = Instruction::launch, .step = number, .stream = stream, .kernel = kernels_.back().get()});
        break;
      }
    }
    if (ended[s]) instructions_.push_back({.kind = Instruction::record, .step = number, .stream = stream, .event = ended[s]});
  }
  frame_staging();
  prepare_capture(place);
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

// Rows of the global batch that are this device's, or all of what has no batch; a sum's place by device.
void Program::add_copy(const Plan& plan, std::size_t device_index, int number, Stream* stream, std::span<std::byte* const> addresses) {
  const DevicePlan& device = plan.devices[device_index];
  const Step& step = device.steps[static_cast<std::size_t>(number)];
  const bool in = step.kind == StepKind::slice;
  const BufferId id = in ? step.outputs[0] : step.inputs[0];
  const std::int64_t bytes = device.buffers[static_cast<std::size_t>(id.index)].operand.bytes();
  if (bytes == 0) return;
  const std::size_t host = static_cast<std::size_t>(step.host);
  const bool rows = in ? plan.inputs[host].batched : plan.outputs[host].combine == Combine::rows;
  std::int64_t offset = 0;
  if (rows)
    offset = bytes / device.slice_size * device.slice_begin;
  else if (!in)
    offset = bytes * static_cast<std::int64_t>(device_index);
  if (!in) host_parts_.push_back({host, offset, bytes});
  Instruction copy{.kind = in ? Instruction::copy_in : Instruction::copy_out,
                   .step = number,
                   .stream = stream,
                   .memory = addresses[static_cast<std::size_t>(id.index)],
                   .host = host,
                   .offset = offset,
                   .bytes = bytes};
  if (in && step.workspace.present()) {
    Instruction staged = copy;
    staged.stream = staging_.stream.get();
    staged.memory = addresses[static_cast<std::size_t>(step.workspace.index)];
    copy.kind = Instruction::copy;
    copy.from = staged.memory;
    staged_.push_back(staged);
    taken_.push_back(copy);
  } else {
    instructions_.push_back(copy);
  }
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

void Program::run_timed(const HostBuffers& host, std::span<double> seconds) {
  const auto timed = [&](const Instruction& i) {
    const auto begin = std::chrono::steady_clock::now();
    execute(i, *i.stream, host);
    i.stream->synchronize();
    seconds[static_cast<std::size_t>(i.step)] += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
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
