// Every round of an exchange goes in pieces, by two slots in turn: who puts a piece into a slot has met all others behind the piece in
// between, so that nobody reads the one before any more.
#include "kernels/shared_exchange.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "kernels/exchange_rounds.h"
#include "kernels/fold.h"
#include "kernels/wait.h"
#include "ranks/link.h"
#include "ranks/shared_memory.h"

namespace tandem {
namespace {

constexpr std::int64_t slot_bytes = 1 << 21, line_bytes = 64;
constexpr int slots = 2;
constexpr std::uint32_t one_turn = 1 << 12, turns = ~(one_turn - 1);  // of a gate

class SharedKernel final : public Kernel {
 public:
  // `stages`: by member.
  SharedKernel(const SharedExchanges& exchanges, SharedExchanges::Gate& gate, const ExchangeSpec& spec, std::size_t self,
               std::vector<std::byte*> stages, Links links)
      : exchanges_(exchanges),
        gate_(gate),
        spec_(spec),
        self_(self),
        stages_(std::move(stages)),
        links_(std::move(links)),
        spins_(spins_for(static_cast<int>(members()), Waiters::all_processes)),
        from_(members()) {
    for (const Round& round : rounds_of(spec_.kind)) add(round);
    if (moves_[0].folds) fold_ = fold_of(spec_.dtype, spec_.kind == ExchangeKind::all_max);
  }

  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte*) override {
    gets_ = outputs.empty() ? nullptr : outputs[0];
    gives_ = is_in_place(spec_.kind) ? gets_ : inputs.empty() ? nullptr : inputs[0];
  }

  void run(StreamHandle) override {
    const Links::Inside inside(links_);
    int turn = 0;
    for (const Moves& moves : moves_)
      for (std::int64_t at = 0; at < moves.longest; at += moves.area, ++turn) {
        put(moves, at, turn % slots);
        meet();
        take(moves, at, turn % slots);
      }
    meet();  // the slots are free for the next exchange
  }

 private:
  struct Moves {  // of a round, by member, in bytes
    bool folds;
    bool alike = true;         // what a member gives is the same for all others
    std::int64_t longest = 1;  // leg between two members; there is a piece in any case, for what a member gives itself
    std::int64_t area = 0;     // of a slot: for one getter, or for all where they get the same
    std::vector<Leg> in = {}, out = {};
  };

  std::size_t members() const { return spec_.members.size(); }
  void meet() {
    exchanges_.meet(gate_, static_cast<int>(members()), spins_, [&] { links_.stalled(); });
  }

  // What every member computes alike, of the legs between all.
  void add(const Round& round) {
    const auto size = static_cast<std::int64_t>(size_of(spec_.dtype));
    const auto leg = [&](std::size_t giver, std::size_t getter) {
      const Leg l = round.leg(spec_, giver, getter);
      return Leg{l.from * size, l.to * size, l.elements * size};
    };
    Moves& moves = moves_.emplace_back(round.folds);
    for (std::size_t giver = 0; giver < members(); ++giver) {
      const Leg first = leg(giver, giver == 0 ? members() - 1 : 0);
      for (std::size_t getter = 0; getter < members(); ++getter) {
        if (getter == giver) continue;
        const Leg one = leg(giver, getter);
        moves.longest = std::max(moves.longest, one.elements);
        moves.alike = moves.alike && one.from == first.from && one.elements == first.elements;
      }
      moves.in.push_back(leg(giver, self_));
      moves.out.push_back(leg(self_, giver));
    }
    const std::int64_t areas = moves.alike ? 1 : static_cast<std::int64_t>(members());
    moves.area = slot_bytes / areas / line_bytes * line_bytes;
  }

  static std::int64_t bytes_at(const Moves& moves, const Leg& leg, std::int64_t at) {
    return std::clamp<std::int64_t>(leg.elements - at, 0, moves.area);
  }
  std::byte* place(const Moves& moves, std::size_t giver, std::size_t getter, int slot) const {
    return stages_[giver] + slot * slot_bytes + (moves.alike ? 0 : static_cast<std::int64_t>(getter) * moves.area);
  }

  void put(const Moves& moves, std::int64_t at, int slot) {
    for (std::size_t m = 0; m < members(); ++m) {
      if (m == self_) continue;
      if (const std::int64_t n = bytes_at(moves, moves.out[m], at); n > 0) {
        std::memcpy(place(moves, self_, m, slot), gives_ + moves.out[m].from + at, static_cast<std::size_t>(n));
        links_.moved(n);
      }
      if (moves.alike) return;
    }
  }

  void take(const Moves& moves, std::int64_t at, int slot) {
    if (!gets_) return;
    for (std::size_t m = 0; m < members(); ++m) {
      const Leg& leg = moves.in[m];
      if (m == self_ && !moves.folds) {
        if (at == 0 && leg.elements > 0 && gives_ + leg.from != gets_ + leg.to)
          std::memcpy(gets_ + leg.to, gives_ + leg.from, static_cast<std::size_t>(leg.elements));
        continue;
      }
      from_[m] = m == self_ ? gives_ + leg.from + at : place(moves, m, self_, slot);
      if (const std::int64_t n = bytes_at(moves, leg, at); n > 0 && !moves.folds)
        std::memcpy(gets_ + leg.to + at, from_[m], static_cast<std::size_t>(n));
    }
    const Leg& own = moves.in[self_];  // of a fold all legs are as long
    if (const std::int64_t n = bytes_at(moves, own, at); n > 0 && moves.folds) {
      std::byte* const to = gets_ + own.to + at;
      fold_(from_, {&to, 1}, n / static_cast<std::int64_t>(size_of(spec_.dtype)));
    }
  }

  const SharedExchanges& exchanges_;
  SharedExchanges::Gate& gate_;
  const ExchangeSpec spec_;
  const std::size_t self_;
  const std::vector<std::byte*> stages_;
  Links links_;
  const int spins_;
  std::vector<const std::byte*> from_;  // of a fold
  Fold fold_ = nullptr;
  std::vector<Moves> moves_;
  std::byte *gives_ = nullptr, *gets_ = nullptr;
};

}  // namespace

SharedExchanges::SharedExchanges(World& world, int devices) : world_(world), devices_(devices) {}
SharedExchanges::~SharedExchanges() = default;

// Ranks that meet at a Unix socket are of one machine, and so is every line. Null on all of them where one cannot reach the memory.
std::unique_ptr<SharedMemory> SharedExchanges::memory_of_all(std::int64_t bytes) {
  constexpr int most_ranks = 64;  // of more each would hold too many lines open
  constexpr int probe_stream = -2;  // no device's
  if (world_.sums() != Route::measured || world_.ranks() > most_ranks) return nullptr;
  const LineEnd low{0, probe_stream}, high{devices_, probe_stream};
  world_.open_lines({{low, high, 0, 1}});
  std::unique_ptr<SharedMemory> memory;
  if (world_.rank() == 0 && world_.links(low, {&high, 1})[0].is_of_one_machine()) memory = SharedMemory::create(bytes);
  const std::string name = world_.broadcast(memory ? memory->name() : "");
  if (world_.rank() > 0) memory = SharedMemory::find(name);
  return world_.any(!memory) ? nullptr : std::move(memory);
}

bool SharedExchanges::connect(std::span<const ExchangeSpec> specs) {
  if (specs.empty()) return false;
  Region region;
  for (const ExchangeSpec& spec : specs) {
    region.gates[spec.channel] = nullptr;
    for (std::size_t m = 0; m < spec.members.size(); ++m) region.stages[{spec.members[m], spec.stream(m)}] = nullptr;
  }
  const auto gates = std::ssize(region.gates) * static_cast<std::int64_t>(sizeof(Gate));
  region.memory = memory_of_all(gates + std::ssize(region.stages) * slots * slot_bytes);
  if (!region.memory) return false;
  std::byte* at = region.memory->data();
  for (auto& [channel, gate] : region.gates) {
    gate = reinterpret_cast<Gate*>(at);  // all zero is how it begins
    at += sizeof(Gate);
  }
  for (auto& [end, stage] : region.stages) {
    stage = at;
    at += slots * slot_bytes;
  }
  const std::scoped_lock hold(lock_);
  regions_.push_back(std::move(region));
  return true;
}

std::unique_ptr<Kernel> SharedExchanges::make(const ExchangeSpec& spec, std::size_t self, std::span<const LineEnd> others) const {
  const std::scoped_lock hold(lock_);
  for (auto region = regions_.rbegin(); region != regions_.rend(); ++region) {
    const auto gate = region->gates.find(spec.channel);
    if (gate == region->gates.end()) continue;
    std::vector<std::byte*> stages;
    for (std::size_t m = 0; m < spec.members.size(); ++m) stages.push_back(region->stages.at({spec.members[m], spec.stream(m)}));
    return std::make_unique<SharedKernel>(*this, *gate->second, spec, self, std::move(stages),
                                          world_.links({spec.members[self], spec.stream(self)}, others));
  }
  return nullptr;
}

template <class Stalled>
void SharedExchanges::meet(Gate& gate, int members, int spins, const Stalled& stalled) const {
  if (stopped_.load(std::memory_order_acquire)) raise();
  const std::uint32_t turn = gate.turn.load(std::memory_order_acquire) & turns;
  if (gate.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
    gate.arrived.store(0, std::memory_order_relaxed);
    gate.turn.fetch_add(one_turn, std::memory_order_acq_rel);
    wake_all(gate.turn, Waiters::all_processes);
    return;
  }
  for (;;) {
    const std::uint32_t now = gate.turn.load(std::memory_order_acquire);
    if ((now & turns) != turn) return;
    if (stopped_.load(std::memory_order_acquire)) raise();
    if (!wait_for_change(gate.turn, now, spins, world_.timeout_seconds(), Waiters::all_processes)) stalled();
  }
}

void SharedExchanges::abort(const std::string& reason) {
  const std::scoped_lock hold(lock_);
  if (stopped_) return;
  reason_ = reason;
  stopped_.store(true, std::memory_order_release);
  for (const Region& region : regions_)
    for (const auto& [channel, gate] : region.gates) {
      gate->turn.fetch_add(1, std::memory_order_acq_rel);  // who is about to sleep does not
      wake_all(gate->turn, Waiters::all_processes);
    }
}

void SharedExchanges::raise() const {
  const std::scoped_lock hold(lock_);
  fail(ExitCode::communication, reason_);
}

}  // namespace tandem
