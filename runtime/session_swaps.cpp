// A parameter's value for another's: weights and their averages.
#include <algorithm>

#include "graph/tensor_chunks.h"
#include "runtime/session_state.h"

namespace tandem {
namespace {

struct Pair {
  const PlanParameter &first, &second;
  bool alike;  // every device, of all processes, keeps the same of both
};

template <class State>
Pair pair_of(const State& state, const ParameterKey& first, const ParameterKey& second) {
  const auto find = [&](const ParameterKey& key) -> const PlanParameter& {
    const auto it = state.parameters.find(key);
    if (it == state.parameters.end()) fail("the plan has no parameter '", key.second, "'");
    return *it->second;
  };
  const PlanParameter &a = find(first), &b = find(second);
  if (a.type != b.type) fail("parameter '", a.name, "' is ", a.type, ", '", b.name, "' is ", b.type);
  const std::vector<ParameterPart> of_a = state.plans[0]->parts_of(a), of_b = state.plans[0]->parts_of(b);
  const auto same = [](const ParameterPart& x, const ParameterPart& y) { return x.device == y.device && x.alike(y); };
  return {a, b, a.source == b.source && std::ranges::equal(of_a, of_b, same)};
}

using Parts = std::pair<ParameterPart, ParameterPart>;

// Calls work(device, what it keeps of both, offset, bytes) on every device for each piece of that.
template <class State, class Work>
void each_piece(State& state, const Pair& pair, const Work& work) {
  state.on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
    const std::optional<ParameterPart> a = state.part_of(pair.first, d), b = state.part_of(pair.second, d);
    for (std::int64_t at = 0, end = a ? a->operand.bytes() : 0; at < end; at += tensor_chunk)
      work(*device, Parts{*a, *b}, at, static_cast<std::size_t>(std::min(tensor_chunk, end - at)));
  });
}

// What follows a weight in another type gets its new value; what was gathered is no longer right.
template <class State>
void settle(Session& session, State& state, std::initializer_list<const PlanParameter*> changed) {
  state.gathered.clear();
  for (const PlanParameter* of : changed)
    for (const PlanParameter& p : state.plans[0]->parameters)
      if (of->role == ValueRole::plain && p.role == ValueRole::copy && p.of == of->name) {
        const ParameterKey key = of->key();
        session.gather_parameters({&key, 1});
        state.write(p, state.read(*of, 0).cast(p.type.dtype));
      }
  state.gathered.clear();
}

}  // namespace

void Session::copy_parameter(const ParameterKey& from, const ParameterKey& to) {
  const Pair pair = pair_of(*state_, from, to);
  if (pair.alike) {
    each_piece(*state_, pair, [&](DeviceRuntime& device, const Parts& of, std::int64_t at, std::size_t size) {
      std::vector<std::byte> piece(size);
      device.read(pair.first.arena, of.first, piece, at);
      device.write(pair.second.arena, of.second, piece, at);
    });
  } else {
    gather_parameters({&from, 1});
    state_->write(pair.second, state_->streamed(pair.first));
  }
  settle(*this, *state_, {&pair.second});
}

void Session::swap_parameters(const ParameterKey& a, const ParameterKey& b) {
  const Pair pair = pair_of(*state_, a, b);
  if (pair.alike) {
    each_piece(*state_, pair, [&](DeviceRuntime& device, const Parts& of, std::int64_t at, std::size_t size) {
      std::vector<std::byte> first(size), second(size);
      device.read(pair.first.arena, of.first, first, at);
      device.read(pair.second.arena, of.second, second, at);
      device.write(pair.first.arena, of.first, second, at);
      device.write(pair.second.arena, of.second, first, at);
    });
  } else {
    const ParameterKey both[] = {a, b};
    gather_parameters(both);
    const Tensor kept = state_->read(pair.first, 0);
    state_->write(pair.first, state_->streamed(pair.second));
    state_->write(pair.second, kept);
  }
  settle(*this, *state_, {&pair.first, &pair.second});
}

}  // namespace tandem
