// What a plan keeps of a kernel is enough to make that very kernel again: for all that plans of the project's models ask for.
// tests/CMakeLists.txt runs this once for each instruction set that oneDNN can be limited to, in a process of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "importer/model_file.h"
#include "kernels/cpu/backend.h"
#include "planner/compile.h"

namespace tandem {
namespace {

// The CPU with devices of a given number of threads, which keeps what was asked for.
class Recorder final : public Backend {
 public:
  explicit Recorder(int threads) : threads_(threads) {}
  std::string name() const override { return "cpu"; }
  std::string version() const override { return cpu_backend().version(); }
  std::string unusable() const override { return {}; }
  int device_count() const override { return cpu_backend().device_count(); }
  std::string declines(Precision precision) const override { return cpu_backend().declines(precision); }
  std::vector<KernelRow> rows() const override { return cpu_backend().rows(); }
  DeviceModel model(int index, int devices) const override {
    DeviceModel m = cpu_backend().model(index, devices);
    m.threads = threads_;
    return m;
  }
  std::vector<KernelDescription> describe(const KernelRequest& request) const override {
    std::vector<KernelDescription> all = cpu_backend().describe(request);
    for (const KernelDescription& d : all) check(request, d);
    return all;
  }
  Timing measure(const KernelDescription&, const KernelOptions&) const override { return {}; }
  std::unique_ptr<Device> open(int index, const KernelOptions& options) const override { return cpu_backend().open(index, options); }

  // Now that a library's caches hold every kernel that was made.
  void check_again() const {
    for (Kept& k : kept_) {
      k.request.op = k.op;
      k.request.kernel = k.made.kernel;
      k.request.attributes = &k.attributes;
      const std::vector<KernelDescription> again = cpu_backend().describe(k.request);
      const auto same = std::find_if(again.begin(), again.end(),
                                     [&](const KernelDescription& d) { return d.inputs == k.made.inputs && d.outputs == k.made.outputs; });
      ASSERT_NE(same, again.end()) << k.what;
      EXPECT_EQ(same->workspace, k.made.workspace) << k.what;
      EXPECT_NE(same->make(), nullptr) << k.what;
    }
  }

  mutable std::set<std::string> seen;
  mutable int kernels = 0;

 private:
  // As the runtime does it with a plan's step.
  void check(const KernelRequest& request, const KernelDescription& d) const {
    std::string what = concat(d.kernel, " with ", d.workspace, " bytes of workspace {", *request.attributes, "}");
    for (const auto* operands : {&d.inputs, &d.outputs})
      for (const Operand& o : *operands) what += concat(' ', to_string(o));
    if (!seen.insert(what).second) return;
    KernelRequest kept = request;
    kept.kernel = d.kernel;
    kept.inputs = d.inputs;
    kept.outputs = d.outputs;
    for (const KernelDescription& again : cpu_backend().describe(kept)) {
      if (again.inputs != d.inputs || again.outputs != d.outputs) continue;
      EXPECT_EQ(again.workspace, d.workspace) << threads_ << " threads: " << what;
      EXPECT_EQ(again.efficiency, d.efficiency) << threads_ << " threads: " << what;
      EXPECT_NE(again.make(), nullptr) << threads_ << " threads: " << what;
      kept_.push_back({std::string(request.op), *request.attributes, kept, d, concat(threads_, " threads: ", what)});
      ++kernels;
      return;
    }
    ADD_FAILURE() << threads_ << " threads: not offered again: " << what;
  }

  struct Kept {
    std::string op;
    Attributes attributes;
    KernelRequest request;
    KernelDescription made;
    std::string what;
  };
  mutable std::vector<Kept> kept_;
  int threads_;
};

TEST(ModelKernels, WhatIsDescribedIsWhatIsMade) {
  for (const int threads : {1, 2, 4}) {
    const Recorder recorder(threads);
    const Backend* const backends[] = {&recorder};
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(TANDEM_SOURCE_DIR) / "models")) {
      if (entry.path().extension() != ".onnx") continue;
      const ModelFile file = ModelFile::read(entry.path());
      for (const Precision precision : {Precision::fp32, Precision::bf16}) {
        if (!recorder.declines(precision).empty()) continue;
        // oneDNN's products for AMX chose other blocks from 64 on; one row has strides that say nothing
        for (const std::int64_t batch : {64, 1}) {
          if (batch == 1 && threads != 2) continue;
          CompileOptions o;
          o.batch = batch;
          o.devices = {{{"cpu", 0}}};
          o.optimizer.momentum = 0.9;
          o.precision = precision;
          o.memory.free = {std::int64_t{1} << 60};
          compile([&](std::int64_t n) { return file.graph({.batch = n}); }, o, backends);
        }
      }
    }
    recorder.check_again();
    EXPECT_GT(recorder.kernels, 500);
    std::cout << recorder.version() << ", " << threads << " threads: " << recorder.kernels << " kernels\n";
  }
}

}  // namespace
}  // namespace tandem
