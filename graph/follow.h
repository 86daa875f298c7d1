// Where an operator's rule for the batch (Operator::follow) reads where its operands hold the samples, and says where its
// outputs do. The rule holds sample by sample: what an output holds of sample s must be computed from what the operands
// hold of s, and from operands that hold no samples, exactly as the node computes it for a batch of one. A rule may take
// for granted that some operand holds samples, that none is mixed, and that the node's shapes fit each other at `batch`.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace tandem {

class FollowContext {
 public:
  FollowContext(const Graph& graph, const Node& node, std::vector<BatchPlace> operands, std::int64_t batch);  // by operand
  const Node& node() const { return node_; }
  const Attributes& attributes() const { return node_.attributes; }
  int inputs() const { return static_cast<int>(node_.inputs.size()); }
  int outputs() const { return static_cast<int>(node_.outputs.size()); }
  bool has_input(int i) const { return i < inputs() && node_.inputs[static_cast<std::size_t>(i)].present(); }
  const Shape& x(int i = 0) const { return graph_[node_.inputs[static_cast<std::size_t>(i)]].type.shape; }
  const Shape& y(int i = 0) const { return graph_[node_.outputs[static_cast<std::size_t>(i)]].type.shape; }
  BatchPlace place(int i = 0) const;  // of an operand; none where it is absent
  std::int64_t batch() const { return batch_; }

  void set(int output, BatchPlace place);                // an output that is never set holds no samples
  void set_all(BatchPlace place);                        // every output
  void choose(std::vector<BatchPlace> readings);         // of output 0: any of these is right, the likeliest first
  void repeat(int input, int axis, std::int64_t outer);  // an operand without samples holds its part once for each of them
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    tandem::fail(parts...);
  }

  struct Repeat {
    int input;
    BatchPlace place;
  };
  const std::vector<std::vector<BatchPlace>>& results() const { return results_; }  // readings by output
  const std::vector<Repeat>& repeats() const { return repeats_; }

 private:
  const Graph& graph_;
  const Node& node_;
  std::vector<BatchPlace> operands_;
  std::int64_t batch_;
  std::vector<std::vector<BatchPlace>> results_;
  std::vector<Repeat> repeats_;
};

// Rules that operators share. They fail where samples would meet.
void follow_broadcast(FollowContext& c);  // element by element, operands broadcast: every output has y(0)'s shape
void follow_rows(FollowContext& c);       // x(0) by rows: axis 0 stays what it is, and other operands hold no samples
void follow_along_axis(FollowContext& c); // x(0)'s attribute `axis` is worked on as a whole
void follow_view(FollowContext& c);       // the same elements in another shape
void follow_reduction(FollowContext& c);  // over the attribute `axes` or `axis`

// Fails where an operand other than `input` holds samples.
void only_operand(const FollowContext& c, int input);
// Where operands broadcast against y hold the samples in y; their last `apart` axes, and y's, take no part.
BatchPlace follow_operands(FollowContext& c, int first, int last, const Shape& y, int apart = 0);
// Every reading of the samples in `y`, a view of elements in which `before` lies outside of them.
std::vector<BatchPlace> readings_of_view(std::int64_t before, const Shape& y, std::int64_t batch);

}  // namespace tandem
