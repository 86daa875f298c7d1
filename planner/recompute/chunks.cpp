#include "planner/recompute/chunks.h"

#include <algorithm>

namespace tandem {
namespace {

std::pair<Phase, int> place_of(const Step& s) {
  return {s.phase, s.chunk};
}
bool is_of(const Step& s, int chunk) {
  return is_of_micro_batch(s.phase) && s.chunk == chunk;
}

double seconds_of_micro_batch(const LoweredGraph& program) {
  double seconds = 0;
  for (const Step& s : program.steps)
    if (is_of_micro_batch(s.phase)) seconds += s.seconds;
  return seconds;
}

// `recompute(part, chunk, whole)`: the part as it shall be; `whole` makes a program of it.
template <class Recompute>
Recomputed by_chunk(const LoweredGraph& program, const Recompute& recompute) {
  Recomputed all{.again = {.program = program}};
  for (int c = 0; c < chunks_of(program); ++c) {
    const LoweredGraph before = all.again.program;
    const auto whole = [&](LoweredGraph part) { return with_chunk(before, std::move(part), c); };
    Recomputed r = recompute(chunk_of(before, c), c, whole);
    all.again.program = whole(std::move(r.again.program));
    all.again.seconds += r.again.seconds;
    all.again.steps += r.again.steps;
    all.again.kept += r.again.kept;
    all.activations += r.activations;
    all.bytes = r.bytes;
    all.reached = r.reached;
  }
  if (const double seconds = seconds_of_micro_batch(program); seconds > 0) all.share = all.again.seconds / seconds;
  return all;
}

}  // namespace

int chunks_of(const LoweredGraph& program) {
  int chunks = 1;
  for (const Step& s : program.steps) chunks = std::max(chunks, s.chunk + 1);
  return chunks;
}

LoweredGraph chunk_of(const LoweredGraph& program, int chunk) {
  LoweredGraph part = program;
  part.steps.clear();
  part.in_place.clear();
  std::vector<bool> made(program.buffers.size()), taken(program.buffers.size());
  const auto root = [&](BufferId b) { return at(root_of(program.buffers, b).index); };
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    if (is_of_micro_batch(step.phase) && step.chunk != chunk) {
      for (const BufferId in : step.inputs)
        if (in.present()) taken[root(in)] = true;
      continue;
    }
    for (const BufferId out : step.outputs)
      if (out.present() && is_of(step, chunk)) made[root(out)] = true;
    part.steps.push_back(step);
    part.in_place.push_back(program.in_place[s]);
  }
  part.seconds = 0;
  for (const Step& step : part.steps) part.seconds += step.seconds;
  for (BufferId b{0}; b.index < std::ssize(made); ++b.index)
    if (made[at(b.index)] && taken[at(b.index)]) part.outputs.push_back(b);
  return part;
}

LoweredGraph with_chunk(const LoweredGraph& program, LoweredGraph part, int chunk) {
  std::vector<std::pair<Step, std::vector<std::pair<int, int>>>> steps;
  const auto take = [&](const LoweredGraph& from, bool own) {
    for (std::size_t s = 0; s < from.steps.size(); ++s)
      if (is_of(from.steps[s], chunk) == own) steps.emplace_back(from.steps[s], from.in_place[s]);
  };
  take(program, false);
  take(part, true);
  std::ranges::stable_sort(steps, {}, [](const auto& step) { return place_of(step.first); });
  part.steps.clear();
  part.in_place.clear();
  for (auto& [step, in_place] : steps) {
    part.steps.push_back(std::move(step));
    part.in_place.push_back(std::move(in_place));
  }
  part.outputs = program.outputs;
  part.seconds = 0;
  for (const Step& s : part.steps) part.seconds += s.seconds;
  return part;
}

Recomputed recompute_chunks(const LoweredGraph& program, std::span<const std::size_t> losses, std::int64_t budget,
                            const BytesOf& bytes_of) {
  const int chunks = chunks_of(program);
  if (chunks == 1) return recompute_within(program, losses, budget, bytes_of);
  std::vector<double> up_to;  // by chunk: activations of it and of those before
  for (int c = 0; c < chunks; ++c)
    up_to.push_back((c > 0 ? up_to.back() : 0) + static_cast<double>(Activations(chunk_of(program, c), losses).droppable_bytes()));
  const std::int64_t all = bytes_of(program).all;
  const double too_many = static_cast<double>(std::max<std::int64_t>(0, all - budget)), sum = std::max(1.0, up_to.back());
  return by_chunk(program, [&](const LoweredGraph& part, int c, const auto& whole) {
    const std::int64_t goal = c + 1 == chunks ? budget : all - static_cast<std::int64_t>(too_many * up_to[at(c)] / sum);
    return recompute_within(part, losses, goal, [&](LoweredGraph now) { return bytes_of(whole(std::move(now))); });
  });
}

Recomputed recompute_named_chunks(const LoweredGraph& program, std::span<const std::size_t> losses,
                                  const std::function<bool(const Step&)>& named) {
  if (chunks_of(program) == 1) return recompute_named(program, losses, named);
  return by_chunk(program, [&](const LoweredGraph& part, int, const auto&) { return recompute_named(part, losses, named); });
}

}  // namespace tandem
