// BatchNormalization in its two forms. A model's file has the one for inference, which divides by running statistics. While it
// trains it is rewritten into BatchNormalizationTraining, which takes the batch's own, and a RunningStatistics node for each of the
// two that are kept.
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

std::int64_t channels_of(const InferContext& c) {
  const Shape& x = c.shape(0);
  return x.rank() > 1 ? x[1] : 1;
}

Attributes epsilon_of(const Attributes& attributes) { return {{"epsilon", attributes.real("epsilon", 1e-5F)}}; }

void infer_inference(InferContext& c) {
  const std::int64_t channels = channels_of(c);
  for (int i = 1; i < 5; ++i) expect_shape(c, i, Shape{channels});
  c.set_output(0, c.input(0));
  for (int i = 1; i < 3; ++i) c.set_output(i, c.input(3).dtype, Shape{channels});
}

// Statistics of the batch in place of the running ones: while training, unless it is frozen, and where the node asks for it.
std::vector<ValueId> expand_training(ExpandContext& e) {
  if (e.attributes().has("frozen")) return {};
  const bool training_mode = e.attributes().integer("training_mode", 0) != 0;
  if (!e.training && !training_mode) return {};
  const float momentum = e.attributes().real("momentum", 0.9F);
  const DType dtype = e.type(e.x(0)).dtype;
  const std::vector<ValueId> y =
      e.emit("BatchNormalizationTraining", {e.x(0), cast(e, e.x(1), dtype), cast(e, e.x(2), dtype)}, epsilon_of(e.attributes()), 4);
  std::vector<ValueId> results{y[0]};
  const std::vector<ValueId>& outputs = e.node().outputs;
  for (int i = 1; i < 3; ++i) {
    const ValueId running = e.x(i + 2), value = cast(e, y[at(i)], e.type(e.x(i + 2)).dtype);
    Attributes how{{"momentum", momentum}};
    if (i == 2 && e.attributes().has("unbiased"))
      how.set("counts", Ints{e.shape(e.x(0)).elements() / std::max<std::int64_t>(1, e.shape(running).elements())});
    if (e.training && e.graph()[running].kind == ValueKind::parameter) e.emit("RunningStatistics", {running, value}, std::move(how));
    if (static_cast<int>(outputs.size()) <= i) continue;
    results.push_back(outputs[at(i)].present() ? e.add(e.mul(running, momentum), e.mul(value, 1.0 - static_cast<double>(momentum)))
                                               : ValueId{});
  }
  return results;
}

// With r = 1/√(var + ε): dx = dy · scale · r, dscale = Σ dy · (x − mean) · r, dbias = Σ dy. The statistics are constants.
void differentiate_inference(GradientContext& g) {
  const int rank = g.shape(g.x()).rank();
  const DType dtype = g.type(g.x()).dtype;
  const ValueId r = g.emit("Reciprocal", {g.emit("Sqrt", {g.add(g.x(4), g.attributes().real("epsilon", 1e-5F))})});
  const auto spread = [&](ValueId v) { return cast(g, per_channel(g, v, rank), dtype); };
  if (g.wants(0)) g.set_dx(0, g.mul(g.dy(), spread(g.mul(g.x(1), r))));
  Ints axes = all_axes(rank);
  if (rank > 1) axes.erase(axes.begin() + 1);
  const auto per_channel_sum = [&](ValueId v) {
    return g.reshape(g.reduce_sum(cast(g, v, g.type(g.x(1)).dtype), axes, false), g.shape(g.x(1)));
  };
  if (g.wants(1)) {
    const ValueId normal = g.mul(g.sub(g.x(0), spread(g.x(3))), spread(r));
    g.set_dx(1, per_channel_sum(g.mul(g.dy(), normal)));
  }
  if (g.wants(2)) g.set_dx(2, per_channel_sum(g.dy()));
}

// The kernel gives what flows through y; with Relu also what flows to the addend, dy where y > 0. What flows through the
// statistics as outputs of their own is added: dmean / n everywhere, and dvariance · 2 (x − mean) / n.
void differentiate_training(GradientContext& g) {
  const Shape x = g.shape(g.x());
  ValueId dx;
  const auto add = [&](ValueId v) { dx = dx.present() ? g.add(dx, v) : v; };
  if (g.has_dy(0)) {
    std::vector<ValueId> inputs{g.x(0), g.dy(0), g.x(1), g.x(2), g.y(1), g.y(2), g.y(3)};
    const bool masked = g.has_x(3) && g.attributes().has("activation");
    if (masked) inputs.push_back(g.y(0));
    const std::vector<ValueId> d = g.emit("BatchNormalizationBackward", std::move(inputs), g.attributes(), masked && g.wants(3) ? 4 : 3);
    dx = d[0];
    g.set_dx(1, d[1]);
    g.set_dx(2, d[2]);
    if (g.wants(3)) g.set_dx(3, masked ? d[3] : g.dy(0));
  }
  const double n = static_cast<double>(x.elements()) / static_cast<double>(std::max<std::int64_t>(1, g.shape(g.y(1)).elements()));
  const auto spread = [&](ValueId v) { return cast(g, per_channel(g, v, x.rank()), g.type(g.x()).dtype); };
  if (g.has_dy(1)) add(g.broadcast_to(spread(g.mul(g.dy(1), 1 / n)), x));
  if (g.has_dy(2)) add(g.mul(g.sub(g.x(0), spread(g.y(1))), spread(g.mul(g.dy(2), 2 / n))));
  if (dx.present()) g.set_dx(0, dx);
}

// By channel: while it trains its statistics are those of all samples, which is its purpose.
void follow_channels(FollowContext& c) {
  only_operand(c, 0);
  if (c.place().axis == 1) c.fail("axis 1 of ", c.x(), ", its channels, holds the samples");
  c.set(0, c.place());
  for (int i = 1; i < c.outputs(); ++i) c.set(i, {.mixed = true});
}

// By channel: what has these along axis 1, the first of them, and what has one number for each lie alike.
bool by_channels(PlaceContext& c, std::initializer_list<int> of_x, std::initializer_list<int> one_each) {
  BatchPlace channels;
  for (const int i : of_x)
    if (c.split(i, 1)) channels = c.place(i);
  for (const int i : one_each)
    if (c.split(i)) channels = {.axis = 1, .outer = c.place(i).outer};
  if (!channels.present()) return false;
  const auto lie = [&](std::initializer_list<int> inputs, int axis) {
    const BatchPlace place{.axis = axis, .outer = channels.outer};
    for (const int i : inputs) {
      if (!c.has_input(i) || c.place(i) == place) continue;
      if (c.split(i)) c.fail("its operands are split at different places");
      c.need(i, place);
    }
    return place;
  };
  const BatchPlace each = lie(one_each, 0), x = lie(of_x, 1);
  for (int i = 0; i < c.outputs(); ++i) c.set(i, c.y(i).rank() > 1 ? x : each);
  return true;
}

// By channel, or each device normalizes by the statistics of its own samples.
void place_normalization(PlaceContext& c) {
  if (by_channels(c, {0, 3}, {1, 2, 4, 5})) return;
  if (!c.split(0, 0) || (c.has_input(3) && c.place(3) != c.place(0))) c.fail("it is not split by samples alone");
  c.set(0, c.place(0));
  for (int i = 1; i < 3; ++i) c.own(i);
}

void place_normalization_backward(PlaceContext& c) {
  if (by_channels(c, {0, 1, 7, 8}, {2, 3, 4, 5})) return;
  if (!c.split(0, 0) || c.place(1) != c.place(0) || (c.has_input(8) && c.place(8) != c.place(0)))
    c.fail("it is not split by samples alone");
  c.set(0, c.place(0));
  for (int i = 1; i < 3; ++i) c.sum(i);
  c.set(3, c.place(0));
}

// By its running statistics: of samples each alone.
void place_inference(PlaceContext& c) {
  if (!by_channels(c, {0}, {1, 2, 3, 4})) follow_channels(c);
}

void place_factors(PlaceContext& c) { by_channels(c, {}, {0, 1, 2, 3}); }

// The statistic and what it follows.
void place_statistic(PlaceContext& c) {
  const BatchPlace place = c.place(c.split(0) ? 0 : 1);
  for (int i = 0; i < 2; ++i) {
    if (c.split(i) && c.place(i) != place) c.fail("its operands are split at different places");
    if (!c.split(i)) c.need(i, place);
  }
  c.set(0, place);
}

// A running statistic moves towards the mean of the devices' own ones. Each device's variance is made unbiased by itself.
void statistic_by_parts(PartsContext& c) {
  const ValueId own = c.node.inputs[1];
  if (c.part(1).spread != Spread::own) return;
  const std::string of = c.graph()[c.node.inputs[0]].name;
  const ValueId mean = c.devices.sum(c.devices.by_share(own, concat("statistics/", of), c.node.attributes.ints("counts", Ints{1})[0]), of);
  c.graph()[mean].role = ValueRole::statistic;
  c.graph()[mean].of = of;
  c.node.inputs[1] = mean;
  if (!c.mesh.one_has_all()) c.node.attributes.erase("counts");
}

}  // namespace

// y = (x − mean) / √(var + ε) · scale + bias by channel, with running statistics
Operator batch_normalization() {
  return {.name = "BatchNormalization",
          .since = {1, 6, 7, 9, 14, 15},
          .inputs = {5, 5},
          .outputs = {1, 5},
          .types = {{"T", types::floats}, {"T1", types::floats}, {"T1", types::floats}, {"T2", types::floats}},
          .infer = infer_inference,
          .follow = follow_channels,
          .place = place_inference,
          .differentiate = differentiate_inference,
          .expand = expand_training,
          .precision = PrecisionRole::follows,
          .operands = {{"X"},
                       {"scale", OperandRole::scale, true},
                       {"B", OperandRole::bias, true},
                       {"input_mean", OperandRole::mean, true},
                       {"input_var", OperandRole::variance, true}}};
}

// The same with the batch's own mean and population variance, which are outputs; then, where there is one, + addend. Where
// Σ x and Σ x² are inputs, too, the statistics come from these.
Operator batch_normalization_training() {
  return {.name = "BatchNormalizationTraining",
          .domain = "tandem",
          .since = {1},
          .inputs = {3, 6},
          .outputs = {4, 4},
          .infer =
              [](InferContext& c) {
                const std::int64_t channels = channels_of(c);
                expect_shape(c, 1, Shape{channels});
                expect_shape(c, 2, Shape{channels});
                if (c.has_input(3)) expect_shape(c, 3, c.shape(0));
                for (int i = 4; i < 6; ++i)
                  if (c.has_input(i)) expect_shape(c, i, Shape{channels});
                c.set_output(0, c.input(0));
                for (int i = 1; i < 3; ++i) c.set_output(i, c.input(i).dtype, Shape{channels});
                c.set_opaque_output(3);
              },
          .place = place_normalization,
          .differentiate = differentiate_training,
          .flops = flops_an_element<5>,
          .precision = PrecisionRole::follows, .undoes_activation = true,
          .operands = {{"X"}, {"scale", OperandRole::scale, true}, {"B", OperandRole::bias, true}, {"addend"}}};
}

// What BatchNormalizationTraining applies, for those who apply it themselves: y = x · factor + shift, of the statistics of
// `count` elements a channel; factor = scale / √(variance + ε), shift = bias − mean · factor, in the type `to` of x
Operator batch_normalization_factors() {
  return {.name = "BatchNormalizationFactors",
          .domain = "tandem",
          .since = {1},
          .inputs = {4, 4},
          .outputs = {5, 5},
          .infer =
              [](InferContext& c) {
                for (int i = 1; i < 4; ++i) expect_shape(c, i, c.shape(0));
                for (int i = 0; i < 2; ++i) c.set_output(i, c.input(0));
                c.set_opaque_output(2);
                for (int i = 3; i < 5; ++i) c.set_output(i, static_cast<DType>(c.attributes().integer("to")), c.shape(0));
              },
          .place = place_factors};
}

// With x̂ = (x − mean) · r and dy the sum of what is given: dbias = Σ dy, dscale = Σ dy · x̂, dx = scale · r · (dy − dbias/n − x̂ ·
// dscale/n)
Operator batch_normalization_backward() {
  return {.name = "BatchNormalizationBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {5, 9},  // the variance may be absent: kernels that keep the deviation read that
          .outputs = {3, 4},
          .infer =
              [](InferContext& c) {
                const std::int64_t channels = channels_of(c);
                c.input(6);  // fails where it is absent
                for (int i = 2; i < 6; ++i)
                  if (c.has_input(i)) expect_shape(c, i, Shape{channels});
                for (const int i : {1, 7, 8})
                  if (c.has_input(i)) {
                    expect_shape(c, i, c.shape(0));
                    expect_dtype(c, i, c.input(0).dtype);
                  }
                c.set_output(0, c.input(0));
                c.set_output(1, c.input(2));
                c.set_output(2, c.input(3));
                if (c.has_output(3)) c.set_output(3, c.input(0));
              },
          .place = place_normalization_backward,
          .flops = flops_an_element<5>};
}

// running' = momentum · running + (1 − momentum) · value, in place; unchanged where the scalars, if given, skip the step. Several of
// them, `tensors`, are as updates are: the scalars first. Where `inverse` is not 0 the value is what the normalization keeps. `counts`: of
// each, n where the value is the population variance of n values and the unbiased one is wanted, times n/(n − 1); 1: it is taken as it is.
Operator running_statistics() {
  return {.name = "RunningStatistics",
          .domain = "tandem",
          .since = {1},
          .inputs = {0, Arity::any},
          .outputs = {1, Arity::any},
          .infer =
              [](InferContext& c) {
                const std::int64_t all = c.attributes().integer("tensors", 1);
                if (c.attributes().has("counts") && std::ssize(c.attributes().ints("counts")) != all)
                  c.fail("has ", c.attributes().ints("counts").size(), " counts for ", all, " tensors");
                if (!c.attributes().has("tensors")) {
                  expect_shape(c, 1, c.shape(0));
                  return infer_same(c);
                }
                const std::int64_t tensors = c.attributes().integer("tensors");
                const Ints inverse = c.attributes().has("inverse") ? c.attributes().ints("inverse") : Ints(at(tensors), 0);
                if (tensors < 1 || c.inputs() != 1 + 2 * tensors || c.outputs() != tensors || std::ssize(inverse) != tensors)
                  c.fail("has ", c.inputs(), " inputs, ", c.outputs(), " outputs and ", inverse.size(), " marks for ", tensors, " tensors");
                for (int t = 0; t < tensors; ++t) {
                  if (c.shape(2 + 2 * t) != c.shape(1 + 2 * t) && inverse[at(t)] == 0) expect_shape(c, 2 + 2 * t, c.shape(1 + 2 * t));
                  c.set_output(t, c.input(1 + 2 * t));
                }
              },
          .place = place_statistic,
          .by_parts = statistic_by_parts,
          .in_place = {0},
          .keeps_statistic = true,
          .precision = PrecisionRole::wide};
}

}  // namespace tandem::operator_rows
