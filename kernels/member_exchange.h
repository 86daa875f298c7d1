// Exchanges of members that are threads, of this process or of several: those of one process see each other's memory, the others are
// reached by lines.
#pragma once
#include <map>
#include <mutex>

#include "kernels/collective.h"
#include "kernels/meeting.h"

namespace tandem {

class World;

// What the members of this process share of an exchange. Each tells its addresses before its first run; the meetings of a run
// let the others see them.
struct Channel {
  Channel(const ExchangeSpec& spec, std::vector<std::size_t> here, double timeout_seconds);
  const ExchangeSpec spec;
  const std::vector<std::size_t> here;  // which members are of this process
  std::vector<std::byte*> gives, gets;  // by member; null: another process's, or none
  Meeting meeting;                      // of those here
};

class Channels {
 public:
  struct Here {
    int first = 0, count = 0;    // ranks of this process
    double timeout_seconds = 0;  // of their waits for each other; 0: none
    World* world = nullptr;      // with the other processes, whose lines are open; null: there are none
  };
  explicit Channels(const Here& here) : here_(here) {}
  std::unique_ptr<Kernel> make(const ExchangeSpec& spec, int rank);  // as CollectiveGroup::make()
  void abort(const std::string& reason);

 private:
  const Here here_;
  std::mutex lock_;  // not taken while steps run
  std::map<int, std::unique_ptr<Channel>> channels_;
  bool aborted_ = false;
  std::string reason_;
};

}  // namespace tandem
