// Local response normalization across channels, for training in a form that keeps what its gradient needs.
#include "graph/operators/gradient_rules.h"
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

void check(const InferContext& c) {
  if (c.shape(0).rank() < 2) c.fail("input 0 is ", c.input(0), ", expected [N,C,...]");
  if (c.attributes().integer("size") < 1) c.fail("size is ", c.attributes().integer("size"), ", expected at least 1");
}

void set_defaults(InferContext& c) {
  Attributes& a = c.node().attributes;
  a.set("alpha", a.real("alpha", 1e-4F));
  a.set("beta", a.real("beta", 0.75F));
  a.set("bias", a.real("bias", 1.0F));
}

double lrn_flops(const Graph& graph, const Node& n) {
  return static_cast<double>(n.attributes.integer("size") + 2) * static_cast<double>(graph[n.inputs[0]].type.shape.elements());
}

}  // namespace

// y[n,c] = x[n,c] / (bias + alpha/size · Σ x²)^beta, summed over channels c − ⌊(size−1)/2⌋ … c + ⌈(size−1)/2⌉
Operator lrn() {
  return {.name = "LRN",
          .since = {1, 13}, .types = {{"T", types::floats}},
          .infer =
              [](InferContext& c) {
                check(c);
                set_defaults(c);
                infer_same(c);
              },
          .follow = follow_rows,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            if (!e.training) return {};
            return {e.emit("LRNTraining", {e.x()}, e.attributes(), 2)[0]};
          },
          .flops = lrn_flops,
          .precision = PrecisionRole::follows, .operands = {{"X"}}};
}

Operator lrn_training() {
  return {.name = "LRNTraining",
          .domain = "tandem",
          .since = {1},
          .outputs = {2, 2},
          .infer =
              [](InferContext& c) {
                check(c);
                set_defaults(c);
                infer_same(c);
                c.set_opaque_output(1);
              },
          .place = place_rows,
          .differentiate = [](GradientContext& g) { g.set_dx(g.emit("LRNBackward", {g.x(), g.y(0), g.dy(), g.y(1)}, g.attributes())); },
          .flops = lrn_flops,
          .precision = PrecisionRole::follows};
}

Operator lrn_backward() {
  return {.name = "LRNBackward", .domain = "tandem", .since = {1}, .inputs = {4, 4}, .infer = [](InferContext& c) {
            check(c);
            expect_same(c, 1, 3);
            infer_same(c);
          }, .place = place_rows, .flops = lrn_flops};
}

}  // namespace tandem::operator_rows
