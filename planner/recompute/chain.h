// Which of a chain's blocks are kept for the backward pass and which run again: exact by a dynamic program over slots of memory
// (Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova: "Optimal checkpointing for heterogeneous chains", 2019; rotor). Here a block may be
// kept in several ways. What is kept stays until its backward pass has used it.
#pragma once
#include <cstdint>
#include <vector>

namespace tandem {

// What is kept of a block for its backward pass, of its own values and of those that the block before makes for it.
struct KeptWay {
  std::int64_t bytes = 0;      // kept until then
  double again = 0;            // seconds to compute the rest for the backward pass
  double anew = 0;             // seconds to compute what is kept, and what the next block reads, where it was dropped before
  std::int64_t backward = 0;   // most bytes during the backward pass, with what is kept for it
};

struct ChainBlock {
  std::int64_t entering = 0;   // bytes of what the block before makes for this one and for later ones
  // By block before the one before: bytes that it makes for this one, forward and backward. They are kept where that block and the next
  // are dropped.
  std::vector<std::int64_t> skips{};
  double advance = 0;          // seconds to compute once more what enters the next block
  std::int64_t forward = 0;    // most bytes while it runs for the first time, without what is kept of other blocks
  std::int64_t running = 0;    // the same of its own values alone, while it runs again: the gradients of another block lie beside it
  std::int64_t gradients = 0;  // bytes of gradients, and of whatever is always kept, when its backward pass begins
  std::vector<KeptWay> ways;   // the first keeps everything, the last nothing of the block's own
};

// One of the actions in order. The first pass forward over all blocks is none of them: what it makes, they keep or drop.
struct ChainAction {
  enum class What {
    keep,      // a block runs; its values are kept in this way, and what enters the next block
    advance,   // the blocks up to this one run; what enters it is kept alone, until `leave`
    backward,  // of a block
    leave,     // what was kept since the last `advance` is dropped
  };
  What what;
  int block = 0;
  int way = 0;         // of keep and backward
  bool again = false;  // the block has run before
  bool operator==(const ChainAction&) const = default;
};

class BlockChain {
 public:
  // Bytes are rounded down to slots, of which `bytes` has so many. So its seconds are a lower bound.
  BlockChain(std::vector<ChainBlock> blocks, std::int64_t bytes, int slots = 500);

  // The fewest seconds beyond those of a step that keeps everything, in at most this many bytes (at most those of the constructor);
  // infinite where they are too few.
  double seconds(std::int64_t bytes) const;
  // The actions that take so long; `bytes` must do.
  std::vector<ChainAction> actions(std::int64_t bytes) const;
  std::int64_t slot() const { return slot_; }  // bytes

 private:
  struct Part {
    int first, last;
    bool again;  // its blocks have run before
  };
  struct Choice {
    double seconds;
    int way = -1;    // of the first block; -1: it is dropped
    int behind = 0;  // where the blocks begin that run backward before it is run again
  };
  int slots(std::int64_t bytes) const { return static_cast<int>(bytes / slot_); }
  std::size_t entry(const Part& part, int room) const;      // of seconds_
  double seconds_of(const Part& part, int room) const;
  bool runs(const Part& part, int block, int room) const;
  std::int64_t kept_behind(int first, int behind) const;
  Choice best(const Part& part, int room) const;
  void append(std::vector<ChainAction>& to, const Part& part, int room) const;

  std::vector<ChainBlock> blocks_;
  std::int64_t slot_ = 1;
  int slots_ = 0;
  std::vector<double> seconds_;  // by part and slots
  std::vector<double> advance_;  // by block: seconds of the advances of those before it
};

}  // namespace tandem
