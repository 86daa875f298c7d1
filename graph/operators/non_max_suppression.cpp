// NonMaxSuppression: of boxes that overlap, the one with the highest score. How many are left is a shape, so boxes and scores must be
// known when the plan is made: it belongs behind a model that trains, not into it.
#include <numeric>

#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

struct Box {
  double y0, x0, y1, x1;
  double area() const { return (y1 - y0) * (x1 - x0); }
};

Box box_of(const float* v, bool centre) {
  if (centre) return {v[1] - v[3] / 2.0, v[0] - v[2] / 2.0, v[1] + v[3] / 2.0, v[0] + v[2] / 2.0};
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}

double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0), width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (height <= 0 || width <= 0) return 0;
  return height * width / (a.area() + b.area() - height * width);
}

Tensor selected(const Tensor& boxes, const Tensor& scores, const Attributes& a) {
  const bool centre = a.integer("center_point_box", 0) != 0;
  const std::int64_t most = static_integer(a, "max_output_boxes_per_class", 0), batches = scores.shape()[0], classes = scores.shape()[1],
                     n = scores.shape()[2];
  const double share = static_number(a, "iou_threshold", 0);
  const Tensor corners = boxes.cast(DType::float32), numbers = scores.cast(DType::float32);
  const auto b = corners.values<float>(), s = numbers.values<float>();
  Ints found;
  std::int64_t rows = 0;
  for (std::int64_t line = 0; line < batches * classes; ++line) {
    const float* const score = s.data() + line * n;
    const auto box = [&](std::int64_t i) { return box_of(b.data() + (line / classes * n + i) * 4, centre); };
    Ints order(static_cast<std::size_t>(n)), taken;
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](std::int64_t i) { return a.has("score_threshold") && !(score[i] > static_number(a, "score_threshold", 0)); });
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) { return score[i] > score[j]; });
    for (const std::int64_t i : order) {
      if (static_cast<std::int64_t>(taken.size()) >= most) break;
      if (std::any_of(taken.begin(), taken.end(), [&](std::int64_t j) { return overlap(box(i), box(j)) > share; })) continue;
      taken.push_back(i);
      found.insert(found.end(), {line / classes, line % classes, i});
      ++rows;
    }
  }
  return Tensor::of<std::int64_t>(Shape{rows, 3}, std::span<const std::int64_t>(found));
}

}  // namespace

Operator non_max_suppression() {
  return {.name = "NonMaxSuppression",
          .since = {10, 11},
          .inputs = {2, 5},
          .types = {{"T", types::floats}, {"T", types::floats}, {"I", types::integers_64}, {"T", types::floats}},
          .infer =
              [](InferContext& c) {
                const Shape &boxes = c.shape(0), &scores = c.shape(1);
                if (boxes.rank() != 3 || scores.rank() != 3 || boxes[0] != scores[0] || boxes[1] != scores[2] || boxes[2] != 4)
                  c.fail("boxes ", boxes, " and scores ", scores, ", expected [N,boxes,4] and [N,classes,boxes]");
                for (const int i : {0, 1})
                  if (!c.constant(i))
                    c.fail(
                        "boxes and scores must be known when the plan is made: how many boxes are left is a shape. Export the model "
                        "without its postprocessing");
                for (int i = 2; i < c.inputs(); ++i)
                  if (c.has_input(i)) c.fail("input ", i, " must be known when the plan is made");
                c.set_output(0, selected(*c.constant(0), *c.constant(1), c.attributes()).type());
              },
          .fold = [](const FoldContext& c) -> Folded { return std::vector{selected(c.inputs[0], c.inputs[1], c.node.attributes)}; },
          .static_operands = {{2, "max_output_boxes_per_class"}, {3, "iou_threshold"}, {4, "score_threshold"}},
          .precision = PrecisionRole::wide,
          .operands = {{"boxes", OperandRole::index}, {"scores", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
