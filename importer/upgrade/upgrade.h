// Lifts nodes of older opsets to the newest meaning of their operator.
#pragma once
#include <optional>

#include "importer/upgrade/draft.h"

namespace tandem {

class UpgradeContext : public GraphBuilder {
 public:
  UpgradeContext(Graph& graph, Draft& draft) : GraphBuilder(graph, draft.name, {draft.name}), draft(draft) {}
  const Shape& shape(int input);  // fails where it is absent
  using GraphBuilder::shape;
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    tandem::fail(draft.op, " '", draft.name, "': ", parts...);
  }

  Draft& draft;
};

// Applies every row of the table that fits. Gives the node's outputs where an upgrade replaced it altogether; its last
// node then computes them.
std::optional<std::vector<ValueId>> upgrade(Graph& graph, Draft& draft);
// An operator that goes by another name once its node is upgraded.
struct Renamed {
  std::string_view op;
  Arity inputs, outputs = {};  // what the file's node takes and gives; checked before it is upgraded
};
std::optional<Renamed> renamed(const std::string& op, std::int64_t opset);

}  // namespace tandem
