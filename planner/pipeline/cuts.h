// Where a model is cut into parts of a pipeline: exact, among cuts between pieces that stand in a row.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

// What is not cut. Times are of a micro-batch's forward and backward pass on a device of speed 1, in any one unit; bytes are a device's.
struct Piece {
  double time = 0;
  double sends = 0;        // time that it takes to send what is needed behind it
  double activations = 0;  // bytes of a micro-batch from the forward to the backward pass
  double parameters = 0;   // bytes of parameters, their gradients and the optimizer's states
};

// Who works on a part.
struct PartRoom {
  double speed = 1;   // relative
  double memory = 0;  // bytes; 0: any
  int held = 1;       // micro-batches whose activations it holds at once
};

// The first piece of each part, such that the slowest part is as fast as it can be and each one fits its memory. Where no cut fits, the
// fullest part is as little over as it can be. Parts are in the pieces' order and have at least one piece. Fails (usage) where there are
// fewer pieces than parts. By dynamic programming over the ends of parts: f(part, end) is the least over its begin of
// max(f(part - 1, begin), time of the pieces between).
std::vector<int> best_cuts(std::span<const Piece> pieces, std::span<const PartRoom> parts);

}  // namespace tandem
