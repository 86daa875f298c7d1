#include "kernels/member_exchange.h"

#include <algorithm>

#include "kernels/exchange_rounds.h"
#include "kernels/fold.h"
#include "ranks/link.h"
#include "ranks/world.h"

namespace tandem {
namespace {

// Every member waits until all of its process have come, moves what is its own to move, and waits until all have.
class MemberKernel final : public Kernel {
 public:
  // `links`: to the members `there`, of other processes.
  MemberKernel(Channel& channel, std::size_t self, std::span<const std::size_t> there, Links links)
      : channel_(channel),
        spec_(channel.spec),
        self_(self),
        local_(static_cast<int>(std::find(channel.here.begin(), channel.here.end(), self) - channel.here.begin())),
        size_(static_cast<std::int64_t>(size_of(spec_.dtype))),
        links_(std::move(links)),
        from_(spec_.members.size()),
        to_(is_in_place(spec_.kind) ? channel.here.size() : 1) {
    const std::span<const Round> rounds = rounds_of(spec_.kind);
    for (std::size_t r = 0; r < rounds.size(); ++r) {
      Moves& moves = moves_.emplace_back(rounds[r].folds, static_cast<std::uint64_t>(spec_.kind) * most_rounds + r);
      for (std::size_t m = 0; m < spec_.members.size(); ++m) {
        moves.in.push_back(bytes(rounds[r].leg(spec_, m, self)));
        moves.out.push_back(bytes(rounds[r].leg(spec_, self, m)));
      }
    }
    if (moves_[0].folds) fold_ = fold_of(spec_.dtype, spec_.kind == ExchangeKind::all_max);
    for (const std::size_t m : there)
      others_.emplace_back(m, std::vector<std::byte>(fold_ && moves_[0].in[m].elements > 0 ? staged_bytes : 0));
  }

  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte*) override {
    std::byte* const gets = outputs.empty() ? nullptr : outputs[0];
    channel_.gives[self_] = is_in_place(spec_.kind) ? gets : inputs.empty() ? nullptr : inputs[0];
    channel_.gets[self_] = gets;
  }

  void run(StreamHandle) override {
    const Links::Inside inside(links_);
    channel_.meeting.meet(local_);
    for (const Moves& moves : moves_) {
      begin(moves);
      moves.folds ? fold_all(moves) : take_all(moves);
    }
    channel_.meeting.meet(local_);
  }

 private:
  static constexpr std::uint64_t most_rounds = 2;
  static constexpr std::size_t staged_bytes = 1 << 16;

  struct Moves {  // of a round, by member, in bytes
    bool folds;
    std::uint64_t kind;
    std::vector<Leg> in = {}, out = {};
  };
  struct Other {  // a member of another process
    std::size_t member;
    std::vector<std::byte> staged;  // what has come to be folded
    std::int64_t come = 0;          // bytes: of the round, or staged
  };

  Leg bytes(const Leg& l) const { return {l.from * size_, l.to * size_, l.elements * size_}; }
  Call call(const Moves& moves, const Leg& leg) const {
    return {moves.kind, static_cast<std::uint64_t>(spec_.channel), static_cast<std::uint64_t>(leg.elements)};
  }

  void begin(const Moves& moves) {
    for (std::size_t i = 0; i < others_.size(); ++i) {
      const Leg &in = moves.in[others_[i].member], &out = moves.out[others_[i].member];
      if (in.elements > 0) links_[i].receive(call(moves, in));
      if (out.elements > 0) links_[i].send(call(moves, out), {channel_.gives[self_] + out.from, static_cast<std::size_t>(out.elements)});
      others_[i].come = 0;
    }
  }

  // Calls take(), which says whether it did anything, until it and all lines are at their ends.
  template <class Take>
  void until_done(const Take& take) {
    for (;;) {
      bool moved = false, done = true;
      for (std::size_t i = 0; i < links_.size(); ++i) moved = links_[i].push() || moved;
      moved = take() || moved;
      for (std::size_t i = 0; i < links_.size(); ++i) done = done && links_[i].sent() && links_[i].received();
      if (done && !moved) return;
      if (!moved) links_.wait();
    }
  }

  // As many elements at a time as have come from all. Sums of an exchange in place go to all members of this process.
  void fold_all(const Moves& moves) {
    const Leg& own = moves.in[self_];
    std::int64_t folded = 0;
    until_done([&] {
      bool moved = false;
      std::int64_t ready = own.elements - folded;
      for (std::size_t i = 0; i < others_.size(); ++i) {
        Other& o = others_[i];
        const std::int64_t got = links_[i].pull(o.staged.data() + o.come, std::ssize(o.staged) - o.come);
        o.come += got;
        moved = moved || got > 0;
        ready = std::min(ready, o.come / size_ * size_);
      }
      if (ready == 0) return moved;
      for (const std::size_t m : channel_.here) from_[m] = channel_.gives[m] + own.from + folded;
      for (const Other& o : others_) from_[o.member] = o.staged.data();
      for (std::size_t i = 0; i < to_.size(); ++i)
        to_[i] = channel_.gets[is_in_place(spec_.kind) ? channel_.here[i] : self_] + own.to + folded;
      fold_(from_, to_, ready / size_);
      folded += ready;
      for (Other& o : others_) {
        o.come -= ready;
        if (o.come > 0) std::memmove(o.staged.data(), o.staged.data() + ready, static_cast<std::size_t>(o.come));
      }
      return true;
    });
  }

  void take_all(const Moves& moves) {
    std::byte* const gets = channel_.gets[self_];
    if (gets && !is_in_place(spec_.kind))  // else the sums of this process are there already
      for (const std::size_t m : channel_.here)
        if (const Leg& leg = moves.in[m]; leg.elements > 0 && channel_.gives[m] + leg.from != gets + leg.to)
          std::memcpy(gets + leg.to, channel_.gives[m] + leg.from, static_cast<std::size_t>(leg.elements));
    until_done([&] {
      bool moved = false;
      for (std::size_t i = 0; i < others_.size(); ++i) {
        Other& o = others_[i];
        const Leg& leg = moves.in[o.member];
        const std::int64_t got = links_[i].pull(gets + leg.to + o.come, leg.elements - o.come);
        o.come += got;
        moved = moved || got > 0;
      }
      return moved;
    });
  }

  Channel& channel_;
  const ExchangeSpec& spec_;
  const std::size_t self_;
  const int local_;  // among those here
  const std::int64_t size_;
  Links links_;
  std::vector<const std::byte*> from_;  // of a fold
  std::vector<std::byte*> to_;
  Fold fold_ = nullptr;
  std::vector<Moves> moves_;
  std::vector<Other> others_;  // by link
};

std::string text(const ExchangeSpec& spec) {
  return concat(name_of(spec.kind), " of ", spec.elements, " ", spec.dtype, " among ", spec.members.size(), " ranks on channel ",
                spec.channel);
}

}  // namespace

Channel::Channel(const ExchangeSpec& s, std::vector<std::size_t> members_here, Meeting& of_them)
    : spec(s), here(std::move(members_here)), gives(s.members.size()), gets(s.members.size()), meeting(of_them) {}

std::unique_ptr<Kernel> Channels::make(const ExchangeSpec& spec, int rank) {
  const std::vector<std::size_t> here = meetings_.here(spec);
  std::vector<std::size_t> there;
  for (std::size_t m = 0; m < spec.members.size(); ++m)
    if (!std::binary_search(here.begin(), here.end(), m)) there.push_back(m);
  const auto self = std::find_if(here.begin(), here.end(), [&](std::size_t m) { return spec.members[m] == rank; });
  const bool unknown = !here_.world && !there.empty();
  if (self == here.end() || unknown)
    fail(ExitCode::communication, name_of(spec.kind), ": rank ", rank, " of ", here_.count, " is no member");
  check(spec);
  std::erase_if(there, [&](std::size_t m) { return !meet(spec, *self, m); });
  const std::scoped_lock hold(lock_);
  auto& channel = channels_[spec.channel];
  if (!channel) channel = std::make_unique<Channel>(spec, here, meetings_.of(spec));
  if (channel->spec != spec) fail(ExitCode::communication, "rank ", rank, " makes ", text(spec), ", another rank ", text(channel->spec));
  std::vector<LineEnd> ends;
  for (const std::size_t m : there) ends.push_back({spec.members[m], spec.stream(m)});
  Links links = here_.world ? here_.world->links({rank, spec.stream(*self)}, ends) : Links();
  return std::make_unique<MemberKernel>(*channel, *self, there, std::move(links));
}

}  // namespace tandem
