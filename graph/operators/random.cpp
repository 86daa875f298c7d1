// Random numbers: one operator draws them, uniformly, counted by sample; ONNX's are composed of it. A sample's numbers depend on the
// seed, the step, the node's stream and the sample's row of the global batch alone, so that N devices draw what one does.
#include "graph/operators/random.h"

#include <algorithm>
#include <bit>

#include "base/hash.h"

namespace tandem {

std::int64_t random_stream(ExpandContext& e, std::string_view part) {
  auto layer = static_cast<std::int64_t>(hash_of(concat(e.node().name, part)) & 0x7fffffff);
  const auto taken = [&] {
    for (const Node& n : e.graph().nodes)
      if ((n.op->name == "DropoutTraining" || n.op->name == "RandomNumbers") && n.attributes.integer("layer") == layer) return true;
    return false;
  };
  while (taken()) layer = (layer + 1) & 0x7fffffff;
  return layer;
}

ValueId random_state(ExpandContext& e) { return e.input("tandem.random", {DType::int64, Shape{4}}, ValueRole::step_state, step_random); }

namespace {

// Where the node's output holds the samples: as the importer found (the pass that expands says it), else as operand 0 does.
BatchPlace place_of_samples(ExpandContext& e) {
  if (const Ints place = e.attributes().ints("samples", {}); place.size() == 2)
    return {.axis = static_cast<int>(place[0]), .outer = place[1]};
  if (!e.has_x(0)) return {};
  const Value& x = e.graph()[e.x()];
  if (x.batch.present()) return x.batch;
  return x.depends_on_batch && x.type.shape.rank() > 0 ? BatchPlace{.axis = 0} : BatchPlace{};
}

// An input of the model that holds the samples, along axis 0.
ValueId holder_of_samples(const Graph& graph) {
  for (const ValueId in : graph.inputs)
    if (const Value& v = graph[in]; v.role == ValueRole::plain && (v.batch.present() || v.depends_on_batch) && v.type.shape.rank() > 0)
      return in;
  return {};
}

}  // namespace

void count_by_sample(ExpandContext& e, const Shape& drawn, Attributes& attributes, std::vector<ValueId>& inputs) {
  const BatchPlace samples = place_of_samples(e);
  if (!samples.present()) return;
  // How many of its rows belong to one sample is told by a value that holds these along axis 0.
  const ValueId holder = holder_of_samples(e.graph());
  const std::int64_t rows = drawn[samples.axis] / samples.outer, batch = holder.present() ? e.shape(holder)[0] : rows;
  attributes.set("axis", std::int64_t{samples.axis});
  attributes.set("outer", samples.outer);
  attributes.set("inner", batch > 0 && rows % batch == 0 ? std::max<std::int64_t>(1, rows / batch) : std::int64_t{1});
  if (holder.present()) inputs.push_back(holder);
}

void check_samples(InferContext& c, const Shape& drawn) {
  const std::int64_t axis = c.attributes().integer("axis", -1), outer = c.attributes().integer("outer", 1),
                     inner = c.attributes().integer("inner", 1);
  if (axis >= drawn.rank() || (axis >= 0 && (outer < 1 || inner < 1 || drawn[static_cast<int>(axis)] % (outer * inner) != 0)))
    c.fail("axis is ", axis, ", outer ", outer, " and inner ", inner, " of ", drawn);
}

BatchPlace samples_of(const Attributes& attributes) {
  return {.axis = static_cast<int>(attributes.integer("axis", -1)), .outer = attributes.integer("outer", 1)};
}

namespace operator_rows {
namespace {

constexpr double two_pi = 6.283185307179586;

// Uniform in (0, 1), of float32 or float64. Nodes with the attribute `seed` draw the same in every run, and as others of that seed.
ValueId uniform(ExpandContext& e, const Shape& shape, DType dtype, std::string_view part) {
  Attributes attributes{{"shape", shape.dims}, {"dtype", static_cast<std::int64_t>(dtype)}};
  if (e.attributes().has("seed")) {
    attributes.set("seed", static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(e.attributes().real("seed"))));
    attributes.set("layer", static_cast<std::int64_t>(hash_of(part) & 0x7fffffff));
  } else {
    attributes.set("layer", random_stream(e, part));
  }
  std::vector<ValueId> inputs{random_state(e)};
  count_by_sample(e, shape, attributes, inputs);
  return e.emit("RandomNumbers", std::move(inputs), std::move(attributes));
}

// What is computed in, and the type of what is given.
DType wide(DType t) { return t == DType::float64 ? t : DType::float32; }
ValueId as(ExpandContext& e, ValueId v, DType to) { return e.type(v).dtype == to ? v : cast(e, v, to); }
DType given(const Attributes& attributes, DType absent) {
  return static_cast<DType>(attributes.integer("dtype", static_cast<std::int64_t>(absent)));
}

TensorType drawn_type(ExpandContext& e) {
  if (!e.has_x(0)) return {given(e.attributes(), DType::float32), Shape(e.attributes().ints("shape"))};
  return {given(e.attributes(), e.type(e.x()).dtype), e.shape(e.x())};
}

// mean + scale · √(−2 log u) · cos(2π v) (Box and Muller, "A note on the generation of random normal deviates", 1958)
std::vector<ValueId> normal(ExpandContext& e) {
  const TensorType y = drawn_type(e);
  const DType real = wide(y.dtype);
  const ValueId radius = e.emit("Sqrt", {e.mul(e.emit("Log", {uniform(e, y.shape, real, "/radius")}), -2.0)});
  const ValueId turn = e.emit("Cos", {e.mul(uniform(e, y.shape, real, "/angle"), two_pi)});
  const double mean = e.attributes().real("mean", 0.0F), scale = e.attributes().real("scale", 1.0F);
  ValueId v = e.mul(radius, turn);
  if (scale != 1) v = e.mul(v, scale);
  if (mean != 0) v = e.add(v, mean);
  return {as(e, v, y.dtype)};
}

// low + (high − low) · u
std::vector<ValueId> between(ExpandContext& e) {
  const TensorType y = drawn_type(e);
  const double low = e.attributes().real("low", 0.0F), high = e.attributes().real("high", 1.0F);
  ValueId v = uniform(e, y.shape, wide(y.dtype), {});
  if (high - low != 1) v = e.mul(v, high - low);
  if (low != 0) v = e.add(v, low);
  return {as(e, v, y.dtype)};
}

void infer_drawn(InferContext& c, Shape shape, DType absent) {
  const DType dtype = given(c.attributes(), absent);
  if (!is_float(dtype)) c.fail("dtype is ", dtype, ", expected a floating-point type");
  c.set_output(0, dtype, std::move(shape));
}
void infer_source(InferContext& c) {
  if (!c.attributes().has("shape")) c.fail("the attribute shape is missing");
  for (const std::int64_t d : c.attributes().ints("shape"))
    if (d < 0) c.fail("shape holds ", d);
  infer_drawn(c, Shape(c.attributes().ints("shape")), DType::float32);
}
void infer_like(InferContext& c) { infer_drawn(c, c.shape(0), c.input(0).dtype); }

Operator source(std::string_view name, std::vector<ValueId> (*expand)(ExpandContext&)) {
  return {.name = name,
          .since = {1, 22},
          .inputs = {0, 0},
          .infer = infer_source,
          .expand = expand,
          .type_attribute = "dtype",
          .precision = PrecisionRole::parts};
}
Operator like(std::string_view name, std::vector<ValueId> (*expand)(ExpandContext&)) {
  return {.name = name,
          .since = {1, 22}, .types = {{"T1", types::all}},
          .infer = infer_like,
          .follow = follow_broadcast,
          .differentiate = zero_gradient,
          .expand = expand,
          .type_attribute = "dtype",
          .precision = PrecisionRole::parts,
          .operands = {{"input", OperandRole::index}}};
}

}  // namespace

Operator random_normal() { return source("RandomNormal", normal); }
Operator random_normal_like() { return like("RandomNormalLike", normal); }
Operator random_uniform() { return source("RandomUniform", between); }
Operator random_uniform_like() { return like("RandomUniformLike", between); }

// u < x
Operator bernoulli() {
  return {.name = "Bernoulli",
          .since = {15, 22}, .types = {{"T1", types::floats}},
          .infer =
              [](InferContext& c) {
                const DType dtype = given(c.attributes(), c.input(0).dtype);
                if (size_of(dtype) == 0) c.fail("dtype is ", c.attributes().integer("dtype"), ", a type that is not supported");
                c.set_output(0, dtype, c.shape(0));
              },
          .follow = follow_broadcast,
          .differentiate = zero_gradient,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const TensorType x = e.type(e.x());
            const ValueId u = uniform(e, x.shape, wide(x.dtype), {});
            return {as(e, e.emit("Less", {u, as(e, e.x(), wide(x.dtype))}), given(e.attributes(), x.dtype))};
          },
          .type_attribute = "dtype",
          .precision = PrecisionRole::parts,
          .operands = {{"input"}}};
}

// argmax(x + g) over the classes with g = −log(−log u), sample_size times for each row of unnormalized log-probabilities
// (Gumbel's; see Maddison, Tarlow, Minka, "A* sampling", 2014).
Operator multinomial() {
  return {.name = "Multinomial",
          .since = {7, 22}, .types = {{"T1", types::floats}},
          .infer =
              [](InferContext& c) {
                const DType dtype = given(c.attributes(), DType::int32);
                const std::int64_t samples = c.attributes().integer("sample_size", 1);
                expect_rank(c, 0, 2);
                if (dtype != DType::int32 && dtype != DType::int64) c.fail("dtype is ", dtype, ", expected int32 or int64");
                if (samples < 1) c.fail("sample_size is ", samples, ", expected at least 1");
                if (c.shape(0)[1] == 0) c.fail("input 0 is ", c.input(0), ", which has no classes");
                c.set_output(0, dtype, Shape{c.shape(0)[0], samples});
              },
          .follow = follow_rows,
          .differentiate = zero_gradient,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const TensorType x = e.type(e.x());
            const std::int64_t rows = x.shape[0], classes = x.shape[1];
            const ValueId u = uniform(e, Shape{rows, e.attributes().integer("sample_size", 1), classes}, wide(x.dtype), {});
            const ValueId gumbel = e.neg(e.emit("Log", {e.neg(e.emit("Log", {u}))}));
            const ValueId scores = e.add(e.reshape(as(e, e.x(), wide(x.dtype)), Shape{rows, 1, classes}), gumbel);
            const ValueId drawn = e.emit(
                "ArgMax", {scores}, {{"axis", std::int64_t{2}}, {"keepdims", std::int64_t{0}}, {"select_last_index", std::int64_t{0}}});
            return {as(e, drawn, given(e.attributes(), DType::int32))};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"input"}}};
}

// Uniform in (0, 1); operand 1 holds the samples along axis 0. Dimension `axis` is outer · samples · inner; without that attribute there
// are no samples, and all devices draw the same.
Operator random_numbers() {
  return {.name = "RandomNumbers",
          .domain = "tandem",
          .since = {1},
          .inputs = {1, 2},
          .infer =
              [](InferContext& c) {
                const Shape shape(c.attributes().ints("shape"));
                const auto dtype = static_cast<DType>(c.attributes().integer("dtype"));
                expect_shape(c, 0, Shape{4});
                expect_dtype(c, 0, DType::int64);
                for (const std::int64_t d : shape)
                  if (d < 0) c.fail("shape holds ", d);
                if (dtype != DType::float32 && dtype != DType::float64) c.fail("dtype is ", dtype, ", expected float32 or float64");
                check_samples(c, shape);
                c.set_output(0, dtype, shape);
              },
          .place =
              [](PlaceContext& c) {
                const BatchPlace samples = samples_of(c.attributes());
                if (c.place(1) != BatchPlace{.axis = 0} || !samples.present()) c.fail("it is not drawn by samples");
                c.set(0, samples);
              },
          .differentiate = zero_gradient,
          .precision = PrecisionRole::wide,
          .operands = {{"random", OperandRole::index}, {"samples", OperandRole::index}}};
}

}  // namespace operator_rows
}  // namespace tandem
