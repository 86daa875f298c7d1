// Low-rank adapters: what they begin with, what trains beside them, and what the exported model is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "importer/message/adapter_file.h"
#include "importer/message/tensor_data.h"
#include "kernels/cpu/backend.h"
#include "planner/compile.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};

std::vector<float> drawn(std::int64_t n, double deviation, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(deviation));
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) v = normal(generator);
  return values;
}

// x [N,16] · first [16,24], relu, · secondᵀ [20,24], relu, · fcᵀ [5,20]
ModelFile base(const WeightOptions& options = {}) {
  test::Model m;
  m.input("x", "N,16")
      .output("y")
      .add(float_tensor("first", {16, 24}, drawn(384, 0.3, 1)))
      .add(float_tensor("second.weight", {20, 24}, drawn(480, 0.3, 2)));
  m.add(float_tensor("second.bias", {20}, drawn(20, 0.1, 3)))
      .add(float_tensor("fc.weight", {5, 20}, drawn(100, 0.3, 4)))
      .add(float_tensor("fc.bias", {5}, drawn(5, 0.1, 5)));
  m.add(node("MatMul", {"x", "first"}, {"a"})).add(node("Relu", {"a"}, {"b"}));
  m.add(node("Gemm", {"b", "second.weight", "second.bias"}, {"c"}, {{"transB", std::int64_t{1}}})).add(node("Relu", {"c"}, {"d"}));
  m.add(node("Gemm", {"d", "fc.weight", "fc.bias"}, {"y"}, {{"transB", std::int64_t{1}}}));
  return ModelFile::parse(m.bytes(), {}, options);
}

WeightOptions adapted(std::int64_t rank = 4, std::vector<std::string> targets = {}) {
  WeightOptions o;
  o.head = 3;
  o.lora = LoraOptions{.rank = rank, .alpha = 8, .targets = std::move(targets)};
  return o;
}

// Three clouds of points.
MemoryDataset clouds(std::int64_t samples, unsigned seed) {
  const std::vector<float> centres = drawn(48, 1, 9), noise = drawn(samples * 16, 0.5, seed);
  Tensor points(TensorType{DType::float32, Shape{samples, 16}}), labels(TensorType{DType::int64, Shape{samples}});
  const auto x = points.write<float>();
  const auto y = labels.write<std::int64_t>();
  for (std::int64_t i = 0; i < samples; ++i) {
    y[static_cast<std::size_t>(i)] = i % 3;
    for (std::int64_t k = 0; k < 16; ++k)
      x[static_cast<std::size_t>(i * 16 + k)] =
          centres[static_cast<std::size_t>(i % 3 * 16 + k)] + noise[static_cast<std::size_t>(i * 16 + k)];
  }
  MemoryDataset data("clouds");
  data.add({.name = "x"}, points);
  data.add({.name = "y", .role = Role::label}, labels);
  return data;
}

ModelOptions training() {
  ModelOptions o;
  o.plan.batch = 20;
  o.plan.devices = parse_devices("cpu");
  o.plan.optimizer.momentum = 0.9;
  return o;
}

std::vector<double> scores(Model& model, const Dataset& data) { return model.predict(data)[0].tensor.to_doubles(); }

void expect_close(const std::vector<double>& got, const std::vector<double>& wanted, double most) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], most) << i;
}

TEST(Lora, BeginsAsTheBaseModel) {
  WeightOptions o = adapted();
  o.head.reset();
  Model with(base(o)), without(base());
  ModelOptions options = training();
  options.plan.mode = PlanMode::inference;
  with.compile(options, backends);
  without.compile({.plan = {.mode = PlanMode::inference, .batch = 20, .devices = parse_devices("cpu")}}, backends);
  const MemoryDataset data = clouds(40, 1);
  expect_close(scores(with, data), scores(without, data), 1e-6);
}

TEST(Lora, TrainsAdaptersAndTheHeadAloneAndIsWrittenMerged) {
  const TemporaryFolder folder;
  Model model(base(adapted()));
  model.compile(training(), backends);
  std::map<std::string, std::vector<double>> before;
  for (const NamedTensor& p : model.parameters()) before[p.name] = p.tensor.to_doubles();
  for (const double b : before.at("first.lora_B")) EXPECT_EQ(b, 0);
  model.fit(clouds(300, 1), {.epochs = 5, .learning_rate = 0.05});
  EXPECT_GT(model.evaluate(clouds(90, 2)).accuracy, 0.9);
  for (const NamedTensor& p : model.parameters())
    EXPECT_EQ(p.tensor.to_doubles() != before.at(p.name), p.name.find(".lora_") != std::string::npos || p.name.starts_with("fc."))
        << p.name;

  model.save(folder / "merged.onnx");
  Model merged = Model::load(folder / "merged.onnx");
  for (const TemplateTensor& t : merged.file().tensors()) EXPECT_EQ(t.name.find("lora"), std::string::npos) << t.name;
  EXPECT_EQ(merged.source().summary().parameters, 16 * 24 + 20 * 24 + 20 + 3 * 20 + 3);
  merged.compile({.plan = {.mode = PlanMode::inference, .batch = 20, .devices = parse_devices("cpu")}}, backends);
  const MemoryDataset data = clouds(60, 3);
  expect_close(scores(merged, data), scores(model, data), 1e-5);
}

TEST(Lora, KeepsStatesForWhatItTrains) {
  const ModelFile file = base(adapted(2, {"sec*"}));
  ASSERT_EQ(file.adapters().size(), 1U);
  const GraphSource source = [&](std::int64_t batch) { return file.graph({.batch = batch}); };
  CompileOptions options = training().plan;
  options.mode = PlanMode::training;
  options.trained.freeze = {"*"};  // what a Model does by itself
  options.trained.unfreeze = {"*lora_?", "fc.*"};
  const Graph graph = training_graph(source, options);
  std::int64_t states = 0;
  for (const Value& v : graph.values)
    if (v.role == ValueRole::optimizer_state) states += v.type.shape.elements();
  EXPECT_EQ(states, 2 * (24 + 20) + 3 * 20 + 3);
}

TEST(Lora, TargetsAreWeightsOrTheirReaders) {
  EXPECT_EQ(base(adapted(4, {"node_a"})).adapters().at(0).weight, "first");
  WeightOptions kept = adapted(4);
  kept.lora->except = {"fir*"};
  ASSERT_EQ(base(kept).adapters().size(), 1U);
  EXPECT_EQ(base(kept).adapters()[0].weight, "second.weight");
}

std::vector<std::string> adapted_weights(const test::Model& m, LoraOptions lora) {
  std::vector<std::string> names;
  const ModelFile file = ModelFile::parse(m.bytes(), {}, {.lora = std::move(lora)});
  for (const LoraAdapter& a : file.adapters()) names.push_back(a.weight);
  return names;
}

// x · W [side, side], its one weight.
test::Model one_product(std::int64_t side) {
  test::Model m;
  m.input("x", "N," + std::to_string(side))
      .output("y")
      .add(float_tensor("w", {side, side}, drawn(side * side, 0.05, 1)))
      .add(node("MatMul", {"x", "w"}, {"y"}));
  return m;
}

std::int64_t planned_bytes(const WeightOptions& weights, PlanMode mode) {
  ModelOptions o = training();
  o.plan.mode = mode;
  o.plan.batch = 4;
  const Plan plan = Model(ModelFile::parse(one_product(768).bytes(), {}, weights)).source().make_plan(o, backends);
  std::int64_t bytes = 0;
  for (const Arena& arena : plan.program_of(0).arenas) bytes += arena.bytes;
  return bytes;
}

TEST(Lora, HoldsTheWeightOnce) {
  const std::int64_t weight = 768 * 768 * 4, with = planned_bytes({.lora = LoraOptions{.rank = 4}}, PlanMode::training);
  EXPECT_LT(with, planned_bytes({}, PlanMode::inference) + weight / 4);  // the adapter, its gradients and states, and some activations
  EXPECT_GT(planned_bytes({}, PlanMode::training), 3 * weight);          // weight, gradient, momentum
}

TEST(Lora, AModelFreezesItsBase) {
  Model model(base(adapted(2, {"first"})));
  Summary summary = model.source().summary();
  EXPECT_EQ(summary.adapters, 1);
  EXPECT_EQ(summary.in_adapters, 2 * (16 + 24));
  EXPECT_EQ(summary.trainable, 2 * (16 + 24) + 3 * 20 + 3);
  EXPECT_EQ(summary.frozen, 16 * 24 + 20 * 24 + 20);
  EXPECT_NE(text_of(summary).find("143 trainable: 80 in 1 adapter, the rest beside them; 884 frozen"), std::string::npos)
      << text_of(summary);
  EXPECT_EQ(model.source().summary({.dims = {}, .freeze = {"*.lora_A"}, .unfreeze = {"second.bias"}}).trainable, 2 * 24 + 3 * 20 + 3 + 20);
  ModelOptions o = training();
  o.init = "he-normal";
  EXPECT_THROW(model.source().check(o, backends), Error);
}

// What each of these is trained to, merged and with the adapter from its file: where the weight lies, and what reads it.
TEST(Lora, MergesWhereverTheWeightLies) {
  using Build = std::function<void(test::Model&)>;
  const auto weight = [](const char* name, std::vector<std::int64_t> dims) {
    std::int64_t n = 1;
    for (const auto d : dims) n *= d;
    return float_tensor(name, dims, drawn(n, 0.3, 5));
  };
  const std::vector<std::pair<const char*, Build>> rows{
      {"behind Transpose",
       [&](test::Model& m) {
         m.add(weight("w", {3, 16})).add(node("Transpose", {"w"}, {"t"})).add(node("MatMul", {"x", "t"}, {"y"}));
       }},
      {"behind Reshape and Transpose",
       [&](test::Model& m) {
         m.add(weight("w", {3, 4, 4}))
             .add(test::int_tensor("s", {2}, {0, -1}))
             .add(node("Transpose", {"w"}, {"t"}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}}));
         m.add(node("Reshape", {"t", "s"}, {"r"})).add(node("Transpose", {"r"}, {"u"})).add(node("MatMul", {"x", "u"}, {"y"}));
       }},
      {"in a Constant node",
       [&](test::Model& m) {
         m.add(node("Constant", {}, {"w"}, {{"value", weight("", {16, 3})}})).add(node("MatMul", {"x", "w"}, {"y"}));
       }},
      {"Gemm by a factor",
       [&](test::Model& m) {
         m.add(weight("w", {3, 16}))
             .add(weight("b", {3}))
             .add(node("Gemm", {"x", "w", "b"}, {"y"}, {{"alpha", 0.5F}, {"beta", 2.0F}, {"transB", std::int64_t{1}}}));
       }},
      {"Gemm of a transposed x",
       [&](test::Model& m) {
         m.add(weight("w", {16, 3}))
             .add(node("Transpose", {"x"}, {"t"}))
             .add(node("Gemm", {"t", "w"}, {"y"}, {{"transA", std::int64_t{1}}}));
       }},
      {"read twice",
       [&](test::Model& m) {
         m.add(weight("w", {16, 16}))
             .add(weight("v", {16, 3}))
             .add(node("MatMul", {"x", "w"}, {"a"}))
             .add(node("Tanh", {"a"}, {"b"}))
             .add(node("MatMul", {"b", "w"}, {"c"}));
         m.add(node("MatMul", {"c", "v"}, {"y"}));
       }},
      {"filters",
       [&](test::Model& m) {
         m.add(weight("w", {3, 1, 4, 4}))
             .add(test::int_tensor("s", {4}, {-1, 1, 4, 4}))
             .add(test::int_tensor("z", {2}, {-1, 3}))
             .add(node("Reshape", {"x", "s"}, {"i"}));
         m.add(node("Conv", {"i", "w"}, {"c"}, {{"auto_pad", std::string("VALID")}})).add(node("Reshape", {"c", "z"}, {"y"}));
       }},
  };
  for (const auto& [name, build] : rows) {
    SCOPED_TRACE(name);
    const TemporaryFolder folder;
    test::Model m;
    m.input("x", "N,16").output("y");
    build(m);
    Model model(ModelFile::parse(m.bytes(), {}, {.lora = LoraOptions{.rank = 2, .alpha = 3, .targets = {"w"}}}));
    ASSERT_EQ(model.file().adapters().size(), 1U);
    model.compile(training(), backends);
    const std::vector<double> untrained = scores(model, clouds(40, 3));
    model.fit(clouds(200, 1), {.epochs = 2, .learning_rate = 0.02});
    const std::vector<double> wanted = scores(model, clouds(40, 3));
    double moved = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) moved = std::max(moved, std::abs(wanted[i] - untrained[i]));
    EXPECT_GT(moved, 0.1);
    model.save(folder / "merged.onnx");
    model.save(folder / "inputs.onnx", true, {.adapters_as_inputs = true});
    model.save_adapter(folder / "a.onnx_adapter");
    const ModelOptions inference{.plan = {.mode = PlanMode::inference, .batch = 20, .devices = parse_devices("cpu")}};
    Model merged = Model::load(folder / "merged.onnx"),
          with = Model::load(folder / "inputs.onnx", {.lora = LoraOptions{.from = folder / "a.onnx_adapter"}});
    EXPECT_EQ(merged.file().tensors().size(), ModelFile::parse(m.bytes(), {}).tensors().size());
    for (Model* again : {&merged, &with}) {
      again->compile(inference, backends);
      expect_close(scores(*again, clouds(40, 3)), wanted, 2e-5);
    }
  }
}

TEST(Lora, AdaptsWhatProductsAloneRead) {
  test::Model m;
  m.input("x", "N,16")
      .output("y")
      .add(float_tensor("w", {16, 16}, drawn(256, 0.1, 1)))
      .add(float_tensor("v", {16, 16}, drawn(256, 0.1, 2)));
  m.add(node("Transpose", {"w"}, {"t"}))
      .add(node("MatMul", {"x", "t"}, {"a"}))
      .add(node("MatMul", {"a", "w"}, {"b"}))
      .add(node("MatMul", {"b", "v"}, {"y"}));
  EXPECT_EQ(adapted_weights(m, {}), std::vector<std::string>{"v"});  // w is read in two ways
  EXPECT_THROW(adapted_weights(m, {.targets = {"w"}}), Error);
  m.add(node("Relu", {"v"}, {"z"})).output("z");
  EXPECT_THROW(adapted_weights(m, {}), Error);
}

TEST(Lora, OfHalvesIsOfHalves) {
  for (const DType type : {DType::float16, DType::bfloat16}) {
    const TemporaryFolder folder;
    test::Model m = one_product(16);
    auto& w = *m.proto.mutable_graph()->mutable_initializer(0);
    const Tensor halves = Tensor::of<float>(Shape{16, 16}, drawn(256, 0.05, 1)).cast(type);
    w.set_data_type(static_cast<int>(type));
    w.clear_float_data();
    w.set_raw_data(halves.bytes().data(), halves.bytes().size());
    m.proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(static_cast<int>(type));
    Model model(ModelFile::parse(m.bytes(), {}, {.lora = LoraOptions{.rank = 2}}));
    model.compile({.plan = {.mode = PlanMode::inference, .batch = 20, .devices = parse_devices("cpu")}}, backends);
    model.save(folder / "inputs.onnx", true, {.adapters_as_inputs = true});
    model.save_adapter(folder / "a.onnx_adapter");
    for (const AdapterParameter& p : read_adapter(folder / "a.onnx_adapter"))
      EXPECT_EQ(p.tensor.dtype(), p.name == "lora.scale" ? DType::float32 : type) << p.name;
    const std::string written = test::read_whole(folder / "inputs.onnx");
    EXPECT_NE(written.find(w.raw_data()), std::string::npos);  // the base, to the bit
  }
}

// A matrix [16,3] of a small type, and how it becomes floats; `dense` is what these are.
struct SmallBase {
  const char* name;
  DType type;
  double size;                   // of its elements
  Tensor scale;                  // none: Cast
  std::int64_t block, axis = 0;  // of the scales; 0: one for each index of axis
  double zero = 0;
};
void add_small_base(test::Model& m, const SmallBase& row, std::vector<float>& dense) {
  const auto add = [&](const std::string& name, const Tensor& values) {
    onnx::TensorProto proto = test::dims_only(name, values.shape().dims);
    proto.set_data_type(static_cast<int>(values.dtype()));
    store(values, DataForm::raw, proto);
    m.add(proto);
  };
  std::vector<float> numbers = drawn(48, row.size, 7);
  for (float& v : numbers) v = std::round(4 * v) / 4;
  const Tensor w = Tensor::of<float>(Shape{16, 3}, numbers).cast(is_small_integer(row.type) ? DType::int64 : DType::float64).cast(row.type);
  add("w", w);
  const std::vector<double> scales = row.scale.type().shape.rank() > 0 ? row.scale.to_doubles() : std::vector<double>{};
  for (std::size_t i = 0; i < 48; ++i) {
    const std::size_t at = row.block > 0 ? i / 3 / static_cast<std::size_t>(row.block) * 3 + i % 3 : i % 3;
    dense.push_back(static_cast<float>((w.to_doubles()[i] - row.zero) * (scales.empty() ? 1.0 : scales[at])));
  }
  if (scales.empty()) {
    m.add(node("Cast", {"w"}, {"w/float"}, {{"to", std::int64_t{1}}}));
  } else {
    add("scale", row.scale);
    Tensor zeros(TensorType{DType::float64, row.scale.shape()});
    for (double& z : zeros.write<double>()) z = row.zero;
    add("zero", zeros.cast(row.type));
    m.add(node("DequantizeLinear", {"w", "scale", "zero"}, {"w/float"},
               {{"axis", row.axis}, {"block_size", row.block}, {"output_dtype", std::int64_t{1}}}));
  }
  m.add(node("MatMul", {"x", "w/float"}, {"y"}));
}

TEST(Lora, OnASmallTypeTrainsAsOnFloatsOfTheSameValuesAndLeavesTheFilesBytes) {
  const Tensor columns = Tensor::of<float>(Shape{3}, {0.25F, 0.5F, 0.125F}), blocks = Tensor::of<float>(Shape{4, 3}, drawn(12, 0.3, 8));
  const Tensor powers =
      Tensor::of<float>(Shape{4, 3}, {0.25F, 0.5F, 0.125F, 1, 0.5F, 0.25F, 0.25F, 1, 2, 0.5F, 0.125F, 0.25F}).cast(DType::float8e8m0);
  const SmallBase rows[] = {
      {"float8e4m3fn by columns", DType::float8e4m3fn, 2, columns, 0, 1},
      {"float8e5m2 that is cast", DType::float8e5m2, 0.5, {}, 0},
      {"float4e2m1 in blocks, by powers of two", DType::float4e2m1, 2, powers, 4},
      {"int4 in blocks with a zero point", DType::int4, 2.5, blocks, 4, 0, -2},
      {"uint4 by columns with a zero point", DType::uint4, 6, columns, 0, 1, 7},
      {"int2 in blocks", DType::int2, 1, blocks, 4},
  };
  for (const SmallBase& row : rows) {
    SCOPED_TRACE(row.name);
    const TemporaryFolder folder;
    test::Model small(25, 13), floats(25, 13);
    std::vector<float> dense;
    small.input("x", "N,16").output("y");
    add_small_base(small, row, dense);
    floats.input("x", "N,16").output("y").add(float_tensor("w", {16, 3}, dense)).add(node("MatMul", {"x", "w"}, {"y"}));
    const WeightOptions options{.lora = LoraOptions{.rank = 2, .alpha = 3}};
    Model model(ModelFile::parse(small.bytes(), {}, options)), reference(ModelFile::parse(floats.bytes(), {}, options));
    for (Model* one : {&model, &reference}) one->compile(training(), backends);
    const MemoryDataset test = clouds(40, 3);
    const std::vector<double> untrained = scores(model, test);
    expect_close(untrained, scores(reference, test), 1e-4);
    for (Model* one : {&model, &reference}) one->fit(clouds(200, 1), {.epochs = 2, .learning_rate = 0.02});
    const std::vector<double> trained = scores(model, test);
    expect_close(trained, scores(reference, test), 1e-3);
    double moved = 0;
    for (std::size_t i = 0; i < trained.size(); ++i) moved = std::max(moved, std::abs(trained[i] - untrained[i]));
    EXPECT_GT(moved, 0.1);

    EXPECT_THROW(model.save(folder / "merged.onnx"), Error);
    model.save(folder / "inputs.onnx", true, {.adapters_as_inputs = true});
    model.save_adapter(folder / "a.onnx_adapter");
    onnx::ModelProto written;
    ASSERT_TRUE(written.ParseFromString(test::read_whole(folder / "inputs.onnx")));
    for (const onnx::TensorProto& t : small.proto.graph().initializer())
      EXPECT_EQ(1, std::ranges::count_if(written.graph().initializer(),
                                         [&](const onnx::TensorProto& w) { return w.SerializeAsString() == t.SerializeAsString(); }))
          << t.name();
    Model again = Model::load(folder / "inputs.onnx", {.lora = LoraOptions{.from = folder / "a.onnx_adapter"}});
    again.compile({.plan = {.mode = PlanMode::inference, .batch = 20, .devices = parse_devices("cpu")}}, backends);
    expect_close(scores(again, test), trained, 2e-5);
  }
}

TEST(Lora, RefusesFilesOfAdaptersThatAreNone) {
  const TemporaryFolder folder;
  const std::string bytes =
      adapter_bytes({{"a.lora_A", Tensor::of<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6})}, {"b", Tensor::of<std::int64_t>(Shape{}, {7})}});
  const std::vector<AdapterParameter> read = parse_adapter(bytes);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].name, "a.lora_A");
  EXPECT_EQ(read[0].tensor.shape(), (Shape{2, 3}));
  EXPECT_EQ(read[0].tensor.to_doubles(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read[1].tensor.to_int64s(), std::vector<std::int64_t>{7});
  for (std::size_t n = 0; n + 8 < bytes.size(); ++n) EXPECT_THROW(parse_adapter(std::string_view(bytes).substr(0, n)), Error) << n;
  for (std::size_t n = 0; n < bytes.size(); ++n)
    for (const char c : {'\0', '\x01', '\x7f', '\xff'}) {
      std::string changed = bytes;
      changed[n] = c;
      try {
        parse_adapter(changed);  // some bytes are values
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::model);
      }
    }
  test::write_file(folder / "other.onnx_adapter", bytes);
  for (const auto& [file, says] : {std::pair{"other.onnx_adapter", "made for another model"}, {"none.onnx_adapter", "none.onnx_adapter"}})
    try {
      base({.lora = LoraOptions{.from = folder / file}});
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
}

TEST(Lora, RefusesWhatHasNoMatrix) {
  WeightOptions tied = adapted(), still = adapted();
  tied.tie = {{"first", "second.weight"}};
  still.lora->alpha = 0;
  for (const auto& [options, says] : {std::pair{adapted(0), "r is 0"},
                                      {adapted(17, {"first"}), "has 16 inputs and 24 outputs"},
                                      {still, "alpha is 0"},
                                      {tied, "option tie"},
                                      {adapted(4, {"second.bias"}), "targets 'second.bias': no weight goes by that name"}})
    try {
      base(options);
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
}

}  // namespace
}  // namespace tandem
