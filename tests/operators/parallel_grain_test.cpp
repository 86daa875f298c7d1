// How many threads have work in each of the CPU's own kernels, on processors with more cores than this one has.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "graph/half.h"
#include "graph/step_scalars.h"
#include "importer/model_file.h"
#include "kernels/cpu/machine.h"
#include "runtime/step_kernel.h"
#include "tests/operators/counted_team.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;

// Bytes of its largest operand for each thread that a kernel is to keep at work: a few microseconds, which starting a team takes, too.
constexpr std::int64_t worth_a_thread = 128 << 10;
constexpr double least_share = 0.9;  // of those threads

// The CPU with devices of so many threads.
class ManyThreads final : public AskedCpu {
 public:
  explicit ManyThreads(int threads) : threads_(threads) {}
  DeviceModel model(int index, int devices_in_use) const override {
    DeviceModel m = AskedCpu::model(index, devices_in_use);
    m.threads = threads_;
    return m;
  }
  Gain fuses(const KernelRequest& request) const override { return cpu_backend().fuses(request); }

 private:
  int threads_;
};

// A block of a language model of BERT's size: 128 tokens of a sample, 12 heads of 64.
Graph language_model(std::int64_t n) {
  constexpr std::int64_t tokens = 128, heads = 12, size = 64, width = heads * size, words = 8192;
  Builder b;
  b.graph.name = "language_model";
  const ValueId ids = b.graph.add_input("ids", {DType::int64, {n, tokens}});
  ValueId x = b.node("Gather", {b.weight("words", {words, width}, 0.02F), ids}, {{"axis", std::int64_t{0}}});
  x = b.node("Add", {x, b.weight("places", {1, tokens, width}, 0.02F)});
  const auto by_heads = [&](const char* name, const ValueId from, Ints perm) {
    return b.node("Transpose", {b.node("Reshape", {dense(b, from, name, width, width)}, {{"shape", Ints{n, tokens, heads, size}}})},
                  {{"perm", std::move(perm)}});
  };
  const ValueId y = normal(b, x, "norm1");
  const ValueId q = by_heads("q", y, {0, 2, 1, 3}), k = by_heads("k", y, {0, 2, 3, 1}), v = by_heads("v", y, {0, 2, 1, 3});
  const ValueId scores = b.node("Softmax", {b.node("MatMul", {q, k})}, {{"axis", std::int64_t{-1}}});
  const ValueId read = b.node("Transpose", {b.node("MatMul", {scores, v})}, {{"perm", Ints{0, 2, 1, 3}}});
  x = b.node("Add", {x, dense(b, b.node("Reshape", {read}, {{"shape", Ints{n, tokens, width}}}), "proj", width, width)});
  x = b.node("Add", {x, dense(b, b.node("Gelu", {dense(b, normal(b, x, "norm2"), "up", width, 4 * width)}), "down", 4 * width, width)});
  b.graph.outputs = {b.node("MatMul", {normal(b, x, "norm3"), b.weight("head", {width, words}, 0.02F)})};
  return b.graph;
}

// Sentences of 64 words, read by two layers of LSTM cells, one of them in both directions.
Graph sentence_classifier(std::int64_t n) {
  constexpr std::int64_t steps = 64, width = 256, words = 8192, classes = 16;
  Builder b;
  b.graph.name = "sentence_classifier";
  const auto layer = [&](ValueId x, const std::string& name, std::int64_t in, std::int64_t directions) {
    const ValueId w = b.weight(name + ".w", {directions, 4 * width, in}, 0.05F);
    const ValueId r = b.weight(name + ".r", {directions, 4 * width, width}, 0.05F);
    Attributes cells{{"hidden_size", width}, {"direction", std::string(directions == 2 ? "bidirectional" : "forward")}};
    const ValueId y = b.node("LSTM", {x, w, r}, std::move(cells));  // [steps, directions, n, width]
    const ValueId by_sample = b.node("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}});
    return b.node("Reshape", {by_sample}, {{"shape", Ints{steps, n, directions * width}}});
  };
  const ValueId ids = b.graph.add_input("ids", {DType::int64, {n, steps}});
  ValueId x = b.node("Gather", {b.weight("words", {words, width}, 0.02F), ids}, {{"axis", std::int64_t{0}}});
  x = b.node("Transpose", {x}, {{"perm", Ints{1, 0, 2}}});
  x = layer(layer(x, "both", width, 2), "forward", 2 * width, 1);
  x = b.node("ReduceMean", {x}, {{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}});
  b.graph.outputs = {dense(b, x, "head", width, classes)};
  return b.graph;
}

// LeNet's layers on larger images: of their channels oneDNN's blocks of sixteen would be half empty.
Graph small_convnet(std::int64_t n) {
  Builder b;
  b.graph.name = "small_convnet";
  const auto conv = [&](ValueId x, const char* name, std::int64_t in, std::int64_t out) {
    const Ints ones{1, 1}, two{2, 2}, none{0, 0, 0, 0};
    x = b.node("Conv", {x, b.weight(name, {out, in, 5, 5}, 0.1F)},
               {{"kernel_shape", Ints{5, 5}}, {"strides", ones}, {"pads", Ints{2, 2, 2, 2}}, {"dilations", ones}, {"group", std::int64_t{1}}});
    x = b.node("Relu", {x});
    return b.node("MaxPool", {x}, {{"kernel_shape", two}, {"strides", two}, {"pads", none}, {"dilations", ones}});
  };
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 3, 64, 64}});
  x = conv(conv(x, "c1", 3, 20), "c2", 20, 50);
  x = b.node("Flatten", {x}, {{"axis", std::int64_t{1}}});
  b.graph.outputs = {dense(b, x, "head", 50 * 16 * 16, 16)};
  return b.graph;
}

Graph resnet50(std::int64_t n) {
  static const ModelFile file = ModelFile::read(std::filesystem::path(TANDEM_SOURCE_DIR) / "models/resnet50.onnx");
  return file.graph({.batch = n});
}

// Memory of a step's operands, with values that every kernel takes.
class Scratch {
 public:
  std::byte* take(std::int64_t bytes) {
    memory_.emplace_back(static_cast<std::size_t>((bytes + 63) / 64));
    return reinterpret_cast<std::byte*>(memory_.back().data());
  }
  std::byte* take(const Buffer& buffer, std::int64_t indices_below) {
    const Operand& o = buffer.operand;
    std::byte* const at = take(std::max(buffer.bytes, o.bytes()));
    std::mt19937 random(1);
    const auto elements = static_cast<std::size_t>(o.bytes()) / std::max<std::size_t>(1, size_of(o.dtype));
    const auto fill = [&]<class T>(auto value) {
      for (std::size_t i = 0; i < elements; ++i) reinterpret_cast<T*>(at)[i] = number_as<T>(value());
    };
    const auto real = [&] { return 0.5 + static_cast<double>(random()) * 0x1p-32; };
    const auto whole = [&] { return static_cast<double>(random() % static_cast<unsigned>(indices_below)); };
    if (buffer.constant)
      std::copy_n(buffer.constant->bytes().data(), buffer.constant->bytes().size(), at);
    else if (o.dtype == DType::float32)
      fill.operator()<float>(real);
    else if (o.dtype == DType::bfloat16)
      fill.operator()<BFloat16>(real);
    else if (o.dtype == DType::int64)
      fill.operator()<std::int64_t>(whole);
    else if (o.dtype == DType::int32)
      fill.operator()<std::int32_t>(whole);
    if (buffer.name == "tandem.scalars") *reinterpret_cast<StepScalars*>(at) = {.learning_rate = 0.1F, .step = 1};
    return at;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::deque<std::vector<Line>> memory_;
};

// What one kernel was counted to be.
struct Counted {
  std::string op, kernel, operand;
  double threads = 0;
  std::int64_t wanted = 1;  // threads
  std::string regions;
  double share() const { return threads / static_cast<double>(wanted); }
};

std::string text_of(const CountedTeam& team) {
  std::ostringstream text;
  for (const std::vector<double>& parts : team.regions())
    text << parts.size() << " parts, the longest " << 1e6 * *std::max_element(parts.begin(), parts.end()) << " us; ";
  text << "one alone " << 1e6 * team.alone() << " us";
  return text.str();
}

// Where a kernel has work for fewer threads than its operands' size says.
std::int64_t most_threads(const LaunchStep& launch, const std::vector<Operand>& inputs, const std::vector<Operand>& outputs, int threads) {
  // Threads that share out units meet in every step: its multiply-adds must be worth that.
  if (launch.kernel.starts_with("native.recurrent")) {
    constexpr std::int64_t worth_meeting = 131072;
    const bool backward = launch.op == "RecurrentBackward";
    const Shape &r = inputs[backward ? 0 : 1].shape, &steps = inputs[backward ? 1 : 0].shape;
    return std::max<std::int64_t>(1, steps[backward ? 2 : 1] * r.elements() / worth_meeting);
  }
  // Sums of a filter's gradient are of all samples: a thread has a tap of 16 × 16 channels at least. With 16 threads for 50 of these some
  // have four, and 13 threads are as fast.
  if (launch.kernel == "native.convolution_backward_weights.dot_products") {
    const Shape& w = outputs[0].shape;
    const std::int64_t tiles = (w[0] + 15) / 16 * ((w[1] + 15) / 16) * (w.elements() / (w[0] * w[1]));
    const std::int64_t each = (tiles + threads - 1) / threads;
    return (tiles + each - 1) / each;
  }
  return INT64_MAX;
}

std::int64_t words_of(const LaunchStep& launch, const std::vector<Operand>& inputs, const std::vector<Operand>& outputs) {
  return launch.op == "Gather" ? inputs[0].shape[0] : launch.op == "GatherBackward" ? outputs[0].shape[0] : 2;
}

class ParallelGrain : public testing::Test {
 protected:
  // Every kernel of ours in a training step, each once, but for those of the set.
  std::vector<Counted> count(Graph (*model)(std::int64_t), std::int64_t batch, Precision precision, int threads,
                             std::set<std::string>& seen) {
    const ManyThreads backend(threads);
    const Backend* const backends[] = {&backend};
    CompileOptions o = options_for(batch, {1});
    o.passes.verify = false;
    o.optimizer.name = "adam";
    o.optimizer.momentum = 0;
    o.precision = precision;
    o.memory.bucket_bytes = o.memory.first_bucket_bytes = std::int64_t{1} << 30;
    o.memory.free = {std::int64_t{1} << 60};
    const Plan plan = compile(model, o, backends);
    const DeviceProgram& program = plan.programs[0];
    std::vector<Counted> all;
    flush_subnormals();
    for (const Step& step : program.steps) {
      const auto* launch = step.as<LaunchStep>();
      if (!launch || !launch->kernel.starts_with("native.")) continue;
      std::vector<Operand> inputs, outputs;
      std::string key = concat(launch->kernel, ' ', launch->attributes);
      Operand largest;
      for (const auto& [ids, operands] : {std::pair{&step.inputs, &inputs}, std::pair{&step.outputs, &outputs}})
        for (const BufferId id : *ids) {
          operands->push_back(id.present() ? program.buffers[id].operand : Operand{});
          key += to_string(operands->back());
          const bool table = launch->op == "Gather" && operands == &inputs;  // of which only some rows are read
          if (!table && operands->back().bytes() > largest.bytes()) largest = operands->back();
        }
      if (!seen.insert(key).second) continue;
      const std::int64_t wanted = std::min(threads_worth(largest, threads), most_threads(*launch, inputs, outputs, threads));
      Counted c{.op = launch->op, .kernel = launch->kernel, .operand = to_string(largest), .wanted = wanted};
      count(backend, plan, step, *launch, words_of(*launch, inputs, outputs), c);
      all.push_back(std::move(c));
    }
    return all;
  }

  static std::int64_t threads_worth(const Operand& largest, int threads) {
    return std::clamp<std::int64_t>(largest.bytes() / worth_a_thread, 1, threads);
  }
  // Once more where there seems to be too little work: another program may have held up a part, whatever it does.
  static void count(Kernel& kernel, Counted& c) {
    CountedTeam team;
    for (int attempt = 0; attempt == 0 || (attempt < 3 && c.share() < least_share); ++attempt) {
      team.count(kernel);
      if (attempt > 0 && team.threads() <= c.threads) continue;
      c.threads = team.threads();
      c.regions = text_of(team);
    }
  }

 private:
  static void count(const Backend& backend, const Plan& plan, const Step& step, const LaunchStep& launch, std::int64_t below, Counted& c) {
    const DeviceProgram& program = plan.programs[0];
    Scratch scratch;
    std::map<int, std::byte*> places;
    const auto addresses = [&](const std::vector<BufferId>& ids) {
      std::vector<std::byte*> at;
      for (const BufferId id : ids) {
        if (id.present() && !places.contains(id.index)) {
          const BufferId alias = program.buffers[id].alias;
          places[id.index] =
              alias.present() && places.contains(alias.index) ? places[alias.index] : scratch.take(program.buffers[id], below);
        }
        at.push_back(id.present() ? places[id.index] : nullptr);
      }
      return at;
    };
    const std::vector<std::byte*> inputs = addresses(step.inputs), outputs = addresses(step.outputs);
    const std::unique_ptr<Kernel> kernel = make_kernel(backend, plan, 0, step, launch);
    kernel->bind(inputs, outputs, scratch.take(step.workspace.present() ? program.buffers[step.workspace].bytes : 0));
    count(*kernel, c);
  }
};

struct Case {
  const char* name;
  Graph (*model)(std::int64_t);
};
constexpr Case cases[] = {
    {"transformer", language_model}, {"ResNet-50", resnet50}, {"LSTM", sentence_classifier}, {"small convnet", small_convnet}};
constexpr int numbers_of_threads[] = {16, 64};

// A line of the table: of a kernel's launches those with the least work for their threads.
struct Line {
  int launches = 0, small = 0;
  std::map<int, Counted> least;  // by the number of threads
};

TEST_F(ParallelGrain, NoTenthOfManyThreadsIsIdle) {
  const char* const file = std::getenv("TANDEM_GRAIN_TABLE");  // which scripts/grain-page asks for, with more batches
  std::ostringstream table;
  for (const Case& c : cases)
    for (const std::int64_t batch : file ? std::vector<std::int64_t>{8, 32} : std::vector<std::int64_t>{8}) {
      std::map<std::string, Line> lines;
      for (const int threads : numbers_of_threads) {
        std::set<std::string> seen;
        for (const Precision precision : {Precision::fp32, Precision::bf16}) {
          if (!cpu_backend().declines(precision).empty()) continue;
          for (const Counted& k : count(c.model, batch, precision, threads, seen)) {
            Line& line = lines[k.kernel];
            line.launches += threads == numbers_of_threads[0];
            if (k.wanted == 1) {
              line.small += threads == numbers_of_threads[0];
              continue;
            }
            const auto [at, first] = line.least.try_emplace(threads, k);
            if (k.share() < at->second.share()) at->second = k;
            EXPECT_GE(k.share(), least_share) << c.name << " of " << batch << ": " << k.op << ' ' << k.kernel << ' ' << k.operand << ": "
                                              << k.threads << " of " << k.wanted << " threads have work: " << k.regions;
          }
        }
      }
      for (const auto& [kernel, line] : lines) {
        table << "| " << c.name << ", " << batch << " | `" << kernel << "` | " << line.launches << " | " << line.small;
        for (const int threads : numbers_of_threads) {
          const auto k = line.least.find(threads);
          table << " | ";
          if (k == line.least.end()) continue;
          table << std::lround(k->second.threads);
          if (k->second.wanted < threads) table << " (" << k->second.wanted << ')';
        }
        table << " |\n";
      }
    }
  if (file) std::ofstream(file) << table.str();
}

// Kernels that those models do not have: what a request gets from the CPU's own.
struct Request {
  const char* op;
  Attributes attributes;
  std::vector<Operand> inputs, outputs;
};
Operand of(Shape shape, DType dtype = DType::float32, const char* layout = "") {
  const Layout row_major = Layout::row_major(shape.rank());
  return {dtype, std::move(shape), *layout ? Layout(layout) : row_major};
}
std::vector<Request> requests() {
  const Attributes norm{{"epsilon", 1e-5F}};
  const auto image = [](std::int64_t channels, std::int64_t side, DType dtype) {
    return of({8, channels, side, side}, dtype, Layout::channels_last(4).tag().c_str());
  };
  std::vector<Request> all;
  for (const DType dtype : {DType::float32, DType::bfloat16})
    for (const auto& [channels, side] : {std::pair<std::int64_t, std::int64_t>{64, 56}, {512, 28}, {256, 14}, {2048, 7}}) {
      const Operand x = image(channels, side, dtype), c = of({channels});
      all.push_back({"BatchNormalizationTraining", norm, {x, c, c}, {x, c, c, of({0}, DType::uint8)}});
      all.push_back({"BatchNormalizationBackward", norm, {x, x, c, c, c, c, of({0}, DType::uint8, "opaque:native.channels")}, {x, c, c}});
    }
  const Attributes conv{{"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 1}}, {"group", std::int64_t{1}}};
  for (const std::int64_t n : {1, 8}) {
    const auto doubles = [](Shape shape) { return of(std::move(shape), DType::float64); };
    const Operand x = doubles({n, 40, 28, 28}), y = doubles({n, 80, 28, 28}), w = doubles({80, 40, 3, 3});
    all.push_back({"Conv", conv, {x, w}, {y}});
    all.push_back({"ConvolutionBackwardData", conv, {y, w}, {x}});
    all.push_back({"ConvolutionBackwardWeights", conv, {x, y}, {w}});
  }
  for (const std::int64_t n : {1, 8}) all.push_back({"InnerProduct", {}, {of({n, 2048}), of({1000, 2048})}, {of({n, 1000})}});
  all.push_back({"MatMul", {}, {of({8, 3, 256, 64}), of({8, 3, 64, 256})}, {of({8, 3, 256, 256})}});
  all.push_back({"Concat", {{"axis", std::int64_t{1}}}, {of({8, 64, 56, 56}), of({8, 64, 56, 56})}, {of({8, 128, 56, 56})}});
  all.push_back({"Transpose", {{"perm", Ints{0, 2, 3, 1}}}, {of({8, 64, 56, 56})}, {of({8, 56, 56, 64})}});
  all.push_back({"Softmax", {{"axis", std::int64_t{-1}}}, {of({8, 12, 128, 128})}, {of({8, 12, 128, 128})}});
  all.push_back({"ReduceSum", {{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}}, {of({2048, 1024})}, {of({1024})}});
  return all;
}

TEST_F(ParallelGrain, NorInOtherKernels) {
  flush_subnormals();
  for (const int threads : numbers_of_threads)
    for (const Request& r : requests()) {
      const KernelRequest request{.op = r.op, .attributes = &r.attributes, .inputs = r.inputs, .outputs = r.outputs, .options = {threads}};
      for (const KernelDescription& d : cpu_backend().describe(request)) {
        if (!d.kernel.starts_with("native.")) continue;
        Scratch scratch;
        Operand largest;
        const auto addresses = [&](const std::vector<Operand>& operands) {
          std::vector<std::byte*> at;
          for (const Operand& o : operands) {
            if (o.bytes() > largest.bytes()) largest = o;
            at.push_back(o.present() ? scratch.take(Buffer{.name = {}, .operand = o}, 2) : nullptr);
          }
          return at;
        };
        const std::vector<std::byte*> inputs = addresses(d.inputs), outputs = addresses(d.outputs);
        const std::unique_ptr<Kernel> kernel = d.make();
        kernel->bind(inputs, outputs, scratch.take(d.workspace));
        Counted c{.op = r.op, .kernel = d.kernel, .operand = to_string(largest), .wanted = threads_worth(largest, threads)};
        count(*kernel, c);
        EXPECT_TRUE(c.wanted == 1 || c.share() >= least_share) << c.op << ' ' << c.kernel << ' ' << c.operand << ": " << c.threads << " of "
                                                               << c.wanted << " threads have work: " << c.regions;
      }
    }
}

}  // namespace
}  // namespace tandem
