// Tables of the internal operator Resample, and how it is put into a graph.
#pragma once
#include "graph/operators/rules.h"

namespace tandem {

// What one axis is made of: entry i of the new axis is Σ weight[k] · x[index[k]] over k in [starts[i], starts[i+1]).
// Without weights all are 1.
struct ResampleTable {
  static constexpr std::int64_t most = std::int64_t{1} << 22;  // entries of either axis, and what all of them take
  std::vector<std::int32_t> starts{0}, index;
  std::vector<double> weight;
  std::int64_t size() const { return static_cast<std::int64_t>(starts.size()) - 1; }
  void add(std::int64_t from) {  // to the entry that is being made
    if (std::ssize(index) >= most) fail("its table takes more than the ", most, " entries allowed");
    index.push_back(static_cast<std::int32_t>(from));
  }
  void add(std::int64_t from, double w) {
    add(from);
    weight.push_back(w);
  }
  void end_entry() { starts.push_back(static_cast<std::int32_t>(index.size())); }
  bool is_identity(std::int64_t n) const;  // on an axis of n entries
};

// x with `axis`, and where `second` is given the axis behind it, made anew. Both tables have weights or none has.
ValueId emit_resample(GraphBuilder& b, ValueId x, int axis, const ResampleTable& first, const ResampleTable* second = nullptr);

}  // namespace tandem
