#include "planner/lower/calibration.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "planner/lower/tuner.h"
#include "planner/plan/timeline.h"

namespace tandem {
namespace {

constexpr std::string_view calibrated_mark = ", calibrated +-";

struct KindRow {
  KernelKind kind;
  std::string_view name;
  std::vector<std::string_view> operators;  // beginnings of their names
};
const KindRow kinds[] = {
    {KernelKind::product_backward, "products' gradients", {"InnerProductBackward"}},
    {KernelKind::product, "products", {"InnerProduct", "MatMul", "Attention", "Recurrent"}},
    {KernelKind::convolution_backward, "convolutions' gradients", {"ConvolutionBackward"}},
    {KernelKind::convolution, "convolutions", {"Conv"}},
    {KernelKind::normalization, "normalizations", {"BatchNorm", "RowNorm", "GroupNorm", "LRN", "Softmax", "LogSoftmax"}},
    {KernelKind::copy, "copies", {"Transpose", "Reorder", "Concat", "Slice", "Split", "Gather", "Pad", "Expand", "Tile"}},
    {KernelKind::elementwise, "elementwise", {""}},
};

Operand plain(Shape shape) {
  Layout layout = Layout::row_major(shape.rank());
  return {DType::float32, std::move(shape), std::move(layout)};
}
Operand open_form(Shape shape) { return {DType::float32, std::move(shape), {}}; }

std::vector<CalibrationKernel> make_kernels() {
  using enum KernelKind;
  const auto window = [](std::int64_t side) {
    return Attributes{{"kernel_shape", Ints{side, side}}, {"strides", Ints{1, 1}}, {"pads", Ints(4, side / 2)}, {"dilations", Ints{1, 1}},
                      {"group", std::int64_t{1}}};
  };
  const auto with = [](Attributes attributes, const char* name, Ints value) {
    attributes.set(name, std::move(value));
    return attributes;
  };
  const auto multiplied = [](std::int64_t n, std::int64_t from, std::int64_t to) {
    return 2.0 * static_cast<double>(n) * static_cast<double>(from) * static_cast<double>(to);
  };
  const auto channels_last = [](Shape shape) {  // as plans lay maps out that are normalized
    Layout layout = Layout::channels_last(shape.rank());
    return Operand{DType::float32, std::move(shape), std::move(layout)};
  };
  const Operand image = open_form({8, 64, 28, 28}), filter = open_form({64, 64, 3, 3}), wide = open_form({8, 256, 28, 28}),
                channel = plain({64}), points = open_form({64, 256, 1, 1}), square = open_form({256, 256, 1, 1}),
                narrow = open_form({8, 64, 28, 28}), opaque{DType::uint8, Shape{0}, {}};
  const double flops = multiplied(8 * 28 * 28, 64 * 9, 64);
  return {
      {"product, small", product, "InnerProduct", {}, {plain({32, 128}), open_form({128, 128})}, {open_form({32, 128})},
       multiplied(32, 128, 128), false},
      {"product, large", product, "InnerProduct", {}, {plain({256, 1024}), open_form({1024, 1024})}, {open_form({256, 1024})},
       multiplied(256, 1024, 1024), false},
      {"product, data", product_backward, "InnerProductBackwardData", with({}, "input_shape", {256, 1024}),
       {plain({256, 1024}), open_form({1024, 1024})}, {plain({256, 1024})}, multiplied(256, 1024, 1024), false},
      {"product, weights", product_backward, "InnerProductBackwardWeights", {}, {plain({256, 1024}), plain({256, 1024})},
       {open_form({1024, 1024})}, multiplied(256, 1024, 1024), false},
      {"convolution", convolution, "Conv", window(3), {image, filter}, {image}, flops, false},
      {"convolution, data", convolution_backward, "ConvolutionBackwardData", with(window(3), "input_shape", {8, 64, 28, 28}),
       {image, filter}, {image}, flops, false},
      {"convolution, weights", convolution_backward, "ConvolutionBackwardWeights", with(window(3), "weight_shape", {64, 64, 3, 3}),
       {image, image}, {filter}, flops, false},
      {"convolution, 1x1", convolution, "Conv", window(1), {wide, square}, {wide}, multiplied(8 * 28 * 28, 256, 256), false},
      {"weights, 1x1", convolution_backward, "ConvolutionBackwardWeights", with(window(1), "weight_shape", {256, 256, 1, 1}),
       {wide, wide}, {square}, multiplied(8 * 28 * 28, 256, 256), false},
      {"sum, small", elementwise, "Add", {}, {plain({64, 512}), plain({64, 512})}, {plain({64, 512})}, 0, false},
      {"sum, large", elementwise, "Add", {}, {plain({4096, 2048}), plain({4096, 2048})}, {plain({4096, 2048})}, 0, false},
      {"normalization", normalization, "BatchNormalizationTraining", {{"epsilon", 1e-5f}},
       {channels_last({16, 64, 56, 56}), channel, channel}, {channels_last({16, 64, 56, 56}), channel, channel, opaque}, 0, false},
      {"copy, small", copy, "Transpose", {{"perm", Ints{1, 0}}}, {plain({64, 512})}, {plain({512, 64})}, 0, false},
      {"copy, large", copy, "Transpose", {{"perm", Ints{1, 0}}}, {plain({4096, 2048})}, {plain({2048, 4096})}, 0, false},
      {"product, check", product, "InnerProduct", {}, {plain({64, 4096}), open_form({1000, 4096})}, {open_form({64, 1000})},
       multiplied(64, 4096, 1000), true},
      {"convolution, check", convolution, "Conv", window(1), {wide, points}, {narrow}, multiplied(8 * 28 * 28, 256, 64), true},
      {"weights, check", convolution_backward, "ConvolutionBackwardWeights", with(window(1), "weight_shape", {64, 256, 1, 1}),
       {wide, narrow}, {points}, multiplied(8 * 28 * 28, 256, 64), true},
      {"sum, check", elementwise, "Add", {}, {plain({1024, 1024}), plain({1024, 1024})}, {plain({1024, 1024})}, 0, true},
  };
}

bool computes(KernelKind kind) {
  using enum KernelKind;
  return kind == product || kind == product_backward || kind == convolution || kind == convolution_backward;
}

double mean_of_logarithms(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += std::log(v);
  return std::exp(sum / static_cast<double>(values.size()));
}

// From a small kernel and a large one what any takes at least, and what a byte takes; from one alone what a byte takes.
DeviceModel fitted_to_bytes(const std::vector<KernelTime>& times, DeviceModel model) {
  const auto [small, large] = std::ranges::minmax(times, {}, &KernelTime::bytes);
  const double slope = large.bytes > small.bytes ? (large.seconds - small.seconds) / (large.bytes - small.bytes) : 0;
  if (slope > 0) model.launch_seconds = std::max(0.0, small.seconds - slope * small.bytes);
  const double moving = large.seconds - model.launch_seconds;
  if (slope <= 0 || moving <= 0) model.launch_seconds = 0;
  model.bandwidth = large.bytes / (large.seconds - model.launch_seconds);
  return model;
}

// Rates of the large kernels, with the efficiency that each is described with; from a small one what any takes at least.
DeviceModel fitted_to_flops(const std::vector<KernelTime>& times, DeviceModel model) {
  const double most = std::ranges::max(times, {}, &KernelTime::flops).flops;
  std::vector<double> rates;
  for (const KernelTime& t : times)
    if (t.flops >= most / 2) rates.push_back(t.flops / (t.seconds * t.efficiency));
  model.flops = mean_of_logarithms(rates);
  for (const KernelTime& t : times)
    if (t.flops < most / 2) model.launch_seconds = std::max(0.0, t.seconds - t.flops / (model.flops * t.efficiency));
  return model;
}

}  // namespace

std::string_view name_of(KernelKind kind) { return std::ranges::find(kinds, kind, &KindRow::kind)->name; }

KernelKind kind_of(std::string_view op) {
  for (const KindRow& row : kinds)
    if (std::ranges::any_of(row.operators, [&](std::string_view begin) { return op.starts_with(begin); })) return row.kind;
  return KernelKind::elementwise;
}

const std::vector<CalibrationKernel>& calibration_kernels() {
  static const std::vector<CalibrationKernel> kernels = make_kernels();
  return kernels;
}

Calibration::Calibration(std::span<const KernelTime> times, const DeviceModel& assumed) : device_(assumed) {
  const auto of = [&](KernelKind kind) {
    std::vector<KernelTime> some;
    for (const KernelTime& t : times)
      if (t.kind == kind && !t.checks) some.push_back(t);
    return some;
  };
  DeviceModel model = assumed;  // of what was not timed
  using enum KernelKind;
  for (const KernelKind kind : {elementwise, normalization, copy, product, product_backward, convolution, convolution_backward}) {
    const std::vector<KernelTime> own = of(kind);
    if (own.empty()) continue;
    models_[static_cast<std::size_t>(kind)] = computes(kind) ? fitted_to_flops(own, model) : fitted_to_bytes(own, model);
    if (kind == elementwise) model.bandwidth = models_[static_cast<std::size_t>(kind)]->bandwidth;
    if (kind == elementwise || kind == product) model.launch_seconds = models_[static_cast<std::size_t>(kind)]->launch_seconds;
  }
  double squares = 0;
  int checks = 0;
  for (const KernelTime& t : times)
    if (const auto& fitted = models_[static_cast<std::size_t>(t.kind)]; t.checks && fitted) {
      squares += std::pow(std::log(estimate(t.flops, t.bytes, t.efficiency, *fitted) / t.seconds), 2);
      ++checks;
    }
  if (checks == 0) {
    models_ = {};
    return;
  }
  spread_ = std::max(0.01, std::exp(std::sqrt(squares / checks)) - 1);
  device_ = model;
  if (const auto& products = models_[static_cast<std::size_t>(product)]) device_.flops = products->flops;
}

const DeviceModel* Calibration::model(std::string_view op) const {
  const auto& found = models_[static_cast<std::size_t>(kind_of(op))];
  return found ? &*found : nullptr;
}

namespace {

double moved_bytes(const KernelDescription& d) {
  double bytes = 0;
  for (const auto* operands : {&d.inputs, &d.outputs})
    for (const Operand& o : *operands) bytes += static_cast<double>(o.bytes());
  return d.passes * bytes;
}

std::optional<KernelDescription> chosen_by_estimate(const Backend& backend, const KernelRequest& request, double flops,
                                                    const DeviceModel& device) {
  std::vector<KernelDescription> all = backend.describe(request);
  const auto best = std::ranges::min_element(
      all, {}, [&](const KernelDescription& d) { return estimate(flops, moved_bytes(d), d.efficiency, device); });
  return best == all.end() ? std::nullopt : std::optional(std::move(*best));
}

struct NotTimed {};

// Times those that the tuner does not know; the list ends where it refuses to.
std::vector<CalibrationTime> times_by(Tuner& tuner, const DeviceModel& device) {
  const KernelOptions options{.threads = device.threads};
  std::vector<CalibrationTime> list;
  for (const CalibrationKernel& k : calibration_kernels()) try {
      const KernelRequest request = k.request(options);
      const auto d = chosen_by_estimate(tuner.backend(), request, k.flops, device);
      if (!d) continue;
      const std::size_t disturbed = tuner.disturbed();
      const double seconds = tuner.cost(request, *d, k.flops, device).seconds / device.sharing;
      list.push_back({&k, d->kernel, moved_bytes(*d), d->efficiency, {seconds, tuner.disturbed() > disturbed}});
    } catch (const NotTimed&) {  // nor will it know those behind it
      break;
    }
  return list;
}

// That a step's kernel is described with; of kernels that move more than they compute any is right.
std::optional<double> efficiency_of(const Backend& backend, const Plan& plan, const DeviceProgram& program, const Step& step) {
  const LaunchStep& launch = *step.as<LaunchStep>();
  if (!computes(kind_of(step.op()))) return 1;
  const auto operands = [&](const std::vector<BufferId>& buffers) {
    std::vector<Operand> list;
    for (const BufferId b : buffers) list.push_back(b.present() ? program.buffers[b].operand : Operand());
    return list;
  };
  KernelRequest request{launch.op, &launch.attributes, operands(step.inputs), operands(step.outputs), plan.options, launch.kernel};
  request.options.threads = program.model.threads;
  for (const KernelDescription& d : backend.describe(request))
    if (d.kernel == launch.kernel) return d.efficiency;
  return std::nullopt;
}

}  // namespace

std::vector<CalibrationTime> time_for_calibration(const Backend& backend, const DeviceModel& device, const std::string& cache_file) {
  constexpr std::chrono::seconds enough(8);
  constexpr int most_rounds = 20;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<CalibrationTime> best;
  for (int round = 0; round < most_rounds; ++round) {
    Tuner tuner(backend, true, cache_file, true);
    const std::vector<CalibrationTime> times = times_by(tuner, device);
    best.resize(times.size(), {.timing = {std::numeric_limits<double>::infinity(), true}});
    for (std::size_t i = 0; i < times.size(); ++i) {
      const Timing &now = times[i].timing, &before = best[i].timing;
      if (now.disturbed == before.disturbed ? now.seconds < before.seconds : before.disturbed) best[i] = times[i];
    }
    if (std::ranges::none_of(best, [](const CalibrationTime& t) { return t.timing.disturbed; })) break;
    if (std::chrono::steady_clock::now() - begin > enough) break;
  }
  return best;
}

Calibration calibration_of(const Backend& backend, const DeviceModel& device, const std::string& cache_file) {
  if (cache_file.empty()) return {};
  Tuner tuner(backend, true, cache_file, false, [] { throw NotTimed(); }, [] { return false; });
  std::vector<KernelTime> times;
  for (const CalibrationTime& t : times_by(tuner, device))
    if (!t.timing.disturbed && std::isfinite(t.timing.seconds))
      times.push_back({t.of->kind, t.of->checks, t.of->flops, t.bytes, t.efficiency, t.timing.seconds});
  return Calibration(times, device);
}

void use_calibrations(Plan& plan, Backends backends, const std::string& cache_file) {
  bool any = false;
  for (const PlanDevice& d : plan.devices) {
    DeviceProgram& program = plan.programs[d.program];
    const bool timed = std::ranges::any_of(program.steps, &Step::measured);
    if (d.device.backend != "cpu" || timed || program.model.name.find(calibrated_mark) != std::string::npos) continue;
    const Backend& backend = find_backend(backends, d.device.backend);
    const Calibration c = calibration_of(backend, program.model, cache_file);
    if (c.spread() == 0) continue;
    for (Step& s : program.steps)
      if (const DeviceModel* const fitted = s.as<LaunchStep>() ? c.model(s.op()) : nullptr)
        if (const auto efficiency = efficiency_of(backend, plan, program, s))
          s.seconds = estimate(s.flops, s.bytes, *efficiency, *fitted);
    program.model = c.device();
    program.model.name += concat(calibrated_mark, std::lround(100 * c.spread()), '%');
    any = true;
  }
  if (any) plan.seconds = seconds_of(plan);
}

}  // namespace tandem
