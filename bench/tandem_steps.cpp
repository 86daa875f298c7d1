// Times training steps of a template model and prints one JSON line, as bench/pytorch_steps.py does:
//   tandem_steps --model models/resnet50.onnx --batch 8 --threads 2 --steps 20
//   tandem_steps --model models/resnet50.onnx --batch 256 --device cuda:0 --precision bf16
// A step is forward, softmax cross-entropy, backward and SGD with momentum on one fixed batch of noise.
//   --parallel FACTORS how the devices share the work: "data=2", "tensor=2"
//   --plan FILE        steps of this plan, which is to be of the model and the batch
//   --profile N        the time of each kernel, from N steps with a wait after each part of a step
//   --profile-steps N  the same of each part alone
//   --floor N          the sum of the kernels' own times, each N times in a row where the step has it, which finds its operands in the
//                      caches where they fit (floor_ms), and each once in N steps that wait after every kernel, which finds the caches as
//                      the step leaves them (cold_floor_ms). Beside steps by turns with those, whose median is floor_step_ms
//   --late N           also N steps that wait for their batch (late_ms), and what copying a batch takes alone (copies_ms): where
//                      median_ms is late_ms - copies_ms, copies cost nothing. And N traced steps on devices that copy batches ahead:
//                      the share of the copies' time during which a step computes (overlap)
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "bench/profile.h"
#include "cli/backends.h"
#include "cli/prepare_process.h"
#include "data/stream.h"
#include "importer/model_file.h"
#include "kernels/traced_backend.h"
#include "planner/compile.h"
#include "planner/loss/labels.h"
#include "planner/place/parallel.h"
#include "planner/plan/plan_file.h"
#include "runtime/session.h"
#include "trainer/devices.h"
#include "trainer/feed/index_range.h"

namespace tandem {
namespace {

using Options = std::map<std::string, std::string>;

Options parse(int argc, char** argv) {
  Options options = {{"--model", ""},  {"--batch", "8"},    {"--threads", "0"}, {"--devices", "1"}, {"--device", ""},
                     {"--warmup", "5"}, {"--steps", "20"}, {"--autotune", "1"}, {"--cache", ""}, {"--layout", "auto"},
                     {"--precision", "fp32"}, {"--parallel", ""}, {"--plan", ""}, {"--class-axis", ""}, {"--without-kernels", ""}, {"--beside", "0"}, {"--profile", "0"}, {"--profile-steps", "0"}, {"--floor", "0"}, {"--late", "0"}};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!options.contains(argv[i])) fail(ExitCode::usage, "unknown option '", argv[i], "'");
    options[argv[i]] = argv[i + 1];
  }
  if (argc % 2 == 0 || options["--model"].empty()) fail(ExitCode::usage, "usage: tandem_steps --model FILE [--batch N] ...");
  return options;
}

// Devices share the cores that this process may use: keep the first `count` of them.
void limit_cores(int count) {
  cpu_set_t allowed, kept;
  CPU_ZERO(&kept);
  sched_getaffinity(0, sizeof allowed, &allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&kept) < count; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &kept);
  sched_setaffinity(0, sizeof kept, &kept);
}

std::int64_t peak_rss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{1024} * usage.ru_maxrss;
}

// He et al.'s normal initialisation of filters and matrices; the template's own values for the rest.
void initialize(Session& session, const Graph& graph) {
  for (const Value& value : graph.values) {
    if (value.kind != ValueKind::parameter) continue;
    Tensor tensor = value.data ? *value.data : Tensor(value.type);
    const Shape& shape = tensor.shape();
    if (shape.rank() > 1) {
      const double deviation = std::sqrt(2.0 * static_cast<double>(shape[0]) / static_cast<double>(shape.elements()));
      Random random(1, stream_of(value.name));
      for (float& w : tensor.write<float>()) w = static_cast<float>(deviation * random.normal());
    }
    const NamedTensor weight{value.name, tensor};
    session.set_parameters({&weight, 1});
  }
}

// How many classes or rows of a table the integers of an input choose from.
std::int64_t choices(const HostInput& input, const Graph& graph, const Labels& labels) {
  for (const ValueId id : graph.inputs)
    // as a mask: 0 and 1
    if (input.role == ValueRole::plain && graph[id].name == input.name) return std::max<std::int64_t>(2, index_range(graph, id).count);
  return labels.classes;
}

// Noise for a float input, class numbers and token ids for an integer one.
Tensor make_input(const HostInput& input, const Graph& graph, const Labels& labels) {
  Tensor tensor(input.type);
  Random random(2, stream_of(input.name));
  const auto fill = [&]<class T>() {
    const std::int64_t count = choices(input, graph, labels);
    for (T& index : tensor.write<T>()) index = static_cast<T>(random.below(count));
  };
  if (input.type.dtype == DType::int64)
    fill.operator()<std::int64_t>();
  else if (input.type.dtype == DType::int32)
    fill.operator()<std::int32_t>();
  else
    for (float& x : tensor.write<float>()) x = static_cast<float>(random.normal());
  return tensor;
}

Precision precision_of(const std::string& name) {
  for (const Precision p : precisions)
    if (name_of(p) == name) return p;
  fail(ExitCode::usage, "--precision: unknown number format '", name, "'");
}

// Bytes that are free on the plan's devices, each counted once; 0 where they cannot tell.
std::int64_t free_memory(const Plan& plan, Backends backends) {
  std::map<std::string, std::int64_t> free;
  for (const PlanDevice& d : plan.devices)
    free[to_string(d.device)] = std::max<std::int64_t>(
        0, find_backend(backends, d.device.backend).free_memory(d.device.index, static_cast<int>(plan.devices.size())));
  std::int64_t sum = 0;
  for (const auto& [device, bytes] : free) sum += bytes;
  return sum;
}

std::int64_t number(const Options& options, const std::string& name) { return std::stoll(options.at(name)); }

CompileOptions compile_options(const Options& options) {
  CompileOptions o;
  o.batch = number(options, "--batch");
  for (int i = 0; i < number(options, "--devices"); ++i) o.devices.push_back({{"cpu", i}});
  if (!options.at("--device").empty()) o.devices = parse_devices(options.at("--device"));
  o.parallel = parse_parallelism(options.at("--parallel"));
  o.optimizer.momentum = 0.9;
  o.tuning.autotune = number(options, "--autotune") != 0;
  o.tuning.cache = options.at("--cache");
  std::istringstream without(options.at("--without-kernels"));
  for (std::string name; std::getline(without, name, ',');) o.tuning.without.push_back(name);
  o.weight_gradients_beside = number(options, "--beside") != 0;
  o.precision = precision_of(options.at("--precision"));
  if (!options.at("--class-axis").empty()) o.loss.class_axis = static_cast<int>(number(options, "--class-axis"));
  if (options.at("--layout") != "auto")
    o.layout = options.at("--layout") == "blocked" ? LayoutPreference::blocked : LayoutPreference::channels_last;
  return o;
}

double median_of(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

// Seconds, of one step's kernels and of one step.
struct Floor {
  double warm = 0, cold = 0, step = 0;
};
struct Late {
  double step = 0, copies = 0;
  double overlap = 0;
};

// A session with one batch of noise, whose steps are timed.
class Steps {
 public:
  Steps(Session& session, const Graph& graph, const Labels& labels) : session_(session), losses_(session.plan().devices.size()) {
    const Plan& plan = session.plan();
    for (const HostInput& input : plan.inputs) {
      inputs_.push_back(nullptr);
      if (input.role == ValueRole::step_state) continue;
      const Tensor values = make_input(input, graph, labels);
      std::byte* const memory = session.host_memory(inputs_.size() - 1, std::ssize(values.bytes()));
      std::copy(values.bytes().begin(), values.bytes().end(), memory);
      inputs_.back() = memory;
    }
    outputs_.resize(plan.outputs.size());
    for (std::size_t i = 0; i < plan.outputs.size(); ++i)
      if (plan.outputs[i].role == ValueRole::loss) outputs_[i] = reinterpret_cast<std::byte*>(losses_.data());
    state_.learning_rate = 1e-3;
  }

  // As training does with a loader that keeps up: the next batch comes while a step computes, and, on devices that run ahead, the
  // next step is begun before this one has ended. `late`: each step waits for the one before, and for its batch. A step's time is
  // that from the end of the one before to its own.
  std::vector<double> run(std::int64_t warmup, std::int64_t steps, bool late) {
    std::vector<double> times;
    bool announced = false;
    const auto begin_step = [&] {
      Ahead ahead{.announced = announced};
      if (!late) ahead.inputs = inputs_;
      session_.begin(0, inputs_, outputs_, state_, ahead);
      announced = !late;
      ++state_.step;
    };
    int under_way = 0;
    auto begin = std::chrono::steady_clock::now();
    for (std::int64_t step = -warmup; step < steps; ++step) {
      for (const int most = !late && session_.runs_ahead(0) ? 2 : 1; under_way < most; ++under_way) begin_step();
      session_.finish();
      --under_way;
      const auto now = std::chrono::steady_clock::now();
      if (step >= 0) times.push_back(std::chrono::duration<double>(now - begin).count());
      begin = now;
    }
    while (under_way-- > 0) session_.finish();
    return times;
  }

  // The seconds of each part of a step, one step or `repeats` of each part in a row.
  TimedRun timed(int repeats) {
    return [this, repeats] { return session_.run_timed(0, inputs_, outputs_, state_, repeats)[0]; };
  }

  Floor floor(int repeats) {
    Floor f;
    for (const double part : timed(repeats)()) f.warm += part;
    run(1, 1, false);
    std::vector<double> steps;
    const TimedRun by_turns = [&] {
      for (const double step : run(1, 3, false)) steps.push_back(step);
      return timed(1)();
    };
    for (const double part : median_seconds(by_turns, repeats)) f.cold += part;
    f.step = median_of(steps);
    std::fprintf(stderr, "kernels alone %.3f ms, with the caches as the step leaves them %.3f ms, step %.3f ms: %.1f%%, %.1f%%\n",
                 1e3 * f.warm, 1e3 * f.cold, 1e3 * f.step, 100 * f.warm / f.step, 100 * f.cold / f.step);
    return f;
  }

  Late late(std::int64_t steps, std::span<const std::unique_ptr<TracedBackend>> traced) {
    Late l;
    for (const auto& b : traced) b->start();
    run(0, steps, false);
    for (const auto& b : traced)
      if (const double share = overlap(b->stop(), 2); share > 0) l.overlap = share;
    l.step = median_of(run(1, steps, true));
    const std::vector<double> parts = median_seconds(timed(1), 3);
    for (std::size_t i = 0; i < parts.size(); ++i)
      l.copies += session_.plan().programs[0].steps[StepId{static_cast<int>(i)}].as<SliceStep>() ? parts[i] : 0;
    return l;
  }

  double loss() const {
    double sum = 0;
    for (const float part : losses_) sum += part;
    return sum;
  }

 private:
  Session& session_;
  std::vector<float> losses_;  // of each device
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  StepState state_;
};

// All that is asked for, in its order, and a line of results.
void measure(const Options& options) {
  if (const auto threads = static_cast<int>(number(options, "--threads")); threads > 0) limit_cores(threads);
  const std::int64_t base = peak_rss();
  const ModelFile file = ModelFile::read(options.at("--model"));
  const GraphSource source = [&](std::int64_t batch) { return file.graph({.batch = batch}); };
  const CompileOptions wanted = compile_options(options);
  const BackendSet set = BackendSet::load();
  std::vector<const Backend*> backends(set.all().begin(), set.all().end());
  const std::int64_t late_steps = number(options, "--late");
  std::vector<std::unique_ptr<TracedBackend>> traced;
  for (const Backend*& b : backends)
    if (late_steps > 0 && b->stages_inputs()) b = traced.emplace_back(std::make_unique<TracedBackend>(*b)).get();
  set.check(wanted.devices, true);

  const auto begin = std::chrono::steady_clock::now();
  Plan made = options.at("--plan").empty() ? compile(source, wanted, backends) : parse_plan(read_file(options.at("--plan")));
  const std::int64_t free_before = free_memory(made, backends);
  Session session(std::move(made), backends);
  const double compile_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const Plan& plan = session.plan();
  for (const std::string& warning : plan.warnings) std::fprintf(stderr, "warning: %s\n", warning.c_str());
  const Graph graph = source(1);
  initialize(session, graph);

  Steps steps(session, graph, labels_of(source, wanted));
  const std::vector<double> times = steps.run(number(options, "--warmup"), number(options, "--steps"), false);
  if (const auto rounds = static_cast<int>(number(options, "--profile")); rounds > 0)
    print_by_kernel(plan, median_seconds(steps.timed(1), rounds));
  if (const auto rounds = static_cast<int>(number(options, "--profile-steps")); rounds > 0)
    print_by_step(plan, median_seconds(steps.timed(1), rounds));
  const double loss = steps.loss();
  const auto repeats = static_cast<int>(number(options, "--floor"));
  const Floor floor = repeats > 0 ? steps.floor(repeats) : Floor();
  const Late late = late_steps > 0 ? steps.late(late_steps, traced) : Late();
  std::int64_t arena_bytes = 0;
  for (int i = 0; i < session.devices(); ++i) arena_bytes += session.allocated_bytes(i);
  const std::int64_t device_bytes = free_before - free_memory(plan, backends);  // what the session took, where devices can tell
  const Json result = Json::Object{{"program", "tandem"},
                                   {"model", file.name()},
                                   {"batch", plan.batch},
                                   {"precision", name_of(plan.precision)},
                                   {"threads", plan.programs[0].model.threads},
                                   {"devices", session.devices()},
                                   {"steps", times.size()},
                                   {"median_ms", 1e3 * median_of(times)},
                                   {"min_ms", 1e3 * *std::min_element(times.begin(), times.end())},
                                   {"floor_ms", 1e3 * floor.warm},
                                   {"cold_floor_ms", 1e3 * floor.cold},
                                   {"floor_step_ms", 1e3 * floor.step},
                                   {"late_ms", 1e3 * late.step},
                                   {"copies_ms", 1e3 * late.copies},
                                   {"overlap", late.overlap},
                                   {"predicted_ms", 1e3 * plan.seconds},
                                   {"loss", loss},
                                   {"compile_seconds", compile_seconds},
                                   {"arena_bytes", arena_bytes},
                                   {"device_bytes", device_bytes},
                                   {"not_captured", session.not_captured(0, 0)},
                                   {"base_rss_bytes", base},
                                   {"peak_rss_bytes", peak_rss()}};
  std::printf("%s\n", result.dump().c_str());
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  tandem::prepare_process(argv);
  try {
    tandem::measure(tandem::parse(argc, argv));
    return 0;
  } catch (const tandem::Error& error) {
    std::fprintf(stderr, "tandem_steps: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
