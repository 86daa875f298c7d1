// Plans and estimates for devices that are not here.
#include <cstdlib>
#include <map>

#include "base/file.h"
#include "tests/cli/run_tandem.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

class Described : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path folder = std::filesystem::path(TANDEM_PROGRAM).parent_path();
    if (!std::filesystem::exists(folder / "libtandem_described.so"))
      GTEST_SKIP() << "a build with sanitizers has no libtandem_described.so";
    setenv("TANDEM_BACKEND_PATH", folder.c_str(), 1);
  }
  void TearDown() override { unsetenv("TANDEM_BACKEND_PATH"); }

  Outcome run(const std::string& line) const { return run_tandem(words(line, folder_.text())); }
  Json json(const std::string& line) const {
    const Outcome o = run(line);
    EXPECT_EQ(o.code, 0) << o.err;
    return Json::parse(o.out);
  }
  const TemporaryFolder folder_;
};

double seconds(const Json& row) { return row.at("seconds").number(); }

TEST_F(Described, APlanSaysOnceThatItsKernelsAreAssumed) {
  const Outcome o = run("plan MODELS/lenet.onnx --devices h100:0-7 --batch-size 64 --precision bf16");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("h100:0-7"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("NVIDIA H100 SXM 80GB"), std::string::npos);
  EXPECT_NE(o.out.find("assumed."), std::string::npos);
  EXPECT_EQ(o.out.find("native."), std::string::npos);
  const std::size_t note = o.err.find("note: devices h100 are described, not here");
  ASSERT_NE(note, std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("are described", note + 40), std::string::npos) << "once: " << o.err;
}

TEST_F(Described, EveryModelHasAPlanForEveryDevice) {
  for (const char* const device : {"t4", "titan-black", "mi300x"})
    for (const char* const model : {"mlp", "lenet", "mini_googlenet", "mobilenetv2", "resnet18"}) {
      const Outcome o = run(concat("plan MODELS/", model, ".onnx --devices ", device, ":0-1 --batch-size 8 --format json"));
      EXPECT_EQ(o.code, 0) << device << ' ' << model << o.err;
    }
}

std::vector<double> slices(const Json& plan) {
  std::vector<double> sizes;
  for (const Json& d : plan.at("devices").array()) sizes.push_back(d.at("slice_size").number());
  return sizes;
}

TEST_F(Described, UnlikeDevicesShareABatchByTimeOrMemory) {
  const std::string line = "plan MODELS/resnet18.onnx --devices titan-x:0,titan-black:0 --batch-size 90 --format json";
  const Json equal = json(line), fast = json(line + " --slice-weights auto"), full = json(line + " --slice-weights memory");
  EXPECT_EQ(slices(equal), (std::vector<double>{45, 45}));
  EXPECT_GT(slices(fast)[0], 45);
  EXPECT_EQ(slices(fast)[0] + slices(fast)[1], 90);
  EXPECT_LT(seconds(fast), seconds(equal));
  double memory[2];
  for (const std::size_t p : {0, 1}) memory[p] = full.at("programs").array().at(p).at("model").at("memory").number();
  EXPECT_NEAR(slices(full)[0], 90 * memory[0] / (memory[0] + memory[1]), 2);
  const Outcome split = run(line + " --parallel tensor=2 --slice-weights auto");
  EXPECT_EQ(split.code, 2);
  EXPECT_NE(split.err.find("--slice-weights auto: it is for replicas"), std::string::npos) << split.err;
}

TEST_F(Described, ADeviceThatOnlyDelaysIsNamed) {
  const Outcome o = run("plan MODELS/lenet.onnx --devices h100:0,titan-black:0 --batch-size 8 --slice-weights auto --format summary");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find("note: --slice-weights auto is "), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("titan-black:0 only delays: the estimated step is "), std::string::npos) << o.err;
}

TEST_F(Described, ThisMachineIsDescribedForPlans) {
  const Outcome described = run("devices --describe TMP/mine.json");
  ASSERT_EQ(described.code, 0) << described.err;
  const Json kind = Json::parse(read_file(folder_ / "mine.json")).at("devices").array().at(0);
  EXPECT_EQ(kind.at("name").text(), "this-machine");
  EXPECT_GT(kind.at("tflops").at("fp32").number(), 0);
  for (const char* share : {"products", "convolutions", "fp32", "memory"}) {
    EXPECT_GT(kind.at("achieved").at(share).number(), 0.01) << share;
    EXPECT_LE(kind.at("achieved").at(share).number(), 1) << share;
  }
  EXPECT_EQ(run("plan MODELS/lenet.onnx --cluster TMP/mine.json --devices this-machine:0-1 --batch-size 8 --format summary").code, 0);
}

// On a busy machine times are disturbed, and are not used.
TEST_F(Described, ACalibrationIsKeptForPlans) {
  const char* const before = std::getenv("TANDEM_CACHE");
  const std::string kept = before ? before : "";
  setenv("TANDEM_CACHE", folder_.text().c_str(), 1);
  const Json calibration = json("devices --calibrate --json");
  std::map<int, double> spreads;  // by a device's cores
  for (const Json& c : calibration.at("calibrations").array()) {
    EXPECT_EQ(c.at("kernels").array().size(), 18u);
    spreads[static_cast<int>(c.at("cores").number())] = c.at("spread").number();
  }
  const int cores = spreads.rbegin()->first;
  ASSERT_TRUE(spreads.contains(1)) << "of devices that have a core each";
  for (const int devices : {1, cores}) {
    const Json plan = json(concat("plan MODELS/lenet.onnx --batch-size 64 --devices cpu:0-", devices - 1, " --json"));
    const std::string name = plan.at("programs").array().at(0).at("model").at("name").text();
    EXPECT_EQ(name.find("calibrated +-") != std::string::npos, spreads.at(cores / devices) > 0) << name;
  }
  before ? setenv("TANDEM_CACHE", kept.c_str(), 1) : unsetenv("TANDEM_CACHE");
}

TEST_F(Described, APlanFileIsWrittenAndChecked) {
  ASSERT_EQ(run("plan MODELS/lenet.onnx --devices a100-40:0-1 --format plan --output TMP/l.plan").code, 0);
  const Outcome o = run("plan --check TMP/l.plan");
  EXPECT_EQ(o.code, 0) << o.err;
}

// What devices leave to their host goes at the rate of the description, whatever this machine is.
TEST_F(Described, TheHostHasTheLinkOfItsDevices) {
  struct Row {
    const char* line;
    double rate;  // bytes/s
  };
  for (const Row& row : {Row{"h100:0 --offload activations", 55.4e9}, Row{"t4:0 --offload optimizer", 13.9e9},
                         Row{"a100-40:0 --weights-on cpu:0", 27.3e9}, Row{"h100:0-1 --offload activations --memory-budget 70%", 55.4e9}}) {
    SCOPED_TRACE(row.line);
    const Json plan = json(concat("plan MODELS/resnet18.onnx --batch-size 64 --format json --devices ", row.line));
    double most = 0, seconds = 0;  // of the largest exchange
    for (const Json& e : plan.at("exchanges").array())
      if (const double bytes = 4 * e.at("elements").number(); bytes > most) most = bytes, seconds = e.at("seconds").number();
    EXPECT_GT(most, 1e6);
    EXPECT_GE(seconds, most / row.rate);
    EXPECT_LE(seconds, 1.1 * most / row.rate);
    const Json& host = plan.at("programs").array().back();
    EXPECT_EQ(host.at("devices").array()[0].text(), "cpu:0");
    EXPECT_EQ(host.at("model").at("name").text().find("host of NVIDIA"), 0u);
    EXPECT_EQ(host.at("model").at("memory").number(), 0) << "this machine's says nothing of it";
    EXPECT_NE(plan.at("warnings").dump().find("cpu:0 stands for the host of NVIDIA"), std::string::npos) << plan.at("warnings").dump();
  }
}

// Buffers begin at multiples of 256 bytes on a GPU and of 64 on a CPU; what they exchange is as large on both.
TEST_F(Described, DevicesOfTwoKindsExchangeBuckets) {
  for (const char* devices :
       {"h100:0-3 --merge cpu", "h100:0,cpu:0", "h100:0,cpu:0 --parallel zero=2", "h100:0,cpu:0 --parallel tensor=2"}) {
    const Outcome o = run(concat("plan MODELS/lenet.onnx --batch-size 64 --format summary --devices ", devices));
    EXPECT_EQ(o.code, 0) << devices << ": " << o.err;
  }
}

// A host that keeps or updates has no samples.
TEST_F(Described, DevicesWithSamplesAreCounted) {
  const auto text = [&](const std::string& options) { return run("plan MODELS/resnet18.onnx --batch-size 64 --devices " + options).out; };
  const std::string kept = text("h100:0 --offload activations --format summary"),
                    homes = text("h100:0-1 --weights-on cpu:0 --format summary");
  EXPECT_NE(kept.find("batch           64 on 1 device (1 more has no samples)"), std::string::npos) << kept;
  EXPECT_NE(homes.find("batch           64 over 2 devices (1 more has no samples)"), std::string::npos) << homes;
  const Json row = json("plan MODELS/resnet18.onnx --devices h100 --offload activations --what-if batch=16/device --json").array()[0];
  EXPECT_EQ(row.at("devices").number(), 1);
  EXPECT_EQ(row.at("batch").number(), 16);
  EXPECT_GT(row.at("memory").number(), 0);
}

TEST_F(Described, RowsScaleAndAFasterLinkIsNeverSlower) {
  const Json rows = json("plan MODELS/resnet18.onnx --devices v100-16 --batch-size 32 --what-if devices=1..16,link=1|100,price=3 --json");
  ASSERT_EQ(rows.array().size(), 10u);
  for (std::size_t i = 0; i < 5; ++i) {
    const Json &slow = rows.array()[i], &fast = rows.array()[i + 5];
    EXPECT_EQ(slow.at("devices").integer(), 1 << i);
    EXPECT_EQ(slow.at("batch").integer(), 32 << i) << "each device keeps its samples";
    EXPECT_LE(seconds(fast), seconds(slow));
    EXPECT_LE(slow.at("efficiency").number(), 1.0 + 1e-9);
    EXPECT_NEAR(slow.at("cost").number(), 1e6 / slow.at("samples_per_second").number() * slow.at("devices").number() * 3 / 3600, 1e-6);
    const Json& bounds = slow.at("bounds");
    double sum = 0;
    for (const auto& [name, part] : bounds.object()) sum += part.number();
    EXPECT_NEAR(sum, seconds(slow), 1e-9);
  }
  EXPECT_LT(seconds(rows.array()[9]), seconds(rows.array()[4])) << "two machines, by links a hundred times as fast";
}

TEST_F(Described, ABatchForAllIsSharedAndOneOfEachGrows) {
  const Json shared = json("plan MODELS/mlp.onnx --devices h100 --what-if devices=1..4,batch=64 --json");
  EXPECT_EQ(shared.array()[2].at("batch").integer(), 64);
  const Json each = json("plan MODELS/mlp.onnx --devices h100 --what-if devices=1..4,batch=64/device --json");
  EXPECT_EQ(each.array()[2].at("batch").integer(), 256);
}

TEST_F(Described, WhatDoesNotFitSaysByHowMuchAndWhatWouldHelp) {
  const Outcome o = run("plan MODELS/resnet18.onnx --devices titan-black --what-if batch=8|512");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("no plan"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("the largest batch that fits is"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("--micro-batches"), std::string::npos) << o.out;
}

TEST_F(Described, AClusterFileDescribesDevices) {
  folder_.write("c.json", R"({"devices": [{"name": "mine", "product": "My board", "memory_gib": 8, "memory_gbs": 500,
    "tflops": {"fp32": 10}, "links": [{"link": "bus", "devices": 2, "gbs": 10}, {"link": "lan", "gbs": 1}]}]})");
  const Json plan = json("plan MODELS/lenet.onnx --devices mine:0-3 --cluster TMP/c.json --format json");
  EXPECT_NE(plan.dump().find("My board"), std::string::npos);
  folder_.write("bad.json", R"({"devices": [{"name": "mine", "memory_gib": 0, "memory_gbs": 500, "tflops": {"fp32": 10}}]})");
  const Outcome o = run("plan MODELS/lenet.onnx --devices mine --cluster TMP/bad.json");
  EXPECT_EQ(o.code, 2);
  EXPECT_NE(o.err.find("bad.json, device 0 'mine': memory_gib is 0, expected a number above 0"), std::string::npos) << o.err;
}

TEST_F(Described, AChartIsWritten) {
  for (const char* const ending : {"svg", "png"}) {
    ASSERT_EQ(run(concat("plan MODELS/mlp.onnx --devices l4 --what-if devices=1..8 --output TMP/c.", ending)).code, 0);
    EXPECT_GT(std::filesystem::file_size(folder_ / concat("c.", ending)), 1000u);
  }
}

TEST_F(Described, KnownDevicesArePrintedAsAClusterFileTakesThem) {
  const Outcome o = run("devices --known --json");
  ASSERT_EQ(o.code, 0) << o.err;
  folder_.write("k.json", o.out);
  EXPECT_EQ(run("plan MODELS/mlp.onnx --devices h200 --cluster TMP/k.json --format summary").code, 0);
}

TEST_F(Described, NonsenseIsNamed) {
  struct Row {
    std::string line;
    int code;
    std::string wanted;
  };
  for (const Row& row : {
           Row{"plan MODELS/mlp.onnx --devices a100-4", 5, "device a100-4:0: there is no such backend, nor a description of such a device, did you mean 'a100-40'?"},
           Row{"plan MODELS/mlp.onnx --devices v100-16 --precision bf16", 5, "NVIDIA V100 SXM2 16GB has no products in bf16: it has fp32, fp16"},
           Row{"train MODELS/mlp.onnx --data random --devices h100 --output TMP/o.onnx", 5, "h100 stands for a device that is described"},
           Row{"plan MODELS/mlp.onnx --devices h100 --what-if device=2", 2, "--what-if: unknown 'device', did you mean 'devices'?"},
           Row{"plan MODELS/mlp.onnx --devices h100 --what-if devices=0", 2, "devices=0, expected N or N..M from 1 to 1024"},
           Row{"plan MODELS/mlp.onnx --devices h100 --what-if devices=4..2", 2, "devices=4..2"},
           Row{"plan MODELS/mlp.onnx --devices h100 --what-if batch=0", 2, "batch=0, expected a whole number from 1"},
           Row{"plan MODELS/mlp.onnx --devices h100 --what-if batch=1.5", 2, "--what-if: batch: '1.5' is not a whole number"},
           Row{"plan MODELS/mlp.onnx --devices h100 --what-if batch=99999999999999/device", 2, "batch=99999999999999, expected a whole number from 1"},
           Row{"plan MODELS/mlp.onnx --devices h100 --what-if precision=bf17", 2, "precision=bf17, did you mean 'bf16'?"},
           Row{"plan MODELS/mlp.onnx --devices h100 --what-if link", 2, "'link', expected KEY=VALUES"},
           Row{"plan MODELS/mlp.onnx --devices h100 --what-if link=1,link=2", 2, "link is there twice"},
           Row{"plan MODELS/mlp.onnx --devices cpu --what-if link=1", 2, "link=... is for devices that are described"},
           Row{"plan MODELS/mlp.onnx --devices titan-x,titan-black --what-if devices=4", 2, "devices=... is for devices of one kind"},
           Row{"plan MODELS/mlp.onnx --devices h100 --what-if devices=4 --output TMP/a.html", 2, "expected a name that ends in .svg or .png"},
           Row{"plan MODELS/mlp.onnx --devices h100 --cluster TMP/none.json", 7, "none.json"},
       }) {
    const Outcome o = run(row.line);
    EXPECT_EQ(o.code, row.code) << row.line << '\n' << o.err;
    EXPECT_NE(o.err.find(row.wanted), std::string::npos) << row.line << '\n' << o.err;
  }
}

}  // namespace
}  // namespace tandem
