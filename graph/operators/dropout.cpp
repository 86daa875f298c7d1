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
    Attributes attributes{{"ratio", ratio}, {"layer", random_stream(e)}};
    std::vector<ValueId> inputs{e.x(), random_state(e)};
    count_by_sample(e, type.shape, attributes, inputs);
    results = {e.emit("DropoutTraining", inputs, attributes), ValueId{}};
    if (mask_wanted) {
      inputs[0] = e.broadcast_to(e.scalar(1, type.dtype), type.shape);
      results[1] = e.emit("Greater", {e.emit("DropoutTraining", inputs, attributes), e.scalar(0, type.dtype)});
    }
  }
  results.resize(e.node().outputs.size());
  return results;
}

}  // namespace

Operator dropout() {
  return {.name = "Dropout",
          .since = {1, 6, 7, 10, 12, 13, 22},
          .inputs = {1, 3},
          .outputs = {1, 2},
          .types = {{"T", types::floats}, {"T1", types::floats}, {"T2", types::booleans}},
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
          .precision = PrecisionRole::parts,
          .operands = {{"data"}}};
}

// y = kept ? x / (1 − ratio) : 0; dx is the same of dy. Operand 2 says how the samples are split, as in RandomNumbers.
Operator dropout_training() {
  return {.name = "DropoutTraining",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 3},
          .infer =
              [](InferContext& c) {
                expect_shape(c, 1, Shape{4});
                expect_dtype(c, 1, DType::int64);
                check_samples(c, c.shape(0));
                infer_same(c);
              },
          .place =
              [](PlaceContext& c) {
                const BatchPlace samples = samples_of(c.attributes());
                if (c.split(0) && !c.split(2) && c.place(0).axis != samples.axis) return c.set(0, c.place(0));  // counted as in the whole
                if (c.place(2) != BatchPlace{.axis = 0} || !samples.present()) c.fail("it is not drawn by samples");
                if (c.split(0) && c.place(0) != samples) c.fail("its operand 0 is not split by samples");
                if (!c.split(0)) c.need(0, samples);
                c.set(0, samples);
              },
          .differentiate =
              [](GradientContext& g) {
                std::vector<ValueId> inputs{g.dy()};
                for (int i = 1; i < g.inputs(); ++i) inputs.push_back(g.x(i));
                g.set_dx(g.emit("DropoutTraining", std::move(inputs), g.attributes()));
              },
          .precision = PrecisionRole::follows,
          .operands = {{"x"}, {"random", OperandRole::index}, {"samples", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
