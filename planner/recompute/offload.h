// Activations that another device keeps from the forward to the backward pass: they are sent there, and come back into new memory. Their
// bits are moved and not made again.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "planner/recompute/activations.h"

namespace tandem {

// Between a device and the one that keeps its activations.
struct KeepersLink {
  std::function<double(std::int64_t bytes)> seconds;  // one way
  bool beside = false;                                // the device computes meanwhile
};

// When a value is away. Steps are those of the program that it is found in.
struct Away {
  BufferId value;
  int sent = 0;        // before this step it is sent, and its memory is free from there on
  int fetched = 0;     // before this step it comes back
  int first_read = 0;  // of the backward pass
};

inline constexpr std::int64_t least_bytes_away = 64 << 10;  // smaller values stay

// What may be kept elsewhere, in the order in which it is made: what the backward pass reads, of so many bytes or more, that has time to
// go and to come back. Of a link beside which the device computes: as much as goes and comes behind the computing, when most is kept;
// with `all` also what the device then waits for.
std::vector<Away> kept_elsewhere(const Activations& activations, const KeepersLink& link, bool all);

// The device and the one that keeps its activations, by their numbers in the plan.
struct KeptBy {
  int device, keeper;
};
// The program with these values away, and the exchanges that move them. `pairs`: all devices that run it.
LoweredGraph with_away(const Activations& activations, std::span<const Away> away, std::span<const KeptBy> pairs, bool beside);

// Whether the exchange moves an activation to who keeps it, or back.
bool moves_activations(const Exchange& exchange);

// Adds to a program of devices that keep what `sender` sends, in the order in which that does it.
void keep_activations(LoweredGraph& keeper, const LoweredGraph& sender);

}  // namespace tandem
