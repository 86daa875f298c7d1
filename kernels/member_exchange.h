// Exchanges of members that are threads, of this process or of several: those of one process see each other's memory, the others are
// reached by lines.
#pragma once
#include <map>
#include <mutex>

#include "kernels/collective.h"
#include "kernels/meetings.h"

namespace tandem {

class World;

// What the members of this process share of an exchange. Each tells its addresses before its first run; the meetings of a run
// let the others see them.
struct Channel {
  Channel(const ExchangeSpec& spec, std::vector<std::size_t> here, Meeting& meeting);
  const ExchangeSpec spec;
  const std::vector<std::size_t> here;  // which members are of this process
  std::vector<std::byte*> gives, gets;  // by member; null: another process's, or none
  Meeting& meeting;                     // of those here
};

class Channels {
 public:
  struct Here {
    int first = 0, count = 0;    // ranks of this process
    double timeout_seconds = 0;  // of their waits for each other; 0: none
    World* world = nullptr;      // with the other processes, whose lines are open; null: there are none
  };
  explicit Channels(const Here& here) : here_(here), meetings_(here.first, here.count, here.timeout_seconds) {}
  std::unique_ptr<Kernel> make(const ExchangeSpec& spec, int rank);  // as CollectiveGroup::make()
  void abort(const std::string& reason) { meetings_.abort(reason); }

 private:
  const Here here_;
  Meetings meetings_;
  std::mutex lock_;  // not taken while steps run
  std::map<int, std::unique_ptr<Channel>> channels_;
};

}  // namespace tandem
