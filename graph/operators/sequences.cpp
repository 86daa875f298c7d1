// Composites that index along one axis by numbers of each sample: ReverseSequence, TensorScatter, and MaxUnpool.
#include "graph/operators/rules.h"
#include "graph/operators/window.h"

namespace tandem::operator_rows {
namespace {

// 0, 1, ... along one of `rank` axes.
ValueId count_along(ExpandContext& e, std::int64_t length, int axis, int rank) {
  Shape shape(Ints(at(rank), 1));
  shape[axis] = length;
  Tensor places = bounded_tensor({DType::int64, shape});
  for (std::int64_t i = 0; i < length; ++i) places.write<std::int64_t>()[static_cast<std::size_t>(i)] = i;
  return e.graph().add_constant(e.node().name + "/places", std::move(places));
}

// Operands hold the samples at `place`, or have them repeated there; axes[i] is that of operand i (-1: it must hold none).
void follow_at(FollowContext& c, const BatchPlace& place, std::initializer_list<int> axes) {
  int i = 0;
  for (const int axis : axes) {
    if (c.has_input(i)) {
      const BatchPlace own{.axis = axis, .outer = place.outer};
      if (c.place(i).present() && (axis < 0 || c.place(i) != own))
        c.fail("its operands hold the samples at different places: samples would meet");
      if (!c.place(i).present() && axis >= 0) c.repeat(i, axis, place.outer);
    }
    ++i;
  }
  c.set(0, place);
}

void infer_reverse_sequence(InferContext& c) {
  Attributes& a = c.node().attributes;
  const std::int64_t batch = a.integer("batch_axis", 1), time = a.integer("time_axis", 0);
  if (c.shape(0).rank() < 2) c.fail("input 0 is ", c.input(0), ", expected rank 2 at least");
  if (batch + time != 1 || batch * time != 0) c.fail("batch_axis is ", batch, " and time_axis ", time, ", expected 0 and 1 or 1 and 0");
  expect_shape(c, 1, Shape{c.shape(0)[static_cast<int>(batch)]});
  a.set("batch_axis", batch);
  a.set("time_axis", time);
  infer_same(c);
}

void infer_tensor_scatter(InferContext& c) {
  Attributes& a = c.node().attributes;
  const Shape &cache = c.shape(0), &update = c.shape(1);
  const int axis = axis_of(c, a.integer("axis", -2), cache.rank());
  const std::string mode = a.text("mode", "linear");
  if (axis == 0) c.fail("axis is 0, that of the batch");
  if (mode != "linear" && mode != "circular") c.fail("mode is '", mode, "', expected linear or circular");
  expect_rank(c, 1, cache.rank());
  if (with_dim(update, axis, cache[axis]) != cache || update[axis] > cache[axis])
    c.fail("update ", update, " does not fit into ", cache, " along axis ", axis);
  if (c.has_input(2)) expect_shape(c, 2, Shape{cache[0]});
  a.set("axis", std::int64_t{axis});
  a.set("mode", mode);
  infer_same(c);
}

void infer_max_unpool(InferContext& c) {
  Attributes& a = c.node().attributes;
  const Shape& x = c.shape(0);
  const int spatial = x.rank() - 2;
  const Ints kernel = a.ints("kernel_shape"), strides = a.ints("strides", Ints(at(std::max(spatial, 0)), 1)),
             pads = a.ints("pads", Ints(at(std::max(2 * spatial, 0)), 0));
  if (spatial < 1 || static_cast<int>(kernel.size()) != spatial || static_cast<int>(strides.size()) != spatial ||
      static_cast<int>(pads.size()) != 2 * spatial)
    c.fail("kernel_shape, strides and pads have ", kernel.size(), ", ", strides.size(), " and ", pads.size(), " entries for input 0 ",
           c.input(0));
  expect_shape(c, 1, x);
  expect_dtype(c, 1, DType::int64);
  Shape pooled = x;
  for (int i = 0; i < spatial; ++i) {
    constexpr std::int64_t most = std::int64_t{1} << 30;
    const std::int64_t k = kernel[at(i)], s = strides[at(i)], before = pads[at(i)], behind = pads[at(i + spatial)];
    if (x[i + 2] > most || k < 1 || k > most || s < 1 || s > most || before < 0 || before > most || behind < 0 || behind > most)
      c.fail("kernel_shape, strides and pads are ", Shape(kernel), ", ", Shape(strides), " and ", Shape(pads));
    pooled[i + 2] = (x[i + 2] - 1) * s + k - before - behind;
    if (pooled[i + 2] < 0) c.fail("pads ", Shape(pads), " leave nothing along axis ", i + 2);
  }
  if (c.has_input(2)) c.fail("output_shape must be known when the plan is made");
  Shape y = pooled;
  if (a.has("output_shape")) {
    y = Shape(static_ints(a, "output_shape"));
    if (y.rank() != x.rank()) c.fail("output_shape is ", y, ", expected rank ", x.rank());
    y[0] = x[0];  // as many samples as there are
    for (int i = 1; i < y.rank(); ++i)
      if (y[i] < pooled[i]) c.fail("output_shape ", y, " is smaller than what was pooled, ", pooled);
  }
  a.set("pooled", pooled.dims);
  a.set("output_shape", y.dims);
  c.set_output(0, c.input(0).dtype, std::move(y));
}

}  // namespace

// y[t, b] = x[n_b − 1 − t, b] for t < n_b, else x[t, b]
Operator reverse_sequence() {
  return {.name = "ReverseSequence",
          .since = {10}, .inputs = {2, 2}, .types = {{"T", types::all}, {"I", types::integers_64}},
          .infer = infer_reverse_sequence,
          .follow =
              [](FollowContext& c) {
                const int batch = static_cast<int>(c.attributes().integer("batch_axis"));
                const BatchPlace place = c.place(0).present() ? c.place(0) : BatchPlace{.axis = batch, .outer = c.place(1).outer};
                if (place.axis == static_cast<int>(c.attributes().integer("time_axis")))
                  c.fail("it reverses axis ", place.axis, " of ", c.x(), ", which holds the samples");
                follow_at(c, place, {place.axis, place.axis == batch ? 0 : -1});
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const bool turned = e.attributes().integer("batch_axis") == 1;
            Ints perm = all_axes(e.shape(e.x()).rank());
            std::swap(perm[0], perm[1]);
            const ValueId x = turned ? e.transpose(e.x(), perm) : e.x();
            const std::int64_t batch = e.shape(x)[0], length = e.shape(x)[1];
            const ValueId lengths = e.reshape(e.x(1), Shape{batch, 1}), t = count_along(e, length, 1, 2);
            const ValueId from = e.emit("Where", {e.emit("Less", {t, lengths}), e.sub(e.add(lengths, -1), t), t});
            const ValueId y = e.emit("GatherND", {x, e.reshape(from, Shape{batch, length, 1})}, {{"batch_dims", std::int64_t{1}}});
            return {turned ? e.transpose(y, perm) : y};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"input", OperandRole::view}, {"sequence_lens", OperandRole::index}}};
}

// y = past_cache, but y[b, ..., w_b + t, ...] = update[b, ..., t, ...] along axis; circular: modulo its length
Operator tensor_scatter() {
  return {.name = "TensorScatter",
          .since = {24}, .inputs = {2, 3}, .types = {{"T", types::all}, {"T", types::all}, {"I", types::integers_64}},
          .infer = infer_tensor_scatter,
          .follow =
              [](FollowContext& c) {
                BatchPlace place = c.place(0).present() ? c.place(0) : c.place(1);
                if (!place.present()) place = c.place(2);
                if (place.axis == static_cast<int>(c.attributes().integer("axis")))
                  c.fail("it writes along axis ", place.axis, " of ", c.x(), ", which holds the samples");
                follow_at(c, place, {place.axis, place.axis, place.axis == 0 ? 0 : -1});
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const Shape cache = e.shape(e.x(0)), update = e.shape(e.x(1));
            const int axis = static_cast<int>(e.attributes().integer("axis"));
            ValueId to = count_along(e, update[axis], axis, cache.rank());
            if (e.has_x(2)) to = e.add(e.reshape(e.x(2), with_dim(Shape(Ints(at(cache.rank()), 1)), 0, cache[0])), to);
            if (e.attributes().text("mode") == "circular")
              to = e.emit("Mod", {to, e.scalar(static_cast<double>(cache[axis]), DType::int64)});
            return {e.emit("ScatterElements", {e.x(0), e.broadcast_to(to, update), e.x(1)}, {{"axis", std::int64_t{axis}}})};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"past_cache", OperandRole::view}, {"update", OperandRole::view}, {"write_indices", OperandRole::index}}};
}

// y[I[i]] = x[i], zeros elsewhere; I numbers the elements of what was pooled, over the whole batch. What belongs to a sample is put
// within it, so that it is the same for any batch
Operator max_unpool() {
  return {.name = "MaxUnpool",
          .since = {9, 11, 22}, .inputs = {2, 3}, .types = {{"T1", types::floats}, {"T2", types::integers_64}},
          .infer = infer_max_unpool,
          .follow =
              [](FollowContext& c) {
                const BatchPlace place = c.place(0).present() ? c.place(0) : c.place(1);
                if (place.axis != 0) c.fail("the samples lie along axis ", place.axis, ", which it works on as a whole");
                follow_at(c, place, {0, 0});
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const TensorType x = e.type(e.x());
            const Shape pooled(e.attributes().ints("pooled")), y = with_dim(Shape(e.attributes().ints("output_shape")), 0, x.shape[0]);
            const std::int64_t samples = x.shape[0], from = product(x.shape, 1, x.shape.rank()), to = product(pooled, 1, pooled.rank());
            const ValueId zeros = e.broadcast_to(e.scalar(0, x.dtype), Shape{samples, to});
            const ValueId within =
                e.emit("Mod", {e.reshape(e.x(1), Shape{samples, from}), e.scalar(static_cast<double>(to), DType::int64)});
            ValueId out = e.emit("ScatterElements", {zeros, within, e.reshape(e.x(), Shape{samples, from})}, {{"axis", std::int64_t{1}}});
            out = e.reshape(out, with_dim(pooled, 0, samples));
            Ints pads(at(2 * y.rank()), 0);
            for (int i = 1; i < y.rank(); ++i) pads[at(y.rank() + i)] = y[i] - pooled[i];
            if (y == e.shape(out)) return {out};
            return {e.emit("Pad", {out}, {{"pads", pads}, {"mode", std::string("constant")}, {"value", 0.0F}})};
          },
          .static_operands = {{2, "output_shape"}},
          .precision = PrecisionRole::parts,
          .operands = {{"X", OperandRole::view}, {"I", OperandRole::index}, {"output_shape", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
