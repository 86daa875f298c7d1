// How ranks find each other: rank 0 listens, the others come, and each is told where its neighbour listens. From then on
// the lines of control tell who is lost, also to those who still wait for a neighbour. Nobody listens elsewhere than at the
// address given and, for neighbours, where rank 0 was reached from. Who has the run's secret may take
// a rank's place; without a secret whoever knows the protocol and comes first.
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
struct Greeting {
  std::vector<Line> control;  // rank 0's to all others, theirs to rank 0
  Socket door;                // where the rank after this one comes
  Place door_place;           // its port, or its path
  Address lower;              // where the rank before this one has its door
  Token token{};              // rank 0's; who comes to a door has it too
};
// Fails (communication) in every rank where one does not come in time. Who comes as a rank that there is not, or that
// is there already, is told so and sent away; rank 0 goes on waiting, and says it (WorldOptions::note).
Greeting greet(const WorldOptions& options);

struct Neighbours {
  Socket lower, upper;  // to the rank before and the rank after; not open where there is none
};
// Fails (communication) naming the rank that was lost since it was greeted, with the reason that all ranks hear.
Neighbours join_neighbours(const WorldOptions& options, Greeting greeting, Control& control);

}  // namespace tandem
