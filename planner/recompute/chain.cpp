#include "planner/recompute/chain.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/id_vector.h"

namespace tandem {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

}  // namespace

BlockChain::BlockChain(std::vector<ChainBlock> blocks, std::int64_t bytes, int slots) : blocks_(std::move(blocks)) {
  slot_ = std::max<std::int64_t>(1, (std::max<std::int64_t>(0, bytes) + slots - 1) / slots);
  slots_ = this->slots(std::max<std::int64_t>(0, bytes) + slot_ - 1);
  const int count = static_cast<int>(blocks_.size());
  advance_.assign(at(count) + 1, 0);
  for (int b = 0; b < count; ++b) advance_[at(b) + 1] = advance_[at(b)] + blocks_[at(b)].advance;
  seconds_.assign(at(count) * (at(count) + 1) * (at(slots_) + 1), never);
  for (int length = 1; length <= count; ++length)
    for (int first = 0; first + length <= count; ++first)
      for (const bool again : {true, false}) {
        const Part part{first, first + length - 1, again};
        if (!again && part.last != count - 1) continue;  // never wanted
        for (int room = 0; room <= slots_; ++room) seconds_[entry(part, room)] = best(part, room).seconds;
      }
}

// Parts that run for the first time end with the last block.
std::size_t BlockChain::entry(const Part& part, int room) const {
  const std::size_t count = blocks_.size(), row = part.again ? at(part.last) : count;
  return (at(part.first) * (count + 1) + row) * (at(slots_) + 1) + at(room);
}
double BlockChain::seconds_of(const Part& part, int room) const { return room < 0 ? never : seconds_[entry(part, room)]; }

// Whether a block of the part can run in so much room, before the last one's backward pass.
bool BlockChain::runs(const Part& part, int block, int room) const {
  const ChainBlock& b = blocks_[at(block)];
  return slots(part.again ? b.running + blocks_[at(part.last)].gradients : b.forward) <= room;
}

// Bytes of blocks from `first` on that are kept while those from `behind` on are gone through.
std::int64_t BlockChain::kept_behind(int first, int behind) const {
  std::int64_t bytes = blocks_[at(first)].entering;
  const std::vector<std::int64_t>& skips = blocks_[at(behind)].skips;
  for (std::size_t b = at(first); b < skips.size(); ++b) bytes += skips[b];
  return bytes;
}

// The first block is kept in one of its ways; or what enters it is kept, the rest of the blocks from some one on is gone through, and the
// blocks before that run once more.
BlockChain::Choice BlockChain::best(const Part& part, int room) const {
  const ChainBlock& block = blocks_[at(part.first)];
  Choice best{never};
  const auto offer = [&](const Choice& choice) {
    if (choice.seconds < best.seconds) best = choice;
  };
  if (!runs(part, part.first, room)) return best;
  const bool alone = part.first == part.last;
  for (std::size_t w = 0; w < block.ways.size(); ++w) {
    const KeptWay& way = block.ways[w];
    if (slots(way.backward) > room) continue;
    if (alone && part.again && w + 1 < block.ways.size()) continue;  // nothing is gained by keeping it before it runs backward
    double seconds = way.again;
    if (!alone) seconds += (part.again ? way.anew : 0) + seconds_of({part.first + 1, part.last, part.again}, room - slots(way.bytes));
    offer({seconds, static_cast<int>(w)});
  }
  for (int behind = part.first + 1; behind <= part.last; ++behind) {
    if (behind > part.first + 1 && !runs(part, behind - 1, room - slots(block.entering))) break;
    const int left = room - slots(kept_behind(part.first, behind));
    const double there = part.again ? advance_[at(behind)] - advance_[at(part.first)] : 0;
    offer({there + seconds_of({behind, part.last, part.again}, left) + seconds_of({part.first, behind - 1, true}, room), -1, behind});
  }
  return best;
}

double BlockChain::seconds(std::int64_t bytes) const {
  if (bytes < 0) return never;
  if (blocks_.empty()) return 0;
  return seconds_of({0, static_cast<int>(blocks_.size()) - 1, false}, std::min(slots_, slots(bytes + slot_ - 1)));
}

std::vector<ChainAction> BlockChain::actions(std::int64_t bytes) const {
  std::vector<ChainAction> list;
  if (blocks_.empty()) return list;
  if (seconds(bytes) == never) fail("recompute: no choice takes ", bytes, " bytes");
  append(list, {0, static_cast<int>(blocks_.size()) - 1, false}, std::min(slots_, slots(bytes + slot_ - 1)));
  return list;
}

void BlockChain::append(std::vector<ChainAction>& to, const Part& part, int room) const {
  using What = ChainAction::What;
  const Choice choice = best(part, room);
  const ChainBlock& block = blocks_[at(part.first)];
  if (choice.way >= 0) {
    to.push_back({What::keep, part.first, choice.way, part.again});
    if (part.first < part.last)
      append(to, {part.first + 1, part.last, part.again}, room - slots(block.ways[at(choice.way)].bytes));
    to.push_back({What::backward, part.first, choice.way, part.again});
    return;
  }
  to.push_back({What::advance, choice.behind, 0, part.again});
  append(to, {choice.behind, part.last, part.again}, room - slots(kept_behind(part.first, choice.behind)));
  to.push_back({What::leave, choice.behind});
  append(to, {part.first, choice.behind - 1, true}, room);
}

}  // namespace tandem
