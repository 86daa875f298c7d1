// Repetition: Expand along axes of size 1, Tile along any.
#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

void follow_expand(FollowContext& c) {
  BatchPlace place = c.place();
  place.axis += c.y().rank() - c.x().rank();
  if (c.y()[place.axis] != c.x()[c.place().axis]) c.fail("it repeats axis ", c.place().axis, " of ", c.x(), ", which holds the samples");
  c.set(0, place);
}

void follow_tile(FollowContext& c) {
  BatchPlace place = c.place();
  place.outer *= c.attributes().ints("repeats")[at(place.axis)];
  c.set(0, place);
}

}  // namespace

// y = x broadcast against `shape`; dx = dy summed over what was repeated
Operator expand() {
  return {.name = "Expand",
          .since = {8, 13}, .inputs = {2, 2}, .types = {{"T", types::all}, {"I", types::integers_64}},
          .infer =
              [](InferContext& c) {
                if (!c.attributes().has("shape")) c.fail("shape must be known when the plan is made");
                const Shape wanted(static_ints(c.attributes(), "shape"));
                for (const std::int64_t d : wanted)
                  if (d < 0) c.fail("shape is ", wanted);
                Shape y;
                try {
                  y = broadcast(c.shape(0), wanted);
                } catch (const Error& e) {
                  c.fail(e.what());
                }
                c.node().attributes.set("shape", y.dims);
                c.set_output(0, c.input(0).dtype, std::move(y));
              },
          .follow = follow_expand,
          .linear = Linear::sum,
          .differentiate = [](GradientContext& g) { g.set_dx(g.sum_to(g.dy(), g.shape(g.x()))); },
          .fold = [](const FoldContext& c) -> Folded {
            const Shape &x = c.inputs[0].shape(), &y = c.outputs[0].shape;
            const Ints own = row_major_strides(x);
            Ints strides(at(y.rank()), 0);
            for (int i = 0; i < x.rank(); ++i)
              if (x[i] != 1) strides[at(i + y.rank() - x.rank())] = own[at(i)];
            return std::vector{strided_copy(c.inputs[0], y, 0, strides)};
          },
          .static_operands = {{1, "shape"}},
          .precision = PrecisionRole::follows,
          .operands = {{"input", OperandRole::view}, {"shape", OperandRole::index}}};
}

// y = x repeats[i] times along axis i; dx = dy seen as [repeats[0], d0, repeats[1], d1, ...], summed over the repeats
Operator tile() {
  return {.name = "Tile",
          .since = {1, 6, 13}, .inputs = {2, 2}, .types = {{"T", types::all}, {"T1", types::integers_64}},
          .infer =
              [](InferContext& c) {
                if (!c.attributes().has("repeats")) c.fail("repeats must be known when the plan is made");
                const Ints repeats = static_ints(c.attributes(), "repeats");
                Shape y = c.shape(0);
                if (static_cast<int>(repeats.size()) != y.rank()) c.fail("repeats has ", repeats.size(), " entries, expected ", y.rank());
                for (int i = 0; i < y.rank(); ++i)
                  if (repeats[at(i)] < 0 || __builtin_mul_overflow(y[i], repeats[at(i)], &y[i])) c.fail("repeats holds ", repeats[at(i)]);
                c.node().attributes.set("repeats", repeats);
                c.set_output(0, c.input(0).dtype, std::move(y));
              },
          .follow = follow_tile,
          .differentiate =
              [](GradientContext& g) {
                const Shape x = g.shape(g.x());
                Shape interleaved;
                Ints axes;
                for (int i = 0; i < x.rank(); ++i) {
                  const std::int64_t n = g.attributes().ints("repeats")[at(i)];
                  if (n != 1) {
                    axes.push_back(interleaved.rank());
                    interleaved.dims.push_back(n);
                  }
                  interleaved.dims.push_back(x[i]);
                }
                if (axes.empty()) return g.set_dx(g.dy());
                g.set_dx(g.reduce_sum(g.reshape(g.dy(), interleaved), axes, false));
              },
          .fold = [](const FoldContext& c) -> Folded {
            const Shape& x = c.inputs[0].shape();
            const Ints own = row_major_strides(x);
            Shape interleaved;
            Ints strides;
            for (int i = 0; i < x.rank(); ++i) {
              interleaved.dims.insert(interleaved.dims.end(), {c.node.attributes.ints("repeats")[at(i)], x[i]});
              strides.insert(strides.end(), {0, own[at(i)]});
            }
            return std::vector{strided_copy(c.inputs[0], interleaved, 0, strides).reshaped(c.outputs[0].shape)};
          },
          .static_operands = {{1, "repeats"}},
          .precision = PrecisionRole::follows,
          .operands = {{"input", OperandRole::view}, {"repeats", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
