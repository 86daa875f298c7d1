// Orders updates and shares memory once kernels are chosen: what is updated early frees its gradient early, and an output may
// take the memory of an input that nothing reads later.
#include <algorithm>
#include <utility>

#include "planner/lower/lowered_graph.h"
#include "planner/plan/format.h"

namespace tandem {

BufferId root_of(const std::vector<Buffer>& buffers, BufferId id) {
  const auto at = [&](BufferId b) -> const Buffer& { return buffers[static_cast<std::size_t>(b.index)]; };
  while (at(id).alias.present()) id = at(id).alias;
  return id;
}

namespace {

bool persistent(const LoweredGraph& p, BufferId id) {
  const ArenaKind arena = p.buffers[root_of(p.buffers, id)].arena;
  return arena == ArenaKind::parameters || arena == ArenaKind::optimizer;
}

// The last step that reads or writes each root; the number of steps for the program's outputs.
IdVector<BufferId, int> last_uses(const LoweredGraph& p) {
  IdVector<BufferId, int> last(p.buffers.size(), -1);
  const auto use = [&](BufferId id, int step) {
    if (id.present()) last[root_of(p.buffers, id)] = step;
  };
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    for (const BufferId id : p.steps[s].inputs) use(id, static_cast<int>(s));
    for (const BufferId id : p.steps[s].outputs) use(id, static_cast<int>(s));
  }
  for (const BufferId id : p.outputs) use(id, static_cast<int>(p.steps.size()));
  return last;
}

}  // namespace

bool is_update(const LoweredGraph& p, const Step& s) {
  return !s.outputs.empty() &&
         std::all_of(s.outputs.begin(), s.outputs.end(), [&](BufferId o) { return o.present() && persistent(p, o); });
}

void schedule_updates(LoweredGraph& p) {
  if (p.ordered) return;
  // ready[b]: behind which step the memory of root b is final, counting only steps that are no updates.
  IdVector<BufferId, int> ready(p.buffers.size(), -1);
  std::vector<std::size_t> updates;
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    if (is_update(p, p.steps[s])) {
      updates.push_back(s);
      continue;
    }
    for (const auto* list : {&p.steps[s].inputs, &p.steps[s].outputs})
      for (const BufferId id : *list)
        if (id.present()) ready[root_of(p.buffers, id)] = static_cast<int>(s);
  }
  std::vector<std::vector<std::size_t>> behind(p.steps.size() + 1);
  std::vector<bool> moved(p.steps.size());
  for (const std::size_t u : updates) {
    int at = -1;
    for (const BufferId id : p.steps[u].inputs)
      if (id.present()) at = std::max(at, ready[root_of(p.buffers, id)]);
    behind[static_cast<std::size_t>(at + 1)].push_back(u);
    moved[u] = true;
  }
  std::vector<Step> steps;
  std::vector<std::vector<std::pair<int, int>>> in_place;
  const auto take = [&](std::size_t s) {
    steps.push_back(std::move(p.steps[s]));
    in_place.push_back(std::move(p.in_place[s]));
  };
  for (std::size_t s = 0; s <= moved.size(); ++s) {
    for (const std::size_t u : behind[s]) take(u);
    if (s < moved.size() && !moved[s]) take(s);
  }
  p.steps = std::move(steps);
  p.in_place = std::move(in_place);
}

void put_weight_gradients_beside(LoweredGraph& p) {
  StepId newest, due;  // the gradient that runs beside, and the one that the next step waits for
  for (StepId s{0}; s.index < std::ssize(p.steps); ++s.index) {
    Step& step = p.steps[s];
    const auto* launch = step.as<LaunchStep>();
    if (launch && launch->op.ends_with("BackwardWeights")) {
      step.stream = weights_stream;
      due = std::exchange(newest, s);
    } else if (due.index >= 0) {
      step.waits.push_back(std::exchange(due, {}));
    }
  }
}

void share_in_place(LoweredGraph& p) {
  IdVector<BufferId, int> last = last_uses(p);
  IdVector<BufferId, bool> kept(p.buffers.size());  // for every micro-batch, or until another stage comes to what is sent to it
  const bool phased = std::ranges::any_of(p.steps, [](const Step& s) { return !is_of_micro_batch(s.phase); });
  for (const Step& s : p.steps) {
    for (const BufferId out : s.outputs)
      if (out.present() && s.phase == Phase::prepare) kept[root_of(p.buffers, out)] = true;
    const auto* exchange = s.as<ExchangeStep>();
    if (phased && exchange && p.exchanges[exchange->exchange].kind == ExchangeKind::send && is_of_micro_batch(s.phase))
      for (const BufferId in : s.inputs)
        if (in.present()) kept[root_of(p.buffers, in)] = true;
  }
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    const Step& step = p.steps[s];
    std::vector<BufferId> taken;
    for (const auto& [o, i] : p.in_place[s]) {
      const BufferId in = step.inputs[static_cast<std::size_t>(i)], out = step.outputs[static_cast<std::size_t>(o)];
      if (!in.present() || !out.present() || std::ranges::find(step.inputs, out) != step.inputs.end()) continue;
      const BufferId root = root_of(p.buffers, in);
      const Buffer& memory = p.buffers[root];
      Buffer& result = p.buffers[out];
      const auto shares = [&](BufferId other) { return other.present() && other != in && root_of(p.buffers, other) == root; };
      if (memory.arena != ArenaKind::scratch || result.arena != ArenaKind::scratch || result.alias.present() ||
          result.bytes != memory.bytes)
        continue;
      if (last[root] != static_cast<int>(s) || (kept[root] && is_of_micro_batch(step.phase))) continue;
      if (std::any_of(step.inputs.begin(), step.inputs.end(), shares) || std::find(taken.begin(), taken.end(), root) != taken.end())
        continue;
      result.alias = root;
      last[root] = last[out];
      taken.push_back(root);
    }
  }
}

}  // namespace tandem
