// A graph for another number of samples than the one that was followed: what changes in it besides its inputs.
#pragma once
#include "importer/batch/budget.h"
#include "importer/batch/follow_batch.h"
#include "importer/upgrade/draft.h"

namespace tandem {

// The first sample's part of a tensor that holds `from` of them, `to` times.
Tensor repeat_samples(const Tensor& tensor, const BatchPlace& place, std::int64_t from, std::int64_t to);

class Rebatch {
 public:
  // `own` was followed at `from` samples. It must outlive this.
  Rebatch(const Graph& own, const FollowedBatch& followed, std::int64_t from, std::int64_t to)
      : own_(own), followed_(followed), from_(from), to_(to) {}

  // What a value of `own` will be: its shape with the batch's factor changed.
  Shape shape(ValueId own) const;
  // Readies a node that is `node` in `own`: operands are repeated for each sample, and sizes that hold the file's batch
  // set, so that its outputs come out as shape() says.
  void apply(Graph& graph, NodeId node, Draft& draft) const;
  // The value for `own`, a constant or a parameter that holds the same for every sample of the file's batch: it keeps that
  // once, and the value given back is repeated. Any other value is given back as it is. Fails beyond the budget.
  ValueId once(Graph& graph, ValueId value, ValueId own, Budget& budget) const;

 private:
  void draw(Graph& graph, ValueId own, Draft& draft) const;
  ValueId repeated(Graph& graph, const std::string& name, ValueId value, ValueId own, const BatchPlace& place) const;

  const Graph& own_;
  const FollowedBatch& followed_;
  std::int64_t from_, to_;
};

}  // namespace tandem
