// Steps in the order of phases. A conversion belongs where its result is first read, and what follows from parameters alone is done once.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "planner/lower/lowered_graph.h"

namespace tandem {
namespace {

using Place = std::pair<Phase, int>;  // phase and chunk

class Arrangement {
 public:
  explicit Arrangement(LoweredGraph& p) : p_(p) {}

  void run() {
    move_conversions();
    hoist();
    for (Step& s : p_.steps) s.stream = stream_of(s);
    std::vector<std::size_t> order(p_.steps.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t s) { return place_of(p_.steps[s]); });
    IdVector<StepId, Step> steps;
    std::vector<std::vector<std::pair<int, int>>> in_place;
    for (const std::size_t s : order) {
      steps.push_back(std::move(p_.steps[s]));
      in_place.push_back(std::move(p_.in_place[s]));
    }
    p_.steps = std::move(steps);
    p_.in_place = std::move(in_place);
  }

 private:
  static Place place_of(const Step& s) { return {s.phase, s.chunk}; }
  BufferId root(BufferId id) const { return root_of(p_.buffers, id); }

  // Stages send each way on streams of their own.
  int stream_of(const Step& s) const {
    const auto* exchange = s.as<ExchangeStep>();
    if (!exchange || !is_of_micro_batch(s.phase) || p_.exchanges[exchange->exchange].kind != ExchangeKind::send) return s.stream;
    const bool sends = s.outputs.empty();
    if (s.phase == Phase::forward) return sends ? send_forward_stream : receive_forward_stream;
    return sends ? send_backward_stream : receive_backward_stream;
  }

  // What only moves or rounds elements is done as early as it is first read, and no earlier: it is held no longer than that.
  void move_conversions() {
    IdVector<BufferId, Place> made(p_.buffers.size(), Place{Phase::prepare, 0}), first(p_.buffers.size(), Place{Phase::update, 0});
    IdVector<StepId, Place> ready;  // by step: where the last of its operands is made
    for (Step& s : p_.steps) {
      ready.push_back({Phase::prepare, 0});
      for (const BufferId in : s.inputs)
        if (in.present()) ready.back() = std::max(ready.back(), made[root(in)]);
      if (converts(s) && place_of(s) < ready.back()) std::tie(s.phase, s.chunk) = ready.back();  // of an output
      for (const BufferId out : s.outputs)
        if (out.present()) made[root(out)] = std::max(made[root(out)], place_of(s));
    }
    for (const BufferId out : p_.outputs) first[root(out)] = {Phase::prepare, 0};
    for (std::size_t n = p_.steps.size(); n-- > 0;) {
      Step& s = p_.steps[n];
      if (converts(s) && ready[n] < first[root(s.outputs[0])]) std::tie(s.phase, s.chunk) = first[root(s.outputs[0])];
      for (const BufferId in : s.inputs)
        if (in.present()) first[root(in)] = std::min(first[root(in)], place_of(s));
    }
  }
  bool converts(const Step& s) const {
    return (s.op() == "Reorder" || s.op() == "Cast") && s.outputs.size() == 1 && is_scratch(s.outputs[0]);
  }
  bool is_scratch(BufferId id) const { return p_.buffers[root(id)].arena == ArenaKind::scratch; }
  // Of what no micro-batch changes: parameters, constants, and what is made of them.
  void hoist() {
    IdVector<BufferId, bool> changes(p_.buffers.size(), false);
    for (const Step& s : p_.steps)
      for (const BufferId out : s.outputs)
        if (out.present() && is_of_micro_batch(s.phase)) changes[root(out)] = true;
    for (const LoweredInput& in : p_.inputs) changes[root(in.buffer)] = true;
    for (Step& s : p_.steps) {
      const auto once = [&](BufferId in) { return !in.present() || !changes[root(in)]; };
      const bool own = std::ranges::all_of(s.outputs, [&](BufferId out) {
        return out.present() && is_scratch(out) &&
               std::ranges::none_of(s.inputs, [&](BufferId in) { return in.present() && root(in) == root(out); });
      });
      if (!s.as<LaunchStep>() || !is_of_micro_batch(s.phase) || s.inputs.empty() || !own || !std::ranges::all_of(s.inputs, once)) continue;
      s.phase = Phase::prepare;
      s.chunk = 0;
      for (const BufferId out : s.outputs) changes[root(out)] = false;
    }
  }

  LoweredGraph& p_;
};

}  // namespace

void arrange_phases(LoweredGraph& program) { Arrangement(program).run(); }

}  // namespace tandem
