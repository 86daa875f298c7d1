// What the forward pass of a program makes for its backward pass, and which steps could make it again. Steps stand in the order in which
// they are issued, or in that of their phases, updates last; no memory is shared yet.
#pragma once
#include <span>
#include <vector>

#include "planner/lower/lowered_graph.h"

namespace tandem {

// The memory of a buffer that is no view of another.
struct Activation {
  int maker = -1;              // the step that writes it
  bool repeats = false;        // the forward pass makes it, by a kernel that can run again without any other effect
  std::int64_t bytes = 0;
  int last_forward = -1;       // the last step of the forward pass that reads it
  int first_backward = -1, last_backward = -1;  // steps of the backward pass that read it; updates do not count
  // Whether it is kept from one pass to the other, and need not be.
  bool droppable() const { return repeats && first_backward >= 0; }
};

class Activations {
 public:
  // `losses`: which of the program's outputs are the loss. Where steps have phases, the backward pass begins with that phase. Else it
  // begins where most bytes are kept from steps before to steps behind, at the latest behind the step that writes the loss.
  Activations(const LoweredGraph& program, std::span<const std::size_t> losses);

  const LoweredGraph& program() const { return program_; }
  int steps() const { return static_cast<int>(program_.steps.size()); }
  const Step& step(int s) const { return program_.steps[at(s)]; }
  int turn() const { return turn_; }                                     // the first step of the backward pass
  BufferId root(BufferId b) const { return root_[b]; }
  const Activation& of(BufferId root) const { return of_[root]; }
  std::span<const BufferId> made_by(int s) const { return made_[at(s)]; }   // what can be computed again, by a step of the forward pass
  std::span<const BufferId> read_by(int s) const { return read_[at(s)]; }   // the same, by any step but updates
  bool updates(int s) const { return updates_[at(s)]; }  // the step writes parameters or states alone, or is of phase update
  int backward_end() const;                              // behind the last step that does not
  // Bytes of scratch that live while the step runs, without what can be computed again.
  std::int64_t others(int s) const { return others_[at(s)]; }
  std::int64_t others_before(int s) const { return others_before_[at(s)]; }  // that live when it begins
  // Bytes that a step of the forward pass needs for itself: workspace, and what can be computed again. An output that may lie where an
  // input ends does not count.
  std::int64_t own(int s) const;
  double seconds(int s) const { return needed_forward_[at(s)] ? step(s).seconds : 0; }  // that running it once more adds
  std::int64_t droppable_bytes() const { return droppable_bytes_; }

 private:
  void find_makers();
  void find_turn(std::span<const std::size_t> losses);
  void find_readers();
  void find_needed();
  void count_others();

  const LoweredGraph& program_;
  int turn_ = 0, forward_end_ = 0;  // the latter: behind the loss
  IdVector<BufferId, BufferId> root_;
  IdVector<BufferId, Activation> of_;
  IdVector<BufferId, bool> once_;  // by root: in scratch memory, written by one step
  std::vector<std::vector<BufferId>> made_, read_;
  std::vector<bool> updates_, needed_forward_;
  std::vector<std::int64_t> others_, others_before_;
  std::int64_t droppable_bytes_ = 0;
};

}  // namespace tandem
