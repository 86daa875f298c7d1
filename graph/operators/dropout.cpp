// Dropout is nothing in inference and DropoutTraining while a model trains. A layer's random stream is told by its
// name, so that it does not depend on the order of passes.
#include "graph/operators/random.h"

namespace tandem::operator_rows {
namespace {

ValueId all_true(ExpandContext& e, const Shape& shape) {
  return e.broadcast_to(e.graph().add_constant(e.node().name + "/true", Tensor::scalar(true)), shape);
}

// Inference: x itself. Training: the random form; its mask, where it is asked for, is what the same layer makes of ones.
std::vector<ValueId> expand_dropout(ExpandContext& e) {
  const bool random_wanted = e.training || static_integer(e.attributes(), "training_mode", 0) != 0;
  const float ratio = static_cast<float>(static_number(e.attributes(), "ratio", 0.5));
  const bool mask_wanted = e.node().outputs.size() > 1 && e.node().outputs[1].present();
  const TensorType type = e.type(e.x());
  std::vector<ValueId> results;
  if (!random_wanted || ratio == 0) {
    results = {e.x(), mask_wanted ? all_true(e, type.shape) : ValueId{}};
  } else {
    const Attributes attributes{{"ratio", ratio}, {"layer", random_stream(e)}};
    const ValueId random = random_state(e);
    results = {e.emit("DropoutTraining", {e.x(), random}, attributes, 2)[0], ValueId{}};
    if (mask_wanted) {
      const ValueId ones = e.broadcast_to(e.scalar(1, type.dtype), type.shape);
      const ValueId kept = e.emit("DropoutTraining", {ones, random}, attributes, 2)[0];
      results[1] = e.emit("Greater", {kept, e.scalar(0, type.dtype)});
    }
  }
  results.resize(e.node().outputs.size());
  return results;
}

}  // namespace

Operator dropout() {
  return {.name = "Dropout",
          .since = {1, 6, 7, 10, 12, 13, 22}, .inputs = {1, 3}, .outputs = {1, 2}, .types = {{"T", types::floats}, {"T1", types::floats}, {"T2", types::booleans}},
          .infer =
              [](InferContext& c) {
                const double ratio = static_number(c.attributes(), "ratio", 0.5);
                if (!(ratio >= 0 && ratio < 1)) c.fail("ratio is ", ratio, ", expected a number in [0, 1)");
                infer_same(c);
                c.set_output(1, DType::boolean, c.shape(0));
              },
          .follow = follow_broadcast,
          .expand = expand_dropout,
          .static_operands = {{1, "ratio"}, {2, "training_mode"}},
          .precision = PrecisionRole::parts, .operands = {{"data"}}};
}

// y = kept ? x / (1 − ratio) : 0; dx the same of dy
Operator dropout_training() {
  return {.name = "DropoutTraining",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .outputs = {2, 2},
          .infer =
              [](InferContext& c) {
                expect_shape(c, 1, Shape{4});
                infer_same(c);
                c.set_opaque_output(1);
              },
          .place = place_as_first,
          .differentiate = [](GradientContext& g) {
            g.set_dx(g.emit("DropoutBackward", {g.dy(), g.y(1)}, {{"ratio", g.attributes().real("ratio")}}));
          },
          .precision = PrecisionRole::follows};
}

Operator dropout_backward() { return {.name = "DropoutBackward", .domain = "tandem", .since = {1}, .inputs = {2, 2}, .infer = infer_same, .place = place_as_first}; }

}  // namespace tandem::operator_rows
