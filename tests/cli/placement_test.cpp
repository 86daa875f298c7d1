// Placements that are asked for: by option, by a configuration file, by the model's file; a run's whole life with them; the documented
// programs.
#include <cmath>
#include <fstream>

#include "base/file.h"
#include "tests/cli/process.h"
#include "tests/importer/model_builder.h"

namespace tandem {
namespace {

const std::string digits = " --data synthetic:digits,train=96,test=40 --batch-size 32 --no-autotune ";

// Losses and outputs as numbers, in their order.
std::vector<double> numbers_of(const std::string& out, const std::string& key) {
  std::vector<double> numbers;
  for (std::size_t at = 0; (at = out.find("\"" + key + "\":", at)) != std::string::npos;) {
    at += key.size() + 3;
    numbers.push_back(std::strtod(out.c_str() + at, nullptr));
  }
  return numbers;
}
Outcome done(const TemporaryFolder& folder, const std::string& line) {
  const Outcome o = run_tandem(words(line, folder.text()));
  EXPECT_EQ(o.code, 0) << line << '\n' << o.err;
  return o;
}
// Without what a search for parts warns of.
// A plan without what it says of how it was asked for.
std::string without_request(const std::string& json) {
  Json::Object plan = Json::parse(json).object();
  std::erase_if(plan, [](const auto& entry) { return entry.first == "warnings" || entry.first == "hash" || entry.first == "record"; });
  return Json(std::move(plan)).dump();
}
std::string plan_of(const TemporaryFolder& folder, const std::string& line) {
  return without_request(done(folder, "plan --format json " + line).out);
}
void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * std::max(1.0, std::abs(b[0]))) << i;
}
void expect_same_weights(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto weights = [](const std::filesystem::path& path) {
    const Graph graph = ModelFile::read(path).graph({.batch = 1});
    std::map<std::string, Tensor> all;
    for (const Value& v : graph.values)
      if (v.kind == ValueKind::parameter) all.emplace(v.name, *v.data);
    return all;
  };
  const auto got = weights(a), wanted = weights(b);
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) {
    const std::vector<double> x = got.at(name).to_doubles(), y = tensor.to_doubles();
    double off = 0, all = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      off += (x[i] - y[i]) * (x[i] - y[i]);
      all += y[i] * y[i];
    }
    EXPECT_LE(std::sqrt(off), 1e-5 * std::sqrt(all)) << name;
  }
}

struct Life {
  const char *name, *model, *placed, *otherwise;  // otherwise: how the run goes on, and is measured
};
void PrintTo(const Life& row, std::ostream* out) { *out << row.name; }
class LivesOfPlacements : public testing::TestWithParam<Life> {};
TEST_P(LivesOfPlacements, AreThoseOfOneDevice) {
  const Life& row = GetParam();
  const TemporaryFolder folder;
  const std::string train =
      concat("train MODELS/", row.model, ".onnx --json --momentum 0.9 --init he-normal --seed 3 --validation-split 0.2", digits);
  const Outcome one = done(folder, train + "--devices cpu --epochs 2 --run-dir TMP/one --output TMP/one.onnx"),
                placed = done(folder, concat(train, row.placed, " --epochs 2 --run-dir TMP/placed --output TMP/placed.onnx"));
  expect_near(numbers_of(placed.out, "loss"), numbers_of(one.out, "loss"));
  expect_near(numbers_of(placed.out, "val_loss"), numbers_of(one.out, "val_loss"));
  expect_same_weights(folder / "placed.onnx", folder / "one.onnx");
  // A stopped run goes on elsewhere.
  done(folder, concat(train, row.placed, " --epochs 1 --run-dir TMP/run --output TMP/half.onnx"));
  done(folder, concat("train --resume --run-dir TMP/run --epochs 2 ", row.otherwise));
  expect_same_weights(folder / "half.onnx", folder / "one.onnx");
  const std::string measure = "evaluate TMP/one.onnx --json" + digits;
  const Outcome alone = done(folder, measure + "--devices cpu");
  for (const char* where : {row.placed, row.otherwise})
    expect_near(numbers_of(done(folder, measure + where).out, "loss"), numbers_of(alone.out, "loss"));
  const std::string predict = "predict TMP/one.onnx" + digits;
  done(folder, predict + "--devices cpu --output TMP/alone.csv");
  done(folder, concat(predict, row.placed, " --output TMP/placed.csv"));
  const auto lines = [&](const char* file) {
    const std::string text = read_file(folder / file);
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines("placed.csv"), lines("alone.csv"));
}
INSTANTIATE_TEST_SUITE_P(
    Rows, LivesOfPlacements,
    testing::Values(Life{"a_layer_elsewhere", "mlp", "--place fc3=cpu:1", "--devices cpu:0-2 --place fc1=cpu:2;fc2=cpu:1"},
                    Life{"weights_at_home", "mlp", "--devices cpu:0-1 --place *.weight=cpu:0;*.bias=cpu:0;*=cpu:1", "--devices cpu --place="},
                    Life{"layers_on_groups", "lenet", "--devices cpu:0-3 --place fc*=cpu:2-3", "--devices cpu:0-1 --parallel tensor=2 --place fc*=cpu:0-1"},
                    Life{"stages", "mlp", "--devices cpu:0-1 --parallel pipeline=2", "--devices cpu:0-2 --parallel data=3"},
                    Life{"stages_of_replicas", "lenet", "--devices cpu:0-3 --parallel data=2,pipeline=2 --stage conv*,*pool*,relu1,relu2;rest", "--devices cpu --stage="}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Placements, AConfigurationFileHasASectionForThem) {
  const TemporaryFolder folder;
  const std::string model = "MODELS/mlp.onnx --devices cpu:0-3 ", plan = "plan " + model + "--format json ";
  const std::string asked = plan_of(folder, model + "--parallel data=2 --place fc3=cpu:2-3;*=cpu:0-1");
  const auto with = [&](const std::string& section) {
    std::ofstream(folder / "c.json") << "{\"placement\": " << section << "}";
    return run_tandem(words(plan + "--config TMP/c.json", folder.text()));
  };
  for (const char* section : {R"({"parallel": {"data": 2}, "place": {"fc3": "cpu:2-3", "*": "cpu:0-1"}})",
                              R"({"parallel": "data=2", "place": ["fc3=cpu:2-3", "*=cpu:0-1"]})",
                              R"({"parallel": ["data=2"], "place": "fc3=cpu:2-3;*=cpu:0-1"})"})
    EXPECT_EQ(without_request(with(section).out), asked) << section;
  const std::string split = "--parallel data=2,tensor=2 --split fc2.weight=tensor:0,fc1.*=tensor:0 ";
  EXPECT_EQ(without_request(with(R"({"parallel": {"data": 2, "tensor": 2}, "split": {"fc2.weight": "tensor:0", "fc1.*": "tensor:0"}})").out),
            plan_of(folder, model + split));
  for (const char* section : {R"({"parallel": {"pipeline": 2, "data": 2}, "stage": ["fc1*", "rest"], "schedule": "gpipe"})",
                              R"({"parallel": "data=2,pipeline=2", "stage": "fc1*;rest", "schedule": "gpipe"})"})
    EXPECT_EQ(without_request(with(section).out),
              plan_of(folder, model + "--parallel data=2,pipeline=2 --stage fc1*;rest --schedule gpipe"))
        << section;
  EXPECT_NE(with(R"({"plaec": {}})").err.find("placement 'plaec', did you mean place?"), std::string::npos) << with(R"({"plaec": {}})").err;
  EXPECT_EQ(with("3").code, 2);
  // The command line overrules it, and evaluate has another --split.
  std::ofstream(folder / "c.json") << R"({"placement": {"parallel": {"data": 4}, "split": {"fc2.weight": "tensor:0"}}})";
  EXPECT_EQ(plan_of(folder, model + "--config TMP/c.json --parallel data=2,tensor=2"),
            plan_of(folder, model + "--parallel data=2,tensor=2 --split fc2.weight=tensor:0"));
  done(folder, "train MODELS/mlp.onnx --epochs 1 --output TMP/t.onnx" + digits);
  done(folder, "evaluate TMP/t.onnx --devices cpu:0-3 --config TMP/c.json" + digits);
}

// Two layers, of which the file puts one on a device.
std::string marked(const TemporaryFolder& folder, const std::string& device) {
  test::Model m;
  m.input("x", "N,4").add(test::filled_tensor("a", {4, 8}, 0.1F)).add(test::filled_tensor("b", {8, 3}, 0.2F));
  m.add(test::node("MatMul", {"x", "a"}, {"h"})).add(test::node("MatMul", {"h", "b"}, {"y"})).output("y");
  auto& node = *m.proto.mutable_graph()->mutable_node(1);
  node.set_name("second");
  auto& entry = *node.add_metadata_props();
  entry.set_key("tandem.device");
  entry.set_value(device);
  test::write_file(folder / "marked.onnx", m.bytes());
  return "plan TMP/marked.onnx --log-placement --format summary --devices ";
}

TEST(Placements, AreReadOfNodesMetadata) {
  const TemporaryFolder folder;
  const std::string plan = marked(folder, "/CPU:1");
  const auto says = [&](const std::string& line, const std::string& text) {
    const Outcome o = run_tandem(words(plan + line, folder.text()));
    EXPECT_NE((o.err + o.out).find(text), std::string::npos) << line << '\n' << o.err << o.out;
  };
  says("cpu:0-1", "1 node is put where the file says (metadata tandem.device; --place overrules it");
  says("cpu:0-1", "'second' on cpu:1:");
  says("cpu:0-1 --place second=cpu:0;*=cpu:1", "'second' on cpu:0:");
  says("cpu:0-1 --configuration none", "'second' on cpu:0-1 data 2:");
  says("cpu", "the file puts 1 node on devices (metadata tandem.device), and there is one");
  says("cpu:0,cpu:2", "node 'second', metadata tandem.device: --devices has no /CPU:1: it lists cpu:0, cpu:2");
}

TEST(Placements, AnAnnotatedModelGivesItsPlanAgain) {
  const TemporaryFolder folder;
  for (const std::string way : {"--devices cpu:0-3", "--devices cpu:0-1 --parallel tensor=2",
                                "--devices cpu:0-3 --parallel data=2,tensor=2", "--devices cpu:0-1 --place fc3=cpu:1"}) {
    const std::string asked = plan_of(folder, "MODELS/mlp.onnx " + way);
    done(folder, "plan MODELS/mlp.onnx --format onnx --annotate --output TMP/a.onnx " + way);
    const std::string devices = way.substr(0, way.find(' ', way.find(' ') + 1));
    EXPECT_EQ(plan_of(folder, "TMP/a.onnx " + devices), asked) << way;
    const Outcome followed = done(folder, "plan TMP/a.onnx --format summary " + devices);
    EXPECT_NE(followed.err.find("values lie as the model's device configuration 'tandem' says (--configuration none leaves it aside)"),
              std::string::npos)
        << followed.err;
    EXPECT_NE(done(folder, "plan TMP/a.onnx --devices cpu:0-2 --format summary").err.find("are left aside: none is for 3 devices"),
              std::string::npos);
    // A trained model keeps it, and a run follows it.
    done(folder, "train TMP/a.onnx --epochs 1 --output TMP/t.onnx " + devices + digits);
    EXPECT_EQ(ModelFile::read(folder / "t.onnx").configurations()[0].tensors,
              ModelFile::read(folder / "a.onnx").configurations()[0].tensors)
        << way;
  }
  // One of several.
  done(folder, "plan MODELS/mlp.onnx --format onnx --annotate --output TMP/a.onnx --devices cpu:0-1 --parallel tensor=2");
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromString(read_file(folder / "a.onnx")));
  auto& other = *proto.add_configuration();
  other.set_name("other");
  other.set_num_devices(2);
  test::write_file(folder / "two.onnx", proto.SerializeAsString());
  const Outcome two = run_tandem(words("plan TMP/two.onnx --devices cpu:0-1", folder.text()));
  EXPECT_EQ(two.code, 2);
  EXPECT_NE(two.err.find("the model has 2 device configurations for 2 devices ('tandem', 'other'): --configuration says which, or none"),
            std::string::npos)
      << two.err;
  EXPECT_EQ(plan_of(folder, "TMP/two.onnx --devices cpu:0-1 --configuration other"), plan_of(folder, "MODELS/mlp.onnx --devices cpu:0-1"));
}

// A batch that the file has along another axis.
TEST(Placements, AxesOfInputsAreThoseOfTheFile) {
  const TemporaryFolder folder;
  test::Model m;
  m.input("x", "5,N,4").add(test::filled_tensor("a", {4, 3}, 0.1F)).add(test::node("MatMul", {"x", "a"}, {"h"}));
  m.add(test::node("ReduceMean", {"h"}, {"y"}, {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{0}}})).output("y");
  test::write_file(folder / "m.onnx", m.bytes());
  const std::string asked = plan_of(folder, "TMP/m.onnx --devices cpu:0-1 --batch-axis x=1");
  done(folder, "plan TMP/m.onnx --format onnx --annotate --output TMP/a.onnx --devices cpu:0-1 --batch-axis x=1");
  EXPECT_EQ(ModelFile::read(folder / "a.onnx").configurations()[0].tensors.at("x").dims[0].axis, 1);
  EXPECT_EQ(plan_of(folder, "TMP/a.onnx --devices cpu:0-1 --batch-axis x=1"), asked);
}

// docs/across-devices.md, "Programs of Keras and TensorFlow".
TEST(Placements, DocumentedProgramsRun) {
  const TemporaryFolder folder;
  const std::string page = read_file(std::string(TANDEM_SOURCE_DIR) + "/docs/across-devices.md");
  const std::size_t section = page.find("## Programs of Keras and TensorFlow"), begin = page.find("```sh\n", section) + 6;
  std::istringstream lines(page.substr(begin, page.find("```", begin) - begin));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    for (std::size_t at; (at = line.find('\'')) != std::string::npos;) line.erase(at, 1);
    for (std::size_t at = 0; (at = line.find("models/", at)) != std::string::npos; at += 7) line.replace(at, 6, "MODELS");
    for (std::size_t at = line.find(".onnx"); at != std::string::npos; at = line.find(".onnx", at + 1)) {
      const std::size_t word = line.rfind(' ', at) + 1;
      if (!line.substr(word).starts_with("MODELS")) line.insert(word, "TMP/"), at += 4;
    }
    done(folder, line.substr(line.find(' ') + 1));
  }
  EXPECT_EQ(count, 9);
}

}  // namespace
}  // namespace tandem
