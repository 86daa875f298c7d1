// What comes of weights that devices share: how all that is computed of them lies, and what would have to be gathered.
#pragma once
#include <optional>
#include <set>

#include "graph/place.h"
#include "planner/place/choose_parts.h"

namespace tandem {

// Why there are no equal parts along a mesh axis, with the nearest number of which there are.
std::string unequal(const Shape& shape, const Part& part, const MeshAxis& mesh);
// Whether such parts of a parameter are parts of the template's tensor, and whether it can be held in them.
bool are_of_template(const Value& v, const Part& part, const MeshAxis& mesh);
bool can_be_held(const Value& v, const Part& part, const MeshAxis& mesh);

// What comes of a choice: how every value lies, and the first node that would have something gathered.
class PartsTrial {
 public:
  // `first`: the weight with which the block begins. Without `more` no parameter is chosen besides.
  PartsTrial(const Graph& graph, const MeshAxis& mesh, ChosenParts chosen, ValueId first, bool more)
      : graph_(graph), mesh_(mesh), chosen_(std::move(chosen)), first_(first), more_(more) {}

  // Parameters that have to be split for a node are chosen as well; then all is placed anew.
  // False where something would be gathered.
  bool run();

  const ChosenParts& chosen() const { return chosen_; }
  const std::string& reason() const { return reason_; }
  bool splits_classes() const { return splits_classes_; }  // of a loss or a softmax
  bool cut_through() const { return cut_through_; }  // the node at fault takes some of what is split, and would take some of each part
  // Where that is a Slice of what the first weight gives, or of a part of it: the rows of the weight at which the value's Slices cut.
  const std::set<std::int64_t>& cuts() const { return cuts_; }
  // Whole operands of the node at fault, beside split ones, and how it needs them, where it can tell.
  const std::vector<std::pair<ValueId, Part>>& wanting() const { return wanting_; }

 private:
  enum class Outcome { placed, again, refused };
  Part part(ValueId v) const { return v.present() ? parts_[at(v.index)] : Part{}; }
  Outcome place_all();
  Outcome take(const Node& node);
  // A sum that a pass has put in: of addends, along this axis of the mesh or another.
  Outcome take_sum(const Node& node);
  // Sums are what a block ends with, and a part of what is whole is there; parameters can be chosen to lie so.
  Outcome move(const Node& node, std::size_t i, const std::vector<Part>& have, const NodePlacement& placed);
  // The parameter that the value is, cast or viewed, and how that is split where the value is so. Absent: it is none.
  std::optional<std::pair<ValueId, Part>> parameter_of(ValueId v, Part wanted) const;
  // Whether a part of a whole value can be made at once. `known`: values whose parts can.
  bool can_be_made(ValueId v, Part wanted, std::map<ValueId, Part>& known) const;
  Outcome refuse(const Node& node, std::string why, const std::vector<Part>& have, const std::vector<Part>& need = {});
  // Where what a node gives is split as the operand that has rows of the first weight: it has these, or a Slice's part of them.
  void follow_rows(const Node& node);
  // Of an index of the axis that a value is split along the row of the first weight, where it is one.
  std::optional<std::int64_t> row_of(ValueId v, std::int64_t index) const;
  // Where the value's Slices begin and end.
  void find_cuts(ValueId v);
  // Whether some weight was multiplied in: such a value is split where it is made, or not at all.
  bool made_by_weights(ValueId v) const;
  Outcome has_equal_parts(const Node& node);
  bool outputs_fit();

  const Graph& graph_;
  const MeshAxis& mesh_;
  ChosenParts chosen_;
  std::vector<Part> parts_;
  std::set<int> read_whole_;
  std::string reason_;
  bool cut_through_ = false, splits_classes_ = false;
  ValueId first_;
  bool more_;
  std::map<int, IndexRun> rows_;  // of the first weight, by value: what lies along the axis that it is split by
  std::set<std::int64_t> cuts_;
  std::vector<std::pair<ValueId, Part>> wanting_;
};

}  // namespace tandem
