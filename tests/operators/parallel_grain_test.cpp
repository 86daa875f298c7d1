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
  double threads = 0, speedup = 0;
  std::int64_t wanted = 0;  // threads
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
      all.push_back(count(backend, plan, step, *launch, words_of(*launch, inputs, outputs)));
      Counted& c = all.back();
      std::int64_t bytes = 0;  // an update's tensors are one
      for (const Operand& operand : outputs) bytes += operand.bytes();
      c.operand = to_string(largest);
      c.wanted = std::clamp<std::int64_t>(
          std::max(bytes / std::max<std::int64_t>(1, std::ssize(outputs)), largest.bytes()) / worth_a_thread, 1, threads);
    }
    return all;
  }

 private:
  static Counted count(const Backend& backend, const Plan& plan, const Step& step, const LaunchStep& launch, std::int64_t below) {
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
    CountedTeam team;
    team.count(*kernel);
    return {launch.op, launch.kernel, {}, team.threads(), team.speedup(), 0, text_of(team)};
  }
};

struct Case {
  const char* name;
  Graph (*model)(std::int64_t);
};
constexpr Case cases[] = {{"transformer", language_model}, {"ResNet-50", resnet50}};
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
            EXPECT_GE(k.share(), 0.9) << c.name << " of " << batch << ": " << k.op << ' ' << k.kernel << ' ' << k.operand << ": "
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

}  // namespace
}  // namespace tandem
