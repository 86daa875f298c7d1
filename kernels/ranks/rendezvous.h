// How ranks find each other: rank 0 listens, the others come, and each is told where its neighbour listens.
#pragma once
#include <vector>

#include "kernels/ranks/socket.h"
#include "kernels/world.h"

namespace tandem {

struct Line {
  int rank;  // at the other end
  Socket socket;
};
struct Lines {
  std::vector<Line> control;  // rank 0's to all others, theirs to rank 0
  Socket lower, upper;        // to the rank before and the rank after; not open where there is none
};
// Fails (communication) in every rank where one does not come in time, comes twice or counts the ranks differently.
Lines meet(const WorldOptions& options);

// A text after its length; false where the line closed, the time is over or the text is too long.
bool send_text(const Socket& socket, const std::string& text, Clock::time_point end);
bool receive_text(const Socket& socket, std::string& text, Clock::time_point end);

}  // namespace tandem
