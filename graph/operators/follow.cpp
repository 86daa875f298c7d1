// The rules for the batch that many operators share; graph/follow.h says what a rule must hold to.
#include "graph/follow.h"

#include <algorithm>

#include "graph/operators/rules.h"

namespace tandem {

FollowContext::FollowContext(const Graph& graph, const Node& node, std::vector<BatchPlace> operands, std::int64_t batch)
    : graph_(graph), node_(node), operands_(std::move(operands)), batch_(batch), results_(node.outputs.size()) {}

BatchPlace FollowContext::place(int i) const { return has_input(i) ? operands_[at(i)] : BatchPlace{}; }

void FollowContext::set(int output, BatchPlace place) {
  if (output < outputs() && node_.outputs[at(output)].present()) results_[at(output)] = {place};
}

void FollowContext::set_all(BatchPlace place) {
  for (int i = 0; i < outputs(); ++i) set(i, place);
}

void FollowContext::choose(std::vector<BatchPlace> readings) { results_[0] = std::move(readings); }

void FollowContext::repeat(int input, int axis, std::int64_t outer) { repeats_.push_back({input, {.axis = axis, .outer = outer}}); }

void only_operand(const FollowContext& c, int input) {
  for (int i = 0; i < c.inputs(); ++i)
    if (i != input && c.place(i).present()) c.fail("its input ", i, " holds samples, too");
}

BatchPlace follow_operands(FollowContext& c, int first, int last, const Shape& y, int apart) {
  BatchPlace place;
  for (int i = first; i < last; ++i) {
    BatchPlace own = c.place(i);
    if (!own.present() || own.axis >= c.x(i).rank() - apart) continue;
    const std::int64_t dim = c.x(i)[own.axis];
    own.axis += y.rank() - c.x(i).rank();
    if (dim != y[own.axis]) c.fail("input ", i, ' ', c.x(i), " is repeated along the axis that holds the samples");
    if (place.present() && place != own) c.fail("its operands hold the samples at different places: samples would meet");
    place = own;
  }
  if (!place.present()) return place;
  for (int i = first; i < last; ++i) {
    if (!c.has_input(i) || c.place(i).present()) continue;
    const int axis = place.axis - (y.rank() - c.x(i).rank());
    if (axis >= 0 && axis < c.x(i).rank() - apart && c.x(i)[axis] != 1) c.repeat(i, axis, place.outer);
  }
  return place;
}

void follow_broadcast(FollowContext& c) { c.set_all(follow_operands(c, 0, c.inputs(), c.y())); }

namespace {

// Axes of no length count as 1: there is nothing in them to mix up.
std::int64_t times(std::int64_t a, std::int64_t dim) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, std::max<std::int64_t>(dim, 1), &product)) fail("its shapes are beyond all memory");
  return product;
}

}  // namespace

void follow_rows(FollowContext& c) {
  only_operand(c, 0);
  if (c.place().axis != 0) c.fail("the samples lie along axis ", c.place().axis, ", which it works on as a whole");
  c.set(0, c.place());
}

void follow_along_axis(FollowContext& c) {
  only_operand(c, 0);
  if (c.place().axis == c.attributes().integer("axis")) c.fail("it works along axis ", c.place().axis, ", which holds the samples");
  c.set(0, c.place());
}

std::vector<BatchPlace> readings_of_view(std::int64_t before, const Shape& y, std::int64_t batch) {
  struct Reading {
    std::int64_t inner;
    BatchPlace place;
  };
  std::vector<Reading> found;
  std::int64_t prefix = 1;
  for (int i = 0; i < y.rank() && before % prefix == 0; ++i) {
    const std::int64_t outer = before / prefix, dim = std::max<std::int64_t>(y[i], 1);
    if (dim % outer == 0 && dim / outer % batch == 0) found.push_back({dim / outer / batch, {.axis = i, .outer = outer}});
    prefix = times(prefix, dim);
  }
  // What belongs to a sample had better stay together, behind it.
  std::stable_sort(found.begin(), found.end(), [](const Reading& a, const Reading& b) {
    return std::pair(a.inner, a.place.outer) < std::pair(b.inner, b.place.outer);
  });
  std::vector<BatchPlace> readings;
  for (const Reading& r : found) readings.push_back(r.place);
  return readings;
}

void follow_view(FollowContext& c) {
  only_operand(c, 0);
  std::int64_t before = c.place().outer;
  for (int i = 0; i < c.place().axis; ++i) before = times(before, c.x()[i]);
  std::vector<BatchPlace> readings = readings_of_view(before, c.y(), c.batch());
  if (readings.empty()) c.fail("no axis of ", c.y(), " holds the samples of ", c.x(), ": it cuts through them");
  c.choose(std::move(readings));
}

void follow_reduction(FollowContext& c) {
  only_operand(c, 0);
  const Ints axes = c.attributes().has("axes") ? c.attributes().ints("axes") : Ints{c.attributes().integer("axis")};
  BatchPlace place = c.place();
  if (std::find(axes.begin(), axes.end(), place.axis) != axes.end()) return c.set(0, {.mixed = true});
  if (c.attributes().integer("keepdims") == 0)
    place.axis -= static_cast<int>(std::count_if(axes.begin(), axes.end(), [&](std::int64_t a) { return a < place.axis; }));
  c.set(0, place);
}

}  // namespace tandem
