// One function an operator that moves axes; all others leave the classes where they are.
#include "importer/message/class_axis.h"
#include "tandem_onnx.pb.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

namespace tandem {
namespace {

using Axes = std::vector<std::int64_t>;
using Result = std::optional<ClassAxis>;

std::int64_t integer(const onnx::NodeProto& node, const char* name, std::int64_t otherwise) {
  for (const auto& a : node.attribute())
    if (a.name() == name) return a.i();
  return otherwise;
}

ClassAxis at(int axis, int rank) {
  ClassAxis a;
  a.axis = axis < 0 && rank > 0 ? axis + rank : axis;
  a.rank = rank;
  return a;
}

// All axes counted as `from` is; absent: cannot be known.
std::optional<Axes> counted_alike(Axes axes, const ClassAxis& from, int rank) {
  for (std::int64_t& a : axes) {
    if ((a < 0) == (from.axis < 0)) continue;
    if (rank < 0) return std::nullopt;
    a += a < 0 ? rank : -rank;
  }
  return axes;
}

// `axes` of the operand go; of the classes none do.
ClassAxis without(const Axes& axes, const ClassAxis& from) {
  const auto alike = counted_alike(axes, from, from.rank);
  if (!alike) return ClassAxis::unknown();
  int axis = from.axis;
  for (const std::int64_t a : *alike) {
    if (from.axis >= 0 && a < from.axis) --axis;
    if (from.axis < 0 && a > from.axis) ++axis;
  }
  return at(axis, from.rank < 0 ? -1 : from.rank - static_cast<int>(axes.size()));
}

Result squeeze(const onnx::NodeProto&, const ClassAxis& from, std::int64_t, const IntegersOf& integers) {
  const auto axes = integers(1, "axes");
  return axes ? without(*axes, from) : ClassAxis::unknown();
}

Result unsqueeze(const onnx::NodeProto&, const ClassAxis& from, std::int64_t, const IntegersOf& integers) {
  const auto axes = integers(1, "axes");
  if (!axes) return ClassAxis::unknown();
  const int rank = from.rank < 0 ? -1 : from.rank + static_cast<int>(axes->size());
  auto alike = counted_alike(*axes, from, rank);
  if (!alike) return ClassAxis::unknown();
  std::sort(alike->begin(), alike->end(), [&](std::int64_t a, std::int64_t b) { return from.axis < 0 ? a > b : a < b; });
  int axis = from.axis;
  for (const std::int64_t a : *alike) {
    if (from.axis >= 0 && a <= axis) ++axis;
    if (from.axis < 0 && a >= axis) --axis;
  }
  return at(axis, rank);
}

Result transpose(const onnx::NodeProto&, const ClassAxis& from, std::int64_t, const IntegersOf& integers) {
  const auto perm = integers(-1, "perm");
  const int rank = perm ? static_cast<int>(perm->size()) : from.rank;
  if (rank < 1) return ClassAxis::unknown();
  const int axis = from.axis < 0 ? from.axis + rank : from.axis;
  if (!perm) return at(rank - 1 - axis, rank);
  const auto place = std::find(perm->begin(), perm->end(), axis);
  return place == perm->end() ? ClassAxis::unknown() : at(static_cast<int>(place - perm->begin()), rank);
}

Result flatten(const onnx::NodeProto& node, const ClassAxis& from, std::int64_t, const IntegersOf&) {
  const std::int64_t split = integer(node, "axis", 1);
  if (split == 1) return at(from.axis == 0 ? 0 : 1, 2);
  if (from.axis >= 0 && split >= 0) return at(from.axis < split ? 0 : 1, 2);
  return ClassAxis::unknown();
}

// Behind the batch, where the old number stands, or the last axis where one is left open.
Result reshape(const onnx::NodeProto&, const ClassAxis&, std::int64_t classes, const IntegersOf& integers) {
  const auto shape = integers(1, "shape");
  if (!shape || shape->empty()) return ClassAxis::unknown();
  const int rank = static_cast<int>(shape->size());
  const auto first = shape->begin() + (rank > 1);
  if (const auto place = std::find(first, shape->end(), classes); place != shape->end())
    return at(static_cast<int>(place - shape->begin()), rank);
  return rank == 2 && shape->back() == -1 ? Result(at(1, 2)) : ClassAxis::unknown();
}

Result reduce(const onnx::NodeProto& node, const ClassAxis& from, std::int64_t, const IntegersOf& integers) {
  const auto axes = integers(1, "axes");
  const bool keeps = integer(node, "keepdims", 1) != 0;
  if (!axes) return node.input_size() > 1 ? Result(ClassAxis::unknown()) : std::nullopt;
  bool known = true;
  for (const std::int64_t a : *axes) {
    const auto same = from.is(a);
    known = known && same;
    if (same && *same) return std::nullopt;
  }
  if (!known) return ClassAxis::unknown();
  return keeps ? from : without(*axes, from);
}

const std::map<std::string, Result (*)(const onnx::NodeProto&, const ClassAxis&, std::int64_t, const IntegersOf&)> moves = {
    {"Squeeze", squeeze},   {"Unsqueeze", unsqueeze}, {"Transpose", transpose},        {"Flatten", flatten},  {"Reshape", reshape},
    {"ReduceMean", reduce}, {"ReduceMax", reduce},    {"ReduceLogSumExp", reduce}, {"ReduceSum", reduce},
};

}  // namespace

std::optional<bool> ClassAxis::is(std::int64_t other) const {
  if (!known_) return std::nullopt;
  if ((other < 0) == (axis < 0)) return other == axis;
  if (rank < 0) return std::nullopt;
  return (other < 0 ? other + rank : other) == (axis < 0 ? axis + rank : axis);
}

std::optional<ClassAxis> classes_behind(const onnx::NodeProto& node, const ClassAxis& from, std::int64_t classes,
                                        const IntegersOf& integers) {
  const auto move = moves.find(node.op_type());
  if (move == moves.end() || (!from.known() && node.op_type() != "Reshape")) return from;
  return move->second(node, from, classes, integers);
}

std::optional<bool> takes_part(const onnx::NodeProto& node, const ClassAxis& from, const IntegersOf& integers) {
  if (node.op_type() == "Gather") return from.is(integer(node, "axis", 0));
  if (node.op_type() != "Slice") return false;
  const auto starts = integers(1, "starts"), ends = integers(2, "ends"), steps = integers(4, "steps");
  auto axes = integers(3, "axes");
  if (!starts || !ends || starts->size() != ends->size()) return std::nullopt;
  if (!axes) {
    axes.emplace();
    for (std::size_t i = 0; i < starts->size(); ++i) axes->push_back(static_cast<std::int64_t>(i));
  }
  bool known = true;
  for (std::size_t i = 0; i < std::min(axes->size(), starts->size()); ++i) {
    const bool all =
        (*starts)[i] == 0 && (*ends)[i] >= std::numeric_limits<std::int32_t>::max() && (!steps || i >= steps->size() || (*steps)[i] == 1);
    if (all) continue;
    const auto same = from.is((*axes)[i]);
    if (same && *same) return true;
    known = known && same;
  }
  return known ? std::optional<bool>(false) : std::nullopt;
}

}  // namespace tandem
