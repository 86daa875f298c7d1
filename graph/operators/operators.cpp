// The rows of rows.inc as one list.
#include <algorithm>

#include "graph/operator.h"

namespace tandem {

// Each is defined in the file of its family, which needs no declaration: no source but this depends on the list.
namespace operator_rows {
#define ROW(name) Operator name();
#include "graph/operators/rows.inc"
#undef ROW
}  // namespace operator_rows

std::span<const Operator> operators() {
  static const Operator rows[] = {
#define ROW(name) operator_rows::name(),
#include "graph/operators/rows.inc"
#undef ROW
  };
  return rows;
}

const Operator* find_operator(std::string_view name, std::string_view domain) {
  if (domain == "ai.onnx") domain = "";
  const auto key = std::pair(domain, name);
  const auto rows = operators();
  const auto row =
      std::lower_bound(rows.begin(), rows.end(), key, [](const Operator& o, const auto& k) { return std::pair(o.domain, o.name) < k; });
  return row != rows.end() && std::pair(row->domain, row->name) == key ? &*row : nullptr;
}

}  // namespace tandem
