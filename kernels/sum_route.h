// Which way sums over all devices of several processes go. Along the chain of neighbours each rank but the first and the last sends two
// times what is summed, and the latency grows with the ranks; in shares between all pairs it sends up to two times as much in all, and
// the latency is that of two messages.
#pragma once
#include "kernels/collective.h"
#include "ranks/world.h"

namespace tandem {

// Whether a rank may hold a line to each other: they are asked for, or they are few and more than two.
bool may_go_by_pairs(const World& world);

class SumRoute {
 public:
  // `devices`: of each rank.
  SumRoute(World& world, int devices) : world_(world), devices_(devices) {}
  // Called by all ranks, before the first sum: measures both ways, where the choice is not made yet and there is one. Fails as the World's.
  void choose();
  // Which is the shorter by rank 0's measurement; alike on all ranks.
  bool is_by_pairs(const ExchangeSpec& spec) const;

 private:
  struct Time {  // seconds: of a sum of no bytes, and of each byte
    double fixed = 0, per_byte = 0;
    double of(double bytes) const { return fixed + per_byte * bytes; }
  };
  World& world_;
  const int devices_;
  bool chosen_ = false;
  Time chain_, pairs_;  // zero: by the chain
};

// The lines that members of different ranks, of `devices` each, need between them for an exchange.
void add_lines(const ExchangeSpec& spec, int devices, std::vector<DeviceLine>& lines);

}  // namespace tandem
