// How values lie along one axis of the meshes, and the transfers that bring them where they are needed. A part of pass place.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "graph/place.h"
#include "planner/place/placing.h"

namespace tandem {

// How an operand has to be placed so that the node's result, which is whole, could be made as such a part at once. Absent where it cannot
// be told. The part is made where this leads to constants, to what is filled, and to operands that are needed whole.
std::optional<Part> operand_for(const Graph& graph, const Node& node, std::size_t i, Part to, const MeshAxis& mesh);

class Transfers final : public DeviceParts {
 public:
  // `put_in`: the results of transfers along this axis and those before it.
  Transfers(Graph& graph, std::size_t axis, PutIn& put_in)
      : graph_(graph), axis_(axis), put_in_(put_in), parts_(graph.values.size()) {}

  Part part(ValueId v) const override;
  void set(ValueId v, Part part);
  ValueId put(ValueId v, Part part, ValueId like) override;
  ValueId sum(ValueId addends, std::string of) override;
  ValueId largest(ValueId each, std::string of) override;
  ValueId by_share(ValueId each, std::string name, std::int64_t count = 1) override;
  ValueId made_in_parts(ValueId v, int axis, const MeshAxis& mesh) override;
  ValueId& known(const std::string& key) override { return known_[key]; }

  // Where what is put in works, of values that are on whichever device reads them.
  void set_group(int group) { group_ = group; }
  // Who wants what is put in next, and why; without a reason it is the usual one. Sums for gradients and running statistics
  // are what replicas are: they are not told.
  void set_reader(std::string node, std::string reason = {}, bool sums_are_told = true) {
    reader_ = std::move(node);
    reason_ = std::move(reason);
    sums_are_told_ = sums_are_told;
  }
  ValueId transfer(ValueId v, Part to, const MeshAxis& mesh) override;
  ValueId scattered(ValueId v, const Part& to);
  // The whole of a value that is split; `again`: of one that was gathered before.
  ValueId gathered(ValueId v, bool again = false);
  bool is_one(ValueId v) const { return put_in_.contains(v); }

 private:
  ValueId moved_by(std::string_view op, std::string name, std::string of, ValueId v, Part to, Attributes attributes = {});
  std::string usual_reason(Moves moves, bool samples) const;
  ValueId moved(ValueId v, Part to, const MeshAxis& mesh);
  ValueId turned(ValueId v, const Ints& from);
  ValueId narrowed(ValueId v, Part to, const MeshAxis& mesh);
  bool has_parts(ValueId v, const Part& to, const MeshAxis& mesh, std::set<ValueId>& seen) const;

  Graph& graph_;
  const std::size_t axis_;
  PutIn& put_in_;
  std::vector<Part> parts_;  // by value
  using Key = std::tuple<int, int, Spread, int, std::int64_t, std::vector<std::int64_t>, std::vector<std::int64_t>>;
  Key key_of(ValueId v, const Part& to) const { return {v.index, group_, to.spread, to.axis, to.outer, to.sizes, to.widths}; }
  std::map<Key, ValueId> transferred_;
  int group_ = 0;
  std::string reader_, reason_;
  bool sums_are_told_ = true;
  std::map<std::string, ValueId, std::less<>> known_;
};

}  // namespace tandem
