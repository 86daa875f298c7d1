// The processes ("ranks") that run one plan together, each a share of its devices. Rank 0 listens, the others come to it;
// later every rank speaks to its neighbours and to rank 0.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/dtype.h"

namespace tandem {

class Links;
class Mpi;

// How sums over all ranks go: along the chain of neighbours, or in shares between all pairs. The bits are the same.
enum class Route { measured, chain, pairs };

struct WorldOptions {
  int rank = 0, ranks = 1;
  std::string address;           // where rank 0 listens: "host:port", or "unix:PATH" where all are on one machine; see also `share`
  double timeout_seconds = 120;  // of waiting for another rank
  std::string secret = {};       // what all ranks know; empty: they let in whoever says to be one
  std::function<void(const std::string&)> note = {};  // hears, while ranks come, what a user should know
  // Gives rank 0's text to all ranks by other ways: then only rank 0 has an address, whose port may be 0, any that is free.
  std::function<std::string(const std::string&)> share = {};
  Mpi* mpi = nullptr;            // carries what devices exchange (ranks/mpi.h), and outlives the world; null: own lines do
  Route sums = Route::measured;  // with MPI by pairs
};

// A line between two devices of different ranks, of one stream of each: one thread there goes into its exchanges one after the other.
struct LineEnd {
  int device = 0, stream = 0;  // by the plan's numbers
  auto operator<=>(const LineEnd&) const = default;
};
struct DeviceLine {
  LineEnd low, high;                // low.device < high.device
  int low_rank = 0, high_rank = 0;  // the line is opened by the higher
  auto operator<=>(const DeviceLine&) const = default;
};

class World {
 public:
  // Returns when all ranks have come. Fails (communication) naming those that have not when the time is over.
  explicit World(const WorldOptions& options);
  ~World();  // the others learn that this rank has ended, unless all have left together
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const;
  int ranks() const;
  double timeout_seconds() const;
  Route sums() const;

  // What follows is called by every rank, in the same order, by one thread at a time. It fails (communication) naming
  // the rank at fault: one that has ended, does not come in time, calls something else, or has called stop().

  // Afterwards every rank's buffers[0] holds the sum over all buffers of all ranks, added in the order of the ranks and
  // of each rank's buffers, so that the bits are those of in_process_group(); with `largest` the largest of each element. Allocates
  // nothing. `channel` is compared.
  void all_reduce(std::span<std::byte* const> buffers, std::int64_t elements, DType dtype, int channel, bool largest = false);
  // `bytes` is as long everywhere, and zero where another rank's part is: afterwards it is whole. Allocates nothing.
  void gather(std::span<std::byte> bytes);
  // Rank 0's. Who receives it takes memory as it comes, not as it was announced.
  std::string broadcast(const std::string& bytes);
  bool any(bool mine);
  // Fails in every rank where a value is not rank 0's: "rank 1 has batch-size 32, rank 0 has 64". `where` is told, not
  // compared: "rank 1 has training data 9f.. (/data/b), rank 0 has 3c.. (/data/a)".
  struct Fact {
    std::string name, value, where = {};
  };
  void agree(std::span<const Fact> facts);
  // Opens lines that are not open yet, beside the chain: what goes over one waits for no other.
  void open_lines(std::vector<DeviceLine> lines);
  void leave();  // the last: no rank goes before all are ready to

  // A device's lines to others of other ranks, in their order. They must be open. What goes over them is in ranks/link.h.
  Links links(const LineEnd& own, std::span<const LineEnd> others);

  // While it exists the others wait for this rank as long as its process lives: for what may take its time.
  class Busy {
   public:
    explicit Busy(World* world);  // null: there are no others
    ~Busy();
    Busy(const Busy&) = delete;

   private:
    World* world_;
  };

  // For collectives that go other ways (NCCL): each rank counts its calls, and who waits for one longer than the timeout
  // asks who has counted fewer. Fails naming it, or returns where that rank is busy.
  void count_call();
  void stalled();

  // At any time, from any thread.
  std::uint64_t messages() const;        // that this rank began to send: one to each neighbour in a call of the chain, one a line
  bool stopped() const;                  // a rank has ended or called stop()
  bool first_knows() const;              // and rank 0, which is another one, knows why
  void stop(const std::string& reason);  // this rank cannot go on: the others fail with its reason, and where they wait at once
  // Called once, perhaps from another thread, when the ranks stop; at once where they have. An empty one takes it back.
  void on_stop(std::function<void(const std::string& reason)> call);
  // Hears a reason that is not this rank's own before anything else is done with it, from another thread: this process may not live for
  // long. Null takes it back.
  void on_word(std::function<void(const std::string& reason)> call);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The devices of a plan that are a rank's: as many for each, in order. Fails (usage) where they do not divide.
struct DeviceRange {
  int first = 0, count = 0;
};
DeviceRange devices_of(const World* world, int devices);

}  // namespace tandem
