// What lives in slots, and how long, in a program that goes through micro-batches.
#include <algorithm>
#include <set>

#include "planner/memory/assemble.h"
#include "planner/plan/format.h"

namespace tandem {

// Of what is used in one phase alone: from its first step to its last. What lives from phase to phase of a micro-batch, or is sent, lies
// in a slot, which phases come to one behind the other. What all micro-batches use, or what they add up to, lives as long as they go on.
void find_phased_lives(DeviceProgram& device) {
  const int steps = static_cast<int>(device.steps.size());
  const auto micro = [](const Step& s) { return is_of_micro_batch(s.phase); };
  const int begin = static_cast<int>(std::ranges::find_if(device.steps, micro) - device.steps.begin());
  const int end = begin + static_cast<int>(std::ranges::count_if(device.steps, micro)) - 1;
  struct Use {
    int first = -1, last = -1;
    std::set<std::pair<Phase, int>> places;  // of micro-batches
    // by a step that is done once; on another stream than the compute stream, or by several chunks. Who reuses the memory of what goes to
    // another device waits for that.
    bool once = false, beside = false;
  };
  const bool several = std::ranges::any_of(device.schedule, [](const ScheduleEntry& e) { return e.micro_batch > 0; });
  IdVector<BufferId, Use> uses(device.buffers.size());
  for (StepId s{0}; s.index < steps; ++s.index) {
    const Step& step = device.steps[s];
    const auto use = [&](BufferId id) {
      if (!id.present()) return;
      Use& u = uses[root_of(device.buffers, id)];
      if (u.first < 0) u.first = s.index;
      u.last = s.index;
      if (micro(step)) u.places.emplace(step.phase, step.chunk);
      u.once = u.once || !micro(step);
      u.beside = u.beside || (step.stream != compute_stream && step.stream != offload_stream && step.stream != fetch_stream);
    };
    for (const BufferId id : step.inputs) use(id);
    for (const BufferId id : step.outputs) use(id);
    use(step.workspace);
  }
  for (BufferId id{0}; id.index < std::ssize(device.buffers); ++id.index) {
    Use u = uses[root_of(device.buffers, id)];
    Buffer& b = device.buffers[id];
    b.in_slot = several && b.arena == ArenaKind::scratch && !u.once && (u.places.size() > 1 || u.beside);
    u.beside = u.beside || std::ranges::any_of(u.places, [&](const auto& place) { return place.second != u.places.begin()->second; });
    if (u.once && !u.places.empty()) u = {.first = std::min(u.first, begin), .last = std::max(u.last, end)};
    if (u.beside) u = b.in_slot ? Use{.first = begin, .last = end} : Use{.first = u.first, .last = steps - 1};
    const bool whole = b.arena != ArenaKind::scratch;
    b.first = {whole ? 0 : u.first};
    b.last = {whole ? std::max(0, steps - 1) : u.last};
  }
}

}  // namespace tandem
