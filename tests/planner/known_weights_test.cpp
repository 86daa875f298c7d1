// Weights that are read from constants at each step, as files hold them in 8 and 4 bits: devices have parts of the constants, and train as
// one does.
#include <gtest/gtest.h>

#include "tests/planner/placed_plans.h"

namespace tandem {
namespace {

using namespace small_models;

constexpr std::int64_t width = 8, inner = 24;

enum class Scales { of_tensor, of_columns, of_rows, of_blocks, of_cut_blocks, of_uneven_blocks };
std::int64_t block_of(Scales scales) {
  return scales == Scales::of_blocks ? 4 : scales == Scales::of_cut_blocks ? 8 : scales == Scales::of_uneven_blocks ? 5 : 0;
}

ValueId quantized(Builder& b, const std::string& name, Shape shape, Scales scales, DType dtype) {
  const Tensor numbers = noise(shape, ++b.seed, 3);
  const int axis = scales == Scales::of_columns ? 1 : 0;
  const std::int64_t block = block_of(scales);
  Shape of_scale;
  if (scales == Scales::of_columns || scales == Scales::of_rows) of_scale = {shape[axis]};
  if (block > 0) of_scale = {(shape[0] + block - 1) / block, shape[1]};
  Tensor scale = noise(of_scale, ++b.seed, 0.02F);
  for (float& s : scale.write<float>()) s = std::abs(s) + 0.05F;
  const Tensor zero = noise(of_scale, ++b.seed, 1);
  return b.node("DequantizeLinear",
                {b.graph.add_constant(name, numbers.cast(dtype)), b.graph.add_constant(name + ".scale", scale),
                 b.graph.add_constant(name + ".zero", zero.cast(dtype))},
                {{"axis", std::int64_t{axis}}, {"block_size", block}});
}

// `turned`: the file has them transposed.
template <Scales scales, bool turned, DType dtype = DType::int8>
Graph layers(std::int64_t n) {
  Builder b;
  b.graph.name = "quantized";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, width}});
  const auto product = [&](ValueId v, const std::string& name, std::int64_t in, std::int64_t out) {
    const ValueId w = quantized(b, name, turned ? Shape{out, in} : Shape{in, out}, scales, dtype);
    return b.node("MatMul", {v, turned ? b.node("Transpose", {w}, {{"perm", Ints{1, 0}}}) : w});
  };
  for (const std::string number : {"1", "2"}) {
    const ValueId h = b.node("Tanh", {product(normal(b, x, "norm" + number), "up" + number, width, inner)});
    x = b.node("Add", {x, product(h, "down" + number, inner, width)});
  }
  b.graph.outputs = {dense(b, normal(b, x, "norm"), "head", width, 5)};
  return b.graph;
}

// Elements of each constant of several, by name, on a device.
std::map<std::string, std::int64_t> constants_of(const Plan& plan, std::size_t device) {
  std::map<std::string, std::int64_t> elements;
  for (const Buffer& b : plan.program_of(device).buffers)
    if (b.constant && b.operand.shape.elements() > 1 && b.name.find('/') == std::string::npos)
      elements[b.name] = b.operand.shape.elements();
  return elements;
}

// What has parts: numbers, and scales and zero points as far as they are split with them.
struct Row {
  const char* name;
  Graph (*model)(std::int64_t);
  bool up = true, up_scales = true, down = true, down_scales = true;
};
void PrintTo(const Row& r, std::ostream* out) { *out << r.name; }

class KnownWeights : public testing::TestWithParam<Row> {
 protected:
  static void expect_parts(const Plan& plan, const Plan& whole) {
    const Row& row = GetParam();
    const auto all = constants_of(whole, 0);
    for (std::size_t d = 0; d < plan.devices.size(); ++d)
      for (const auto& [name, elements] : constants_of(plan, d)) {
        const bool number = name.find('.') == std::string::npos, up = name.starts_with("up");
        const bool halved = up ? (number ? row.up : row.up_scales) : (number ? row.down : row.down_scales);
        EXPECT_EQ(elements, all.at(name) / (halved ? 2 : 1)) << name << " on device " << d;
      }
  }
};

TEST_P(KnownWeights, AreSharedAsParametersAre) {
  const CompileOptions one = options_for(8, {1}), tensor = shared_by(2, "tensor=2"), both = shared_by(4, "data=2,tensor=2");
  const Trained alone = train(GetParam().model, one, 8, 0.05);
  for (const CompileOptions& o : {tensor, both}) {
    const Trained some = train(GetParam().model, o, 8, 0.05);
    expect_trained_alike(some, alone, 1e-5);
    expect_parts(some.plan, alone.plan);
  }
}

TEST_P(KnownWeights, AreSharedByStagesEachByItself) {
  CompileOptions one = options_for(8, {1}), staged = shared_by(4, "tensor=2,pipeline=2");
  staged.parallel.micro_batches = one.parallel.micro_batches = 2;
  const Trained alone = train(GetParam().model, one, 8, 0.05), some = train(GetParam().model, staged, 8, 0.05);
  expect_trained_alike(some, alone, 1e-5);
  expect_parts(some.plan, alone.plan);
}

TEST_P(KnownWeights, AreSharedInFurtherPlans) {
  const Backend* backends[] = {&cpu_backend()};
  const Plan training = plan_of(GetParam().model, shared_by(2, "tensor=2"));
  CompileOptions o = shared_by(2, "tensor=2"), one = options_for(8, {1});
  o.mode = one.mode = PlanMode::inference;
  expect_parts(compile(GetParam().model, o, backends, &training), compile(GetParam().model, one, backends));
}

INSTANTIATE_TEST_SUITE_P(
    Forms, KnownWeights,
    testing::Values(Row{"of_tensor", layers<Scales::of_tensor, false>},
                    Row{"of_columns", layers<Scales::of_columns, false>, true, true, true, false},
                    Row{"of_rows", layers<Scales::of_rows, false>, true, false, true, true},
                    Row{"of_blocks", layers<Scales::of_blocks, false>},
                    Row{"turned", layers<Scales::of_columns, true>, true, false, true, true},
                    Row{"turned_blocks", layers<Scales::of_blocks, true>},
                    Row{"int4", layers<Scales::of_columns, true, DType::int4>, true, false, true, true},
                    Row{"cut_blocks", layers<Scales::of_cut_blocks, false>, true, true, false, false},
                    Row{"uneven_blocks", layers<Scales::of_uneven_blocks, false>, true, true, false, false}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem
