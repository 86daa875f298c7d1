// How the devices of a plan reach each other, and how long an exchange over their links takes.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "kernels/collective.h"

namespace tandem {

struct LinkLevel {
  std::string name;             // "NVLink 4", "network"
  int devices = 0;              // neighbours by number that it joins: 8 joins 0 to 7, 8 to 15, ...; 0: all
  double bandwidth = 0;         // bytes/s of a device, each way, that a ring of exchanges reaches
  double switch_bandwidth = 0;  // bytes/s of all-reduce's bus bandwidth where the switch sums; 0: it does not
  double hop_seconds = 0;       // from a device to the next
  bool operator==(const LinkLevel&) const = default;
};

// From the nearest devices on; each level joins whole groups of the one before it.
struct Interconnect {
  std::vector<LinkLevel> levels;
  double begin_seconds = 0;   // before the first byte moves
  double switch_seconds = 0;  // the same of sums in a switch
  double host_bandwidth = 25e9;  // to and from the host, bytes/s each way: PCI Express 4 of 16 lanes
  bool operator==(const Interconnect&) const = default;
};

// Seconds of an exchange among the devices of these numbers. `bytes` are the whole value's: of an all-reduce what each member has, of an
// all-gather what each gets, of a reduce-scatter what each gives. `fixed_order`: sums in rank order, which a switch does not promise.
// A ring moves the bytes of its slowest level, the members of a group sharing the work of what leaves it; chunks follow one another
// through the hops: (sqrt(bytes / rate) + sqrt(hops))² is the time for the best size of a chunk. Never less for more bytes, slower links.
double exchange_seconds(const Interconnect& links, ExchangeKind kind, std::span<const int> members, double bytes, bool fixed_order);

}  // namespace tandem
