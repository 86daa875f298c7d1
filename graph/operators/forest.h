// ai.onnx.ml's trees as nodes that are numbered through: what TreeEnsemble and its older forms say in their attributes.
#pragma once
#include <string_view>
#include <tuple>
#include <vector>

#include "graph/attributes.h"
#include "graph/shape.h"

namespace tandem::operator_rows {

enum Mode : std::int64_t { leq, lt, gte, gt, eq, neq, member, leaf };  // as TreeEnsemble numbers them

struct Forest {
  Ints roots, mode, feature, yes, no, missing_is_yes;  // of nodes; leaves are nodes of mode leaf
  std::vector<double> threshold;
  std::vector<std::vector<double>> members;           // of nodes of mode member
  std::vector<std::tuple<std::int64_t, std::int64_t, double>> weights;  // node, target, number
  std::int64_t targets = 1, levels = 0;
  std::vector<double> base;
  std::string_view aggregate = "SUM", transform = "NONE";
  bool one_of_two = false;  // of a classifier's two classes one alone is counted for; where it is the first, there is one target
};

// How many classes a classifier tells apart.
std::int64_t labels_of(const Attributes& attributes);
// Of this operator, on samples of this shape. Fails on attributes that make no trees, saying what is wrong.
Forest forest_of(const Attributes& attributes, std::string_view op, const Shape& x);

}  // namespace tandem::operator_rows
