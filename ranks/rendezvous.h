// How ranks find each other: rank 0 listens, the others come, and each is told where its neighbour listens. From then on
// the lines of control tell who is lost, also to those who still wait for a neighbour. Nobody listens elsewhere than at the
// address given and, for neighbours and lines between devices, where rank 0 was reached from, and only until these have come. Who has the
// run's secret may take a rank's place; without a secret whoever knows the protocol and comes first.
#pragma once
#include <vector>

#include "ranks/reception.h"
#include "ranks/world.h"

namespace tandem {

class Control;

struct Line {
  int rank;  // at the other end
  Socket socket;
};
// What a rank knows of where ranks are, for lines that are opened later.
struct Whereabouts {
  std::string own;                // its address: by which it reached rank 0, or where rank 0 listens
  std::vector<std::string> seen;  // by rank, on rank 0: where each came from; else only rank 0's address; empty of Unix sockets
  Token token{};                  // rank 0's; who comes to a door has it too
};
struct Greeting {
  std::vector<Line> control;  // rank 0's to all others, theirs to rank 0
  Socket door;                // where the rank after this one comes
  Place door_place;           // its port, or its path
  Address lower;              // where the rank before this one has its door
  Whereabouts where;
};
// Fails (communication) in every rank where one does not come in time. Who comes as a rank that there is not, or that
// is there already, is told so and sent away; rank 0 goes on waiting, and says it (WorldOptions::note).
// `listener`: rank 0's; not open: it listens now.
Greeting greet(const WorldOptions& options, Socket listener = {});
// Where the address is shared (WorldOptions::share): rank 0 listens, afterwards all have its address. Else does nothing.
Socket share_address(WorldOptions& options);

struct Neighbours {
  Socket lower, upper;  // to the rank before and the rank after; not open where there is none
};
// Fails (communication) naming the rank that was lost since it was greeted, with the reason that all ranks hear.
Neighbours join_neighbours(const WorldOptions& options, Greeting greeting, Control& control);

// Lines between devices of any two ranks, by device_lines()'s order; not open where this rank has none of both devices. All ranks
// ask for the same lines. `gather` is World::gather(). Fails as join_neighbours().
LineName name_of(const DeviceLine& line);
std::vector<Socket> open_lines(const WorldOptions& options, const Whereabouts& where, std::span<const DeviceLine> lines, Control& control,
                               const std::function<void(std::span<std::byte>)>& gather);

}  // namespace tandem
