// What a run leaves: the log of its steps, TensorBoard's events, checkpoints that others read.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "base/crc32c.h"
#include "base/file.h"
#include "data/npy.h"
#include "data/zip.h"
#include "kernels/cpu/backend.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/records/run_folder.h"
#include "trainer/records/tensorboard.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
const Backend* const backends[] = {&cpu_backend()};

TEST(StepLog, KeepsAtMostNineThousandStepsOfADecade) {
  struct Row {
    std::int64_t from, to, recorded;
  };
  for (const Row& row : {Row{1, 10'000, 10'000}, {10'001, 100'000, 9'000}, {100'001, 1'000'000, 9'000}}) {
    std::int64_t count = 0;
    for (std::int64_t s = row.from; s <= row.to; ++s) count += is_recorded(s);
    EXPECT_EQ(count, row.recorded) << row.from;
  }
}

TEST(StepLog, GoesOnWhereTheCheckpointStands) {
  const TemporaryFolder folder;
  const auto run = [&](std::int64_t from, std::int64_t to) {
    StepLog log(folder / "", [](const std::string& warning) { FAIL() << warning; });
    log.begin(from);
    for (std::int64_t s = from + 1; s <= to; ++s)
      log.step({.epoch = 1, .step = s, .samples = 4, .loss = 0.5, .learning_rate = 0.1, .seconds = 1});
    log.flush();
  };
  run(0, 5);
  std::ofstream(folder / "steps.csv", std::ios::app) << "6,1,0.";  // cut by a kill
  run(3, 4);
  EXPECT_EQ(read_file(folder / "steps.csv"),
            "step,epoch,loss,accuracy,learning_rate,seconds,samples\n1,1,0.5,,0.1,1,4\n2,1,0.5,,0.1,1,4\n3,1,0.5,,0.1,1,4\n4,1,0.5,,0.1,1,4\n");
  run(0, 1);
  EXPECT_EQ(read_file(folder / "steps.csv"), "step,epoch,loss,accuracy,learning_rate,seconds,samples\n1,1,0.5,,0.1,1,4\n");
}

TEST(StepLog, ThatCannotBeWrittenIsToldOnce) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "steps.csv/full");
  int told = 0;
  StepLog log(folder / "", [&](const std::string&) { ++told; });
  log.begin(0);
  for (int s = 1; s < 10; ++s) log.step({.step = s});
  log.flush();
  EXPECT_EQ(told, 1);
}

// A message's fields: number, wire type, contents (of numbers their bytes, of varints the value's).
struct ProtoField {
  int number;
  std::uint64_t value = 0;
  std::string bytes;
};
std::vector<ProtoField> fields_of(const std::string& message) {
  std::vector<ProtoField> list;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      v |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return v;
    }
  };
  while (at < message.size()) {
    const std::uint64_t key = varint();
    ProtoField f{.number = static_cast<int>(key >> 3), .bytes = {}};
    const std::size_t sizes[] = {0, 8, 0, 0, 0, 4};
    if ((key & 7) == 0) {
      f.value = varint();
    } else {
      const std::size_t size = (key & 7) == 2 ? varint() : sizes[key & 7];
      f.bytes = message.substr(at, size);
      EXPECT_EQ(f.bytes.size(), size);
      at += size;
    }
    list.push_back(f);
  }
  return list;
}
std::string field(const std::string& message, int number) {
  for (const ProtoField& f : fields_of(message))
    if (f.number == number) return f.bytes;
  return "";
}
template <class T>
T number_in(const std::string& bytes) {
  T v{};
  EXPECT_GE(bytes.size(), sizeof v);
  std::memcpy(&v, bytes.data(), std::min(bytes.size(), sizeof v));
  return v;
}

// The records of a file, each checked against its sums as TensorFlow's reader does.
std::vector<std::string> records_of(const fs::path& path) {
  const std::string file = read_file(path);
  const auto sum = [&](std::size_t at, std::size_t size) {
    const std::uint32_t crc = crc32c(0, std::as_bytes(std::span(file).subspan(at, size)));
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
  };
  std::vector<std::string> records;
  for (std::size_t at = 0; at < file.size();) {
    const auto length = number_in<std::uint64_t>(file.substr(at, 8));
    EXPECT_EQ(number_in<std::uint32_t>(file.substr(at + 8, 4)), sum(at, 8));
    records.push_back(file.substr(at + 12, length));
    EXPECT_EQ(number_in<std::uint32_t>(file.substr(at + 12 + length, 4)), sum(at + 12, length));
    at += 16 + length;
  }
  return records;
}

// Source: RFC 3720, B.4: 32 bytes of zeros have 0x8a9136aa.
TEST(TensorBoard, RecordsAreFramed) {
  const std::string zeros(32, '\0'), record = tfrecord_of(zeros);
  ASSERT_EQ(record.size(), 8u + 4 + 32 + 4);
  const std::uint32_t crc = 0x8a9136aa;
  EXPECT_EQ(number_in<std::uint32_t>(record.substr(44)), (crc >> 15 | crc << 17) + 0xa282ead8u);
}

TEST(TensorBoard, EventsOfARunAreReadBack) {
  const TemporaryFolder folder;
  Model model = Model::load(std::string(TANDEM_SOURCE_DIR) + "/models/mlp.onnx");
  ModelOptions options;
  options.plan.devices = parse_devices("cpu");
  options.plan.batch = 16;
  options.init = "he-normal";
  model.compile(options, backends);
  const Splits data = open_data("synthetic:digits,train=32,test=16", model.data_request());
  const History history = model.fit(*data.train, {.epochs = 2,
                                                  .learning_rate = 0.05,
                                                  .validation = data.test.get(),
                                                  .run_dir = folder / "run",
                                                  .tensorboard = true,
                                                  .histograms = true});
  fs::path events;
  for (const auto& entry : fs::directory_iterator(folder / "run"))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) events = entry.path();
  ASSERT_FALSE(events.empty());
  std::map<std::string, std::map<std::uint64_t, double>> scalars;
  std::map<std::string, int> histograms;
  std::size_t nodes = 0;
  const std::vector<std::string> records = records_of(events);
  ASSERT_FALSE(records.empty());
  EXPECT_EQ(field(records[0], 3), "brain.Event:2");
  for (const std::string& event : records) {
    std::uint64_t step = 0;
    for (const ProtoField& f : fields_of(event)) {
      if (f.number == 2) step = f.value;
      if (f.number == 4)
        for (const ProtoField& node : fields_of(f.bytes)) nodes += node.number == 1;
      if (f.number != 5) continue;
      for (const ProtoField& value : fields_of(f.bytes)) {
        const std::string tag = field(value.bytes, 1), real = field(value.bytes, 2), histogram = field(value.bytes, 5);
        if (!real.empty()) scalars[tag][step] = static_cast<double>(number_in<float>(real));
        if (histogram.empty()) continue;
        ++histograms[tag];
        const std::string counts = field(histogram, 7);
        double sum = 0;
        for (std::size_t at = 0; at < counts.size(); at += 8) sum += number_in<double>(counts.substr(at));
        EXPECT_EQ(sum, number_in<double>(field(histogram, 3))) << tag;
        EXPECT_EQ(counts.size(), field(histogram, 6).size());
        EXPECT_LE(number_in<double>(field(histogram, 1)), number_in<double>(field(histogram, 2)));
      }
    }
  }
  EXPECT_EQ(scalars["loss/step"].size(), 4u);
  EXPECT_EQ(scalars["learning_rate/step"].at(4), static_cast<double>(0.05f));
  for (const EpochReport& e : history.epochs) {
    const auto step = static_cast<std::uint64_t>(e.step);
    EXPECT_EQ(scalars["loss/training"].at(step), static_cast<double>(static_cast<float>(e.loss)));
    EXPECT_EQ(scalars["loss/validation"].at(step), static_cast<double>(static_cast<float>(e.val_loss)));
    EXPECT_EQ(scalars["accuracy/validation"].at(step), static_cast<double>(static_cast<float>(e.val_accuracy)));
  }
  EXPECT_EQ(histograms.size(), model.parameters().size());
  for (const auto& [tag, times] : histograms) EXPECT_EQ(times, 2) << tag;
  EXPECT_GT(nodes, 6u);
  // TensorBoard's own reader, where it is installed.
  const std::string python = std::getenv("TANDEM_PYTHON") ? std::getenv("TANDEM_PYTHON") : "python3";
  const std::string said = (folder / "said").string();
  if (std::system((python + " -c 'import tensorboard' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "Python's tensorboard is not installed: read back by this test alone";
  folder.write("read.py",
               "import sys\n"
               "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
               "e = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0, 'histograms': 0})\n"
               "e.Reload()\n"
               "print(len(e.Scalars('loss/step')), len(e.Tags()['histograms']), e.Tags()['graph'], len(e.Graph().node) > 6)\n");
  ASSERT_EQ(
      std::system(concat(python, " ", (folder / "read.py").string(), " ", (folder / "run").string(), " > ", said, " 2>/dev/null").c_str()),
      0);
  EXPECT_EQ(read_file(said), concat("4 ", histograms.size(), " True True\n"));
}

TEST(CheckpointFile, OfTheFormerFormIsRead) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "old");
  ZipWriter zip([&](std::string_view bytes) { file.append(bytes); });
  zip.add("state.json", R"({"version": "tandem checkpoint 2", "step": 7})");
  zip.add("weights/a/w.npy", npy_of(Tensor::of<float>({2}, {1, 2})));
  zip.add("optimizer/momentum/a/w.npy", npy_of(Tensor::of<float>({2}, {3, 4})));
  zip.finish();
  file.commit();
  const Checkpoint old = read_checkpoint(folder / "old");
  EXPECT_EQ(old.state.at("step").integer(), 7);
  ASSERT_EQ(old.weights.size(), 1u);
  EXPECT_EQ(old.weights[0].name, "a/w");
  ASSERT_EQ(old.optimizer.size(), 1u);
  EXPECT_EQ(old.optimizer[0].tensor.values<float>()[1], 4);
}

TEST(CheckpointFile, KeepsNamesOfAnyBytesAndEveryType) {
  const TemporaryFolder folder;
  Checkpoint c{.state = Json::Object{{"step", 1}}, .weights = {}, .optimizer = {}};
  for (const char* name : {"plain", "100%", "%41", "gr\xc3\xbc\xc3\x9f", "\xff\xfe", "\"quoted\"\n", ""})
    c.weights.push_back({name, Tensor::of<float>({1}, {1.5f})});
  for (const DType t : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::boolean, DType::int8, DType::int16,
                        DType::int32, DType::int64, DType::uint8, DType::uint16, DType::uint32, DType::uint64})
    c.optimizer.push_back({std::string(name_of(t)), Tensor(TensorType{t, {2, 3}})});
  c.optimizer.push_back({"scalar", Tensor::scalar(3.0)});
  c.optimizer.push_back({"empty", Tensor(TensorType{DType::float32, {0, 4}})});
  write_checkpoint(folder / "c", c);
  const Checkpoint back = read_checkpoint(folder / "c");
  ASSERT_EQ(back.weights.size(), c.weights.size());
  for (std::size_t i = 0; i < c.weights.size(); ++i) EXPECT_EQ(back.weights[i].name, c.weights[i].name);
  ASSERT_EQ(back.optimizer.size(), c.optimizer.size());
  for (std::size_t i = 0; i < c.optimizer.size(); ++i)
    EXPECT_EQ(to_string(back.optimizer[i].tensor.type()), to_string(c.optimizer[i].tensor.type()));
}

TEST(CheckpointFile, IsReadByPythonsSafetensors) {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", {.state = Json::Object{{"step", 12}},
                                  .weights = {{"a/b.w", Tensor::of<float>({2, 2}, {1, -2, 0.5f, 4})}},
                                  .optimizer = {{"momentum/a/b.w", Tensor::of<float>({2, 2}, {5, 6, 7, 8})}}});
  const std::string python = std::getenv("TANDEM_PYTHON") ? std::getenv("TANDEM_PYTHON") : "python3";
  if (std::system((python + " -c 'import safetensors, numpy' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "Python's safetensors is not installed";
  folder.write("read.py",
               "import json, sys\nfrom safetensors import safe_open\n"
               "with safe_open(sys.argv[1], 'np') as f:\n"
               "    print(sorted(f.keys()), json.loads(f.metadata()['state'])['step'], f.get_tensor('weights/a/b.w').tolist())\n");
  ASSERT_EQ(
      std::system(
          concat(python, " ", (folder / "read.py").string(), " ", (folder / "c").string(), " > ", (folder / "said").string()).c_str()),
      0);
  EXPECT_EQ(read_file(folder / "said"), "['optimizer/momentum/a/b.w', 'weights/a/b.w'] 12 [[1.0, -2.0], [0.5, 4.0]]\n");
}

TEST(RunFolders, KeepTheLatestCheckpoints) {
  const TemporaryFolder folder;
  Model model = Model::load(std::string(TANDEM_SOURCE_DIR) + "/models/mlp.onnx");
  ModelOptions options;
  options.plan.devices = parse_devices("cpu");
  options.plan.batch = 8;
  options.init = "he-normal";
  model.compile(options, backends);
  const Splits data = open_data("synthetic:digits,train=80,test=16", model.data_request());
  const History history =
      model.fit(*data.train, {.epochs = 1, .learning_rate = 0.05, .run_dir = folder / "run", .checkpoint_steps = 2, .keep_checkpoints = 3});
  EXPECT_EQ(history.kept, 10);
  EXPECT_EQ(history.checkpoints, 5);
  std::set<std::string> there;
  for (const auto& entry : fs::directory_iterator(folder / "run"))
    if (const std::string name = entry.path().filename().string(); name.starts_with("step-")) there.insert(name);
  EXPECT_EQ(there, (std::set<std::string>{"step-6.checkpoint", "step-8.checkpoint", "step-10.checkpoint"}));
  EXPECT_EQ(read_checkpoint(folder / "run/step-6.checkpoint").state.at("step").integer(), 6);
  EXPECT_EQ(read_checkpoint(folder / "run/last.checkpoint").state.at("step").integer(), 10);
}

// A weight that is lost although the loss is finite is found at its step, and the checkpoint before it stays.
TEST(CheckNan, StopsAtTheStepAndNamesTheNode) {
  const TemporaryFolder folder;
  Model model = Model::load(std::string(TANDEM_SOURCE_DIR) + "/models/mlp.onnx");
  ModelOptions options;
  options.plan.devices = parse_devices("cpu");
  options.plan.batch = 8;
  options.init = "he-normal";
  model.compile(options, backends);
  MemoryDataset data("poisoned at its 6th batch");
  Tensor x(TensorType{DType::float32, {80, 1, 28, 28}}), y(TensorType{DType::int64, {80}});
  for (float& v : x.write<float>().subspan(40 * 784)) v = std::numeric_limits<float>::max();
  data.add({.name = "image"}, std::move(x));
  data.add({.name = "y", .role = Role::label}, std::move(y));
  const FitOptions fit{
      .epochs = 1, .learning_rate = 0.01, .shuffle = false, .run_dir = folder / "run", .checkpoint_steps = 2, .check_nan = true};
  try {
    model.fit(data, fit);
    FAIL() << "it went on";
  } catch (const Error& e) {
    const std::string said = e.what();
    EXPECT_EQ(e.code(), ExitCode::diverged) << said;
    EXPECT_NE(said.find("at step 6 "), std::string::npos) << said;
    EXPECT_NE(said.find(" made "), std::string::npos) << "the node: " << said;
    EXPECT_NE(said.find("the checkpoint of step 4 in "), std::string::npos) << said;
  }
  EXPECT_EQ(read_checkpoint(folder / "run/last.checkpoint").state.at("step").integer(), 4);
  const Json end = Json::parse(read_file(folder / "run/end.json"));
  EXPECT_EQ(end.at("state").text(), "failed");
}

TEST(Metrics, OfAnyNameAreInCsvJsonAndCurves) {
  const std::vector<EpochReport> epochs{{.epoch = 1, .step = 10, .loss = 0.5, .learning_rate = 0.1, .metrics = {{"f1", 0.25}}},
                                        {.epoch = 2, .step = 20, .loss = 0.4, .learning_rate = 0.1, .metrics = {{"f1", 0.5}, {"val_f1", 0.75}}}};
  EXPECT_EQ(csv_of(epochs), "epoch,step,loss,accuracy,val_loss,val_accuracy,f1,val_f1,learning_rate,seconds,samples_per_second\n"
                            "1,10,0.5,,,,0.25,,0.1,0,0\n2,20,0.4,,,,0.5,0.75,0.1,0,0\n");
  EXPECT_EQ(epoch_report(Json::parse(json_of(epochs[1]).dump())).metrics, epochs[1].metrics);
  const LossTrace none;
  const std::vector<Panel> panels = panels_of(epochs, {none, none, 10});
  ASSERT_EQ(panels.size(), 1u);
  EXPECT_EQ(panels[0].title, "f1");
  EXPECT_EQ(panels[0].series.size(), 2u);
  const std::string png = png_of(panels);
  EXPECT_TRUE(png.starts_with("\x89PNG\r\n\x1a\n"));
  EXPECT_TRUE(png.ends_with(std::string_view("\0\0\0\0IEND\xae\x42\x60\x82", 12)));
}

}  // namespace
}  // namespace tandem
