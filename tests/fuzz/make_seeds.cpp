// make_seeds OUT KEPT [FOLDER...]: what the targets begin with, a folder each: small models of all operators, their plans, a checkpoint,
// adapters, steps, options, greetings, and a sound data file and image of each format. KEPT gets plans that were findings.
// From folders of ONNX's node tests (NAME/model.onnx, test_data_set_0/input_N.pb) come models that can be trained: their first input is
// scaled by a weight, the others are initializers.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "graph/operator.h"
#include "kernels/cpu/backend.h"
#include "planner/place/parallel.h"
#include "planner/plan/plan_file.h"
#include "ranks/reception.h"
#include "tests/fuzz/data_formats.h"
#include "tests/fuzz/small_run.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/thrift_writer.h"
#include "trainer/devices.h"

namespace tandem::fuzz {
namespace {

namespace fs = std::filesystem;
using test::filled_tensor, test::int_tensor, test::node;
using List = std::vector<std::int64_t>;

constexpr std::size_t most_bytes = 16 << 10;  // of a model

test::Model convolutional() {
  test::Model m;
  m.input("x", "N,2,8,8").output("y");
  m.add(filled_tensor("c", {4, 2, 3, 3}))
      .add(filled_tensor("b", {4}))
      .add(filled_tensor("scale", {4}, 1))
      .add(filled_tensor("mean", {4}, 0));
  m.add(filled_tensor("variance", {4}, 1)).add(filled_tensor("w", {64, 3})).add(filled_tensor("d", {4, 1, 3, 3}));
  m.add(node("Conv", {"x", "c", "b"}, {"h0"}, {{"pads", List{1, 1, 1, 1}}, {"kernel_shape", List{3, 3}}}));
  m.add(node("BatchNormalization", {"h0", "scale", "b", "mean", "variance"}, {"h1"}, {{"epsilon", 1e-5F}}));
  m.add(node("Relu", {"h1"}, {"h2"})).add(node("Conv", {"h2", "d"}, {"h3"}, {{"pads", List{1, 1, 1, 1}}, {"group", std::int64_t{4}}}));
  m.add(node("Add", {"h2", "h3"}, {"h4"})).add(node("MaxPool", {"h4"}, {"h5"}, {{"kernel_shape", List{2, 2}}, {"strides", List{2, 2}}}));
  m.add(node("Dropout", {"h5"}, {"h6"})).add(node("Flatten", {"h6"}, {"h7"})).add(node("MatMul", {"h7", "w"}, {"h8"}));
  m.add(node("Softmax", {"h8"}, {"y"}, {{"axis", std::int64_t{-1}}}));
  return m;
}

test::Model sequence() {
  test::Model m;
  m.input("ids", "N,4", onnx::TensorProto::INT64).output("y");
  m.add(filled_tensor("table", {9, 6})).add(filled_tensor("q", {6, 6})).add(filled_tensor("k", {6, 6})).add(filled_tensor("scale", {6}, 1));
  m.add(filled_tensor("w", {6, 5}))
      .add(filled_tensor("b", {5}))
      .add(int_tensor("shape", {4}, {0, 4, 2, 3}))
      .add(int_tensor("flat", {3}, {0, 0, 6}));
  m.add(node("Gather", {"table", "ids"}, {"e"})).add(node("LayerNormalization", {"e", "scale"}, {"n"}, {{"axis", std::int64_t{-1}}}));
  for (const char* p : {"q", "k"}) {
    const std::string s = p;
    m.add(node("MatMul", {"n", s}, {s + "0"})).add(node("Reshape", {s + "0", "shape"}, {s + "1"}));
    m.add(node("Transpose", {s + "1"}, {s + "2"}, {{"perm", s == "q" ? List{0, 2, 1, 3} : List{0, 2, 3, 1}}}));
  }
  m.add(node("MatMul", {"q2", "k2"}, {"a"})).add(node("Softmax", {"a"}, {"p"})).add(node("MatMul", {"p", "q2"}, {"h"}));
  m.add(node("Transpose", {"h"}, {"h1"}, {{"perm", List{0, 2, 1, 3}}})).add(node("Reshape", {"h1", "flat"}, {"h2"}));
  m.add(node("ReduceMean", {"h2"}, {"h3"}, {{"axes", List{1}}, {"keepdims", std::int64_t{0}}})).add(node("Gemm", {"h3", "w", "b"}, {"y"}));
  return m;
}

test::Model with_function() {
  test::Model m;
  m.input("x", "N,4").output("y").add(filled_tensor("w", {4, 4})).add(int_tensor("one", {1}, {1}));
  m.add(test::function("Twice", {"a", "b"}, {"c"},
                       {node("MatMul", {"a", "b"}, {"t"}), node("Elu", {"t"}, {"c"}, {{"alpha", std::string("@alpha")}})}, {"alpha"}));
  m.add(node("Twice", {"x", "w"}, {"h"}, {{"alpha", 0.5F}}, test::function_domain));
  m.add(node("Split", {"h"}, {"l", "r"}, {{"axis", std::int64_t{1}}})).add(node("Concat", {"r", "l"}, {"s"}, {{"axis", std::int64_t{1}}}));
  m.add(node("Slice", {"s", "one", "one"}, {"unread"})).add(node("Tanh", {"s"}, {"y"}));
  return m;
}

// An operator of four operands of different kinds: mostly wrong, but there to be exchanged with those of other models.
test::Model any(const Operator& op) {
  test::Model m(op.since.back());
  m.input("x", "N,4").output("y").add(filled_tensor("w", {4, 4})).add(int_tensor("i", {2}, {0, 1})).add(int_tensor("s", {1}, {1}));
  const char* const kinds[] = {"m", "w", "i", "s"};
  test::Names operands;
  for (int k = 0; k < std::min(op.inputs.most, 4); ++k) operands.emplace_back(kinds[k]);
  m.add(node("MatMul", {"x", "w"}, {"m"})).add(node(std::string(op.name), operands, {"o"})).add(node("Add", {"m", "o"}, {"y"}));
  return m;
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

// Empty where the test is none that can be trained in this way.
std::string trainable(const fs::path& node_test) {
  onnx::ModelProto model;
  if (!model.ParseFromString(read(node_test / "model.onnx")) || model.graph().input_size() == 0) return {};
  onnx::GraphProto& graph = *model.mutable_graph();
  const std::string first = graph.input(0).name();
  if (graph.input(0).type().tensor_type().elem_type() != onnx::TensorProto::FLOAT) return model.SerializeAsString();
  for (int i = graph.input_size(); i-- > 1;) {
    onnx::TensorProto values;
    if (!values.ParseFromString(read(node_test / "test_data_set_0" / concat("input_", i, ".pb"))) || values.data_type() == 0) continue;
    values.set_name(graph.input(i).name());
    *graph.add_initializer() = values;
    graph.mutable_input()->DeleteSubrange(i, 1);
  }
  for (onnx::NodeProto& n : *graph.mutable_node())
    for (std::string& operand : *n.mutable_input())
      if (operand == first) operand = "scaled";
  std::vector<std::int64_t> dims;
  const auto& shape = graph.input(0).type().tensor_type().shape();
  for (int d = 1; d < shape.dim_size(); ++d) dims.push_back(shape.dim(d).dim_value());
  std::int64_t elements = 1;
  for (const std::int64_t d : dims) elements *= d;
  std::vector<float> values;
  for (std::int64_t i = 0; i < elements; ++i) values.push_back(0.5F + 0.25F * static_cast<float>(i % 5));
  *graph.add_initializer() = test::float_tensor("factor", dims, values);
  onnx::NodeProto scale = node("Mul", {first, "factor"}, {"scaled"});
  graph.mutable_node()->Add()->Swap(&scale);
  for (int i = graph.node_size() - 1; i > 0; --i) graph.mutable_node()->SwapElements(i, i - 1);
  return model.SerializeAsString();
}

ModelOptions plan_options() {
  ModelOptions options;
  options.plan.batch = 4;
  options.plan.optimizer = optimizer_defaults("adam");
  options.plan.devices = {{{"cpu", 0}}};
  return options;
}

Plan plan_of(const std::string& model, const ModelOptions& options) {
  static const Backend* const backends[] = {&cpu_backend()};
  return Model(ModelFile::parse(model, {})).source().make_plan(options, backends);
}

void write_plans(const fs::path& out, const std::string& name, const std::string& model) {
  ModelOptions options = plan_options();
  const auto plan = [&](const char* kind) { write(out / (name + kind), serialize(plan_of(model, options))); };
  plan("");
  options.plan.precision = Precision::bf16;
  plan("-bf16");
  options.plan.precision = Precision::fp32;
  options.plan.devices.push_back({{"cpu", 1}});
  plan("-two");
  options.plan.parallel = parse_parallelism("zero=3");
  plan("-zero");
  options.plan.parallel = {};
  options.plan.devices = parse_devices("cpu:0-3");  // which share a program
  plan("-four");
  options.plan.devices.resize(2);
  for (const char* const schedule : {"gpipe", "1f1b", "zb-h1", "interleaved=2"}) {
    options.plan.parallel = parse_parallelism("pipeline=2");
    options.plan.parallel.micro_batches = 4;
    options.plan.parallel.schedule = parse_pipeline_schedule(schedule);
    try {
      plan(schedule);
    } catch (const Error& e) {  // of a model that cannot be cut into so many parts
      if (e.code() != ExitCode::usage) throw;
    }
  }
  options.plan.parallel = parse_parallelism("data=2,zero=1");
  options.plan.optimizer.clip_norm = 1;
  plan("-norm");
  options.plan.parallel = {};
  options.plan.mode = PlanMode::inference;
  plan("-inference");
}

test::Model sliced() {
  test::Model m;
  m.input("x", "N,4").output("y").add(filled_tensor("w", {4, 4})).add(int_tensor("one", {1}, {1})).add(int_tensor("three", {1}, {3}));
  return m.add(node("MatMul", {"x", "w"}, {"h"})).add(node("Slice", {"h", "one", "three", "one"}, {"y"}));
}

// Plans that were findings. They are made anew, as a file of an earlier format ends at its version.
void write_broken_plans(const fs::path& out) {
  Plan plan = plan_of(convolutional().bytes(), plan_options());
  plan.programs[0].buffers[0].bytes = INT64_MIN;
  write(out / "buffer_of_least_bytes", serialize(plan));
  plan = plan_of(sliced().bytes(), plan_options());
  std::vector<Step>& steps = plan.programs[0].steps;
  const auto backward = std::ranges::find(steps, "SliceBackward", &Step::op);
  if (backward == steps.end()) fail("make_seeds: the plan of a slice has no step SliceBackward");
  backward->as<LaunchStep>()->attributes.erase("starts");
  write(out / "slice_backward_without_starts", serialize(plan));
}

// The small model, compiled for training.
Model small_model(const std::string& optimizer, const WeightOptions& weights = {}) {
  static const Backend* const backends[] = {&cpu_backend()};
  Model model(ModelFile::parse(small_model_bytes(), {}, weights));
  ModelOptions options;
  options.plan.batch = 4;
  options.plan.optimizer = optimizer_defaults(optimizer);
  options.plan.devices = {{{"cpu", 0}}};
  model.compile(options, backends);
  return model;
}

void write_adapters(const fs::path& out) {
  fs::create_directories(out);
  for (const int rank : {1, 2}) {
    WeightOptions weights;
    weights.lora = LoraOptions{.rank = rank};
    small_model("adam", weights).save_adapter(out / concat("rank-", rank));
  }
}

void write_training_info(const fs::path& out) {
  fs::create_directories(out);
  for (const char* optimizer : {"sgd", "adam", "adagrad"}) {
    const Model model = small_model(optimizer);
    model.save(out / optimizer, true, {.training = model.training_step(0.01)});
  }
}

void write_configs(const fs::path& out) {
  write(
      out / "train",
      R"({"command": "train", "model": "small.onnx", "data": "random,samples=8", "output": "out.onnx", "epochs": 2, "batch-size": 4, "devices": "cpu:0-1",
 "optimizer": "adamw", "lr": 0.01, "lr-schedule": "cosine", "clip-norm": 1, "loss": "softmax-cross-entropy", "class-weights": "1,2,1", "slice-weights": "1,2", "accumulate": 2,
 "ema": 0.9, "early-stopping": "val_loss,3", "precision": "bf16", "augment": "flip", "normalize": "0.5,0.25", "dim": "N=4", "group": "w:lr=0.1", "freeze": "b", "lora": 2})");
  write(out / "plan", R"({"batch-size": 4, "format": "json", "mode": "inference", "devices": "cpu:0*2", "outputs": "y", "quiet": true})");
}

void write_hellos(const fs::path& out) {
  const auto bytes = [](const auto& message) { return std::string(reinterpret_cast<const char*>(&message), sizeof message); };
  const Door door{.host = std::string("127.0.0.1"), .place = std::string("29500")};
  write(out / "opening", std::string(1, '\0') + bytes(Opening{}));
  write(out / "hello", std::string(1, '\1') + bytes(Hello{.rank = 1, .ranks = 2, .door = door}));
  write(out / "challenge", std::string(1, '\2') + bytes(Challenge{}));
  write(out / "answer", std::string(1, '\3') + bytes(Answer{.lower = door}));
  write(out / "refusal", std::string(1, '\3') + bytes(Answer{.refusal = std::string("rank 1 came twice")}));
}

// Two rows of two columns: numbers as they are, and by a run of a dictionary's only entry.
std::string parquet() {
  const std::string plain = parquet_page(std::string("\1\0\0\0\2\0\0\0", 8), 2, 0), entry("\7\0\0\0", 4);
  const std::string dictionary =
      ThriftWriter().number(1, 2).number(2, 4).number(3, 4).structure(7, ThriftWriter().number(1, 1).number(2, 0)).bytes() + entry;
  const std::string runs = dictionary + parquet_page(std::string("\1\4\0", 3), 2, 8);
  const std::string groups = parquet_row_group({parquet_chunk(4, plain.size(), 2), parquet_chunk(4 + plain.size(), runs.size(), 2)}, 2);
  return parquet_of(plain + runs, parquet_footer({parquet_root(2), parquet_int32("x"), parquet_int32("label")}, 2, {groups}));
}

void write_images(const fs::path& out) {
  std::string jpeg = "\xff\xd8\xff\xdb" + std::string("\0\x43\0", 3) + std::string(64, '\1') + "\xff\xc2" +
                     std::string("\0\x0b\x08\0\x08\0\x08\1\1\x11\0", 11) + "\xff\xc4" + std::string("\0\x14\0\1", 4) +
                     std::string(16, '\0');
  for (int scan = 0; scan < 3; ++scan) jpeg += "\xff\xda" + std::string("\0\x08\1\1\0\0\0\0\x7f", 9);
  write(out / "jpeg", jpeg + "\xff\xd9");
  write(out / "png", std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\x3a\x7e\x9b\x55\0\0\0\x0aIDAT\x78\x9c\x63\x60\0"
                                 "\0\0\2\0\1\x48\xaf\xa4\x71\0\0\0\0IEND\xae\x42\x60\x82",
                                 67));
  write(out / "webp", std::string("RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0", 34));
  write(out / "ppm", "P6 2 1 255\nabcdef");
  write(out / "pgm", "P5 # grey\n2 2 65535\nabcdefgh");
}

void make(const fs::path& out, const fs::path& kept, std::span<char*> node_tests) {
  const std::pair<const char*, test::Model> models[] = {
      {"convolutional", convolutional()}, {"sequence", sequence()}, {"function", with_function()}};
  for (const auto& [name, model] : models) {
    write(out / "model" / name, model.bytes());
    write_plans(out / "plan", name, model.bytes());
  }
  write_broken_plans(kept / "plan");
  for (const Operator& op : operators())
    if (op.domain.empty()) write(out / "model" / concat("any-", op.name), any(op).bytes());
  for (const char* folder : node_tests)
    for (const auto& entry : fs::directory_iterator(folder))
      if (const std::string model = trainable(entry.path()); !model.empty() && model.size() <= most_bytes)
        write(out / "model" / entry.path().filename(), model);

  SmallRun run(out / "run");
  for (const char* name : {"last.checkpoint", "best.checkpoint"}) write(out / "checkpoint" / name, read(out / "run" / name));
  write_in_parts(out / "run/last.checkpoint", out / "run/index");
  write(out / "checkpoint/index", read(out / "run/index"));
  fs::remove_all(out / "run");
  write_adapters(out / "adapter");
  write_training_info(out / "training_info");
  write_configs(out / "config");
  write_hellos(out / "hello");

  for (const char kind : {0, 1, 4, 8}) write(out / "parquet" / concat("two-", int{kind}), kind + parquet());
  write_images(out / "image");
  for (std::size_t f = 0; f < data_formats().size(); ++f)
    for (const int kind : {0, 1, 2, 3, 0x43, 0xC3, 0xC1, 0x08, 0x10, 0x24})
      write(out / "data" / concat(data_formats()[f].name, "-", kind),
            std::string{static_cast<char>(f), static_cast<char>(kind)} + data_formats()[f].sound);
}

}  // namespace
}  // namespace tandem::fuzz

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "make_seeds OUT KEPT [FOLDER_OF_NODE_TESTS...]\n"), 2;
  tandem::fuzz::make(argv[1], argv[2], std::span(argv + 3, static_cast<std::size_t>(argc - 3)));
}
