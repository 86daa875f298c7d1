#include "planner/recompute/activations.h"

#include <algorithm>

namespace tandem {

Activations::Activations(const LoweredGraph& program, std::span<const std::size_t> losses)
    : program_(program),
      root_(program.buffers.size()),
      of_(program.buffers.size()),
      once_(program.buffers.size()),
      made_(program.steps.size()),
      read_(program.steps.size()) {
  for (BufferId b{0}; b.index < std::ssize(program.buffers); ++b.index) {
    root_[b] = root_of(program.buffers, b);
    of_[b].bytes = program.buffers[b].bytes;
  }
  for (const Step& step : program.steps) updates_.push_back(is_update(program, step) || step.phase == Phase::update);
  find_makers();
  if (program.steps.empty() || program.steps.back().phase == Phase::forward)
    find_turn(losses);
  else
    turn_ = forward_end_ = static_cast<int>(
        std::ranges::find_if(program.steps, [](const Step& s) { return s.phase > Phase::forward; }) - program.steps.begin());
  find_readers();
  find_needed();
  count_others();
}

int Activations::backward_end() const {
  int end = steps();
  while (end > turn_ && updates_[at(end - 1)]) --end;
  return end;
}

void Activations::find_makers() {
  for (BufferId b{0}; b.index < std::ssize(once_); ++b.index)
    once_[b] = root_[b] == b && program_.buffers[b].arena == ArenaKind::scratch;
  for (const LoweredInput& in : program_.inputs) once_[root_[in.buffer]] = false;
  for (int s = 0; s < steps(); ++s)
    for (const BufferId out : step(s).outputs) {
      if (!out.present()) continue;
      Activation& made = of_[root_[out]];
      if (made.maker >= 0 && made.maker != s) once_[root_[out]] = false;
      made.maker = s;
    }
}

// Bytes that live from steps before a step to it or to those behind change by what is made and what is read last.
void Activations::find_turn(std::span<const std::size_t> losses) {
  forward_end_ = losses.empty() ? steps() : 0;
  for (const std::size_t output : losses) forward_end_ = std::max(forward_end_, of_[root_[program_.outputs[output]]].maker + 1);
  std::vector<int> last(of_.size(), -1);
  for (int s = 0; s < steps(); ++s)
    if (!updates_[at(s)])
      for (const BufferId in : step(s).inputs)
        if (in.present()) last[at(root_[in].index)] = s;
  std::vector<std::int64_t> change(at(steps()) + 2);
  for (BufferId b{0}; b.index < std::ssize(of_); ++b.index)
    if (once_[b] && of_[b].maker >= 0 && last[at(b.index)] > of_[b].maker) {
      change[at(of_[b].maker) + 1] += of_[b].bytes;
      change[at(last[at(b.index)]) + 1] -= of_[b].bytes;
    }
  std::int64_t live = 0, most = -1;
  for (int s = 0; s <= forward_end_; ++s) {
    live += change[at(s)];
    if (live >= most) turn_ = s;
    most = std::max(most, live);
  }
}

void Activations::find_readers() {
  std::vector<bool> given(of_.size());
  for (const BufferId out : program_.outputs) given[at(root_[out].index)] = true;
  const auto repeats = [&](const Step& s) {
    return s.as<LaunchStep>() && s.phase == Phase::forward && std::all_of(s.outputs.begin(), s.outputs.end(), [&](BufferId o) {
             return !o.present() || (once_[root_[o]] && !given[at(root_[o].index)]);
           });
  };
  const auto list = [&](std::vector<BufferId>& to, const std::vector<BufferId>& from) {
    for (const BufferId b : from)
      if (b.present() && of_[root_[b]].repeats && std::find(to.begin(), to.end(), root_[b]) == to.end()) to.push_back(root_[b]);
  };
  for (int s = 0; s < turn_; ++s)
    if (repeats(step(s))) {
      for (const BufferId out : step(s).outputs)
        if (out.present()) of_[root_[out]].repeats = true;
      list(made_[at(s)], step(s).outputs);
    }
  for (int s = 0; s < steps(); ++s) {
    if (updates_[at(s)]) continue;
    list(read_[at(s)], step(s).inputs);
    for (const BufferId in : read_[at(s)]) {
      Activation& read = of_[in];
      if (s < turn_) {
        read.last_forward = s;
        continue;
      }
      if (read.first_backward < 0) read.first_backward = s;
      read.last_backward = s;
    }
  }
  for (const Activation& a : of_)
    if (a.droppable()) droppable_bytes_ += a.bytes;
}

// A step whose results the backward pass alone reads runs there once, not once more.
void Activations::find_needed() {
  needed_forward_.assign(at(steps()), true);
  std::vector<bool> read(of_.size());
  for (int s = forward_end_ - 1; s >= 0; --s) {
    const auto& made = made_[at(s)];
    needed_forward_[at(s)] = made.empty() || std::any_of(made.begin(), made.end(), [&](BufferId b) { return read[at(b.index)]; });
    if (needed_forward_[at(s)])
      for (const BufferId in : read_[at(s)]) read[at(in.index)] = true;
  }
}

void Activations::count_others() {
  const int count = steps();
  std::vector<int> first(of_.size(), count), last(of_.size(), -1);
  const auto use = [&](BufferId b, int s) {
    if (!b.present()) return;
    first[at(root_[b].index)] = std::min(first[at(root_[b].index)], s);
    last[at(root_[b].index)] = std::max(last[at(root_[b].index)], s);
  };
  for (const LoweredInput& in : program_.inputs) use(in.buffer, 0);
  for (int s = 0; s < count; ++s) {
    if (updates_[at(s)]) continue;
    for (const auto* list : {&step(s).inputs, &step(s).outputs})
      for (const BufferId b : *list) use(b, s);
    use(step(s).workspace, s);
  }
  const auto counts = [&](BufferId root) { return program_.buffers[root].arena == ArenaKind::scratch && !of_[root].repeats; };
  std::vector<std::int64_t> begins(at(count) + 1), ends(at(count) + 1);
  for (BufferId b{0}; b.index < std::ssize(of_); ++b.index) {
    if (root_[b] != b || !counts(b) || last[at(b.index)] < 0) continue;
    begins[at(first[at(b.index)])] += of_[b].bytes;
    ends[at(last[at(b.index)])] += of_[b].bytes;
  }
  std::int64_t live = 0;
  for (int s = 0; s < count; ++s) {
    others_before_.push_back(live);
    std::int64_t shared = 0;  // outputs that lie where an input ends
    for (const auto& [o, i] : program_.in_place[at(s)]) {
      const BufferId in = step(s).inputs[at(i)], out = step(s).outputs[at(o)];
      if (!in.present() || !out.present() || !counts(root_[out]) || of_[root_[in]].bytes != of_[root_[out]].bytes) continue;
      if (last[at(root_[in].index)] == s) shared = std::max(shared, of_[root_[out]].bytes);
    }
    live += begins[at(s)];
    others_.push_back(live - shared);
    live -= ends[at(s)];
  }
}

std::int64_t Activations::own(int s) const {
  std::int64_t bytes = step(s).workspace.present() ? of_[step(s).workspace].bytes : 0, shared = 0;
  for (const auto list : {read_by(s), made_by(s)})
    for (const BufferId b : list) bytes += of_[b].bytes;
  for (const auto& [o, i] : program_.in_place[at(s)]) {
    const BufferId in = step(s).inputs[at(i)], out = step(s).outputs[at(o)];
    if (!in.present() || !out.present() || of_[root_[in]].bytes != of_[root_[out]].bytes) continue;
    if (of_[root_[in]].repeats && of_[root_[in]].last_forward == s) shared = std::max(shared, of_[root_[out]].bytes);
  }
  return bytes - shared;
}

}  // namespace tandem
