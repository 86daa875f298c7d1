// How ranks find each other: rank 0 listens, the others come, and each is told where its neighbour listens. From then on
// the lines of control tell who is lost, also to those who still wait for a neighbour.
#pragma once
#include <vector>

#include "kernels/ranks/socket.h"
#include "kernels/world.h"

namespace tandem {

class Control;

struct Line {
  int rank;  // at the other end
  Socket socket;
};
struct Greeting {
  std::vector<Line> control;  // rank 0's to all others, theirs to rank 0
  Socket door;                // where the rank after this one comes
  std::string door_place;     // its port, or its path
  Address lower;              // where the rank before this one has its door
};
// Fails (communication) in every rank where one does not come in time, comes twice or counts the ranks differently.
Greeting greet(const WorldOptions& options);

struct Neighbours {
  Socket lower, upper;  // to the rank before and the rank after; not open where there is none
};
// Fails (communication) naming the rank that was lost since it was greeted, with the reason that all ranks hear.
Neighbours join_neighbours(const WorldOptions& options, Greeting greeting, Control& control);

// A text after its length; false where the line closed, the time is over or the text is too long.
bool send_text(const Socket& socket, const std::string& text, Clock::time_point end);
bool receive_text(const Socket& socket, std::string& text, Clock::time_point end);

}  // namespace tandem
