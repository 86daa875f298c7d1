// What passes that recognise a formula in a graph share: values as exporters write them, seen through what changes nothing.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "graph/operator.h"

namespace tandem {

// Equal but for the digits that an exporter wrote, or a 16-bit constant lost.
bool same_number(double a, double b);

class Pattern {
 public:
  explicit Pattern(const Graph& graph) : graph_(graph), uses_(graph.uses()) {}
  const Graph& graph() const { return graph_; }
  // The value that this one equals: the operand of an Identity, of a Cast to its own type.
  ValueId through(ValueId v) const;
  // The node of this operator that makes the value; null where another does.
  const Node* made_by(ValueId v, std::string_view op) const;
  bool read_once(ValueId v) const { return uses_[v] == 1; }
  bool read(ValueId v) const { return uses_[v] > 0; }
  // A number that is known now, of one element.
  std::optional<double> number(ValueId v) const;
  bool is_number(ValueId v, double expected) const;

  // A value as a product: of a number and of other values, each as often as it is a factor. What it is computed from is gone
  // into as far as nothing else reads it: products, quotients by numbers, squares and cubes.
  struct Product {
    double number = 1;
    std::vector<ValueId> factors;
    bool is(double expected) const { return same_number(number, expected); }
    bool take(ValueId factor);  // removes it once; false where it is none
  };
  Product product(ValueId v) const;

 private:
  void multiply(Product& product, ValueId v, bool root) const;
  const Graph& graph_;
  IdVector<ValueId, int> uses_;
};

}  // namespace tandem
