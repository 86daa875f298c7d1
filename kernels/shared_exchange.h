// Exchanges among devices of several processes of one machine through memory that all of them see: who gives copies it there, who gets
// takes it from there. The bits are those of in_process_group().
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/collective.h"
#include "ranks/world.h"

namespace tandem {

class SharedMemory;

class SharedExchanges {
 public:
  SharedExchanges(World& world, int devices);  // of each rank
  ~SharedExchanges();

  // Called by all ranks alike, of all exchanges whose members are of several processes. False on all of them: they share no memory.
  bool connect(std::span<const ExchangeSpec> specs);
  // As CollectiveGroup::make(); null where the exchange was not connected. The lines of its members must be open: by them others hear for
  // whom a member waits.
  std::unique_ptr<Kernel> make(const ExchangeSpec& spec, std::size_t member, std::span<const LineEnd> others) const;
  void abort(const std::string& reason);  // who waits, or comes later, fails (communication) with the reason: the first counts

  // Where the members of an exchange wait for each other. It lies in the memory.
  struct alignas(64) Gate {
    std::atomic<std::uint32_t> turn{0};  // grows by `one_turn` when all have come, and by one where a process stops
    std::atomic<int> arrived{0};
  };
  // Returns when so many members have come; calls stalled() each time that takes longer than the timeout.
  template <class Stalled>
  void meet(Gate& gate, int members, int spins, const Stalled& stalled) const;

 private:
  struct Region {
    std::unique_ptr<SharedMemory> memory;
    std::map<int, Gate*> gates;             // by channel
    std::map<LineEnd, std::byte*> stages;  // of a device's stream, which is in one exchange at a time: where it puts what others get
  };
  std::unique_ptr<SharedMemory> memory_of_all(std::int64_t bytes);
  [[noreturn]] void raise() const;

  World& world_;
  const int devices_;
  mutable std::mutex lock_;  // not taken by who meets
  std::vector<Region> regions_;
  std::atomic<bool> stopped_{false};
  std::string reason_;
};

}  // namespace tandem
