#include "options/model_options.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "base/cache_folder.h"
#include "base/file.h"
#include "base/spec.h"
#include "options/data_flags.h"
#include "options/device_flags.h"
#include "options/image_options.h"
#include "options/loss_flags.h"
#include "options/loss_options.h"
#include "options/optimizer_options.h"
#include "options/plan_file_flags.h"
#include "options/record_options.h"
#include "options/train_flags.h"
#include "options/tune_options.h"
#include "options/weight_flags.h"
#include "trainer/template/input_options.h"

namespace tandem {
namespace {

// A path for the measured kernel times, or empty where none can be kept. Without autotune a calibration is read from it.
std::string tuning_cache(const OptionValues& a) {
  const std::string asked = a[device_flags.tuning_cache];
  if (!asked.empty() && a[timing_flags.autotune]) check_writable_file(asked);
  return asked.empty() ? kernel_times_file(a[timing_flags.autotune]) : asked;
}

}  // namespace

std::string usages_of_data(const FlagRow&) {
  std::string usages;
  for (const DataSource& source : data_sources()) usages += concat(usages.empty() ? "" : ", ", source.usage);
  return usages;
}
std::map<std::string, int> read_axes(const FlagRow& row, const std::string& text) { return parse_axes(split(text, ','), row.told()); }
std::map<std::string, Tensor> read_constants(const FlagRow& row, const std::string& text) {
  return parse_constants(split(text, ','), row.told());
}
std::vector<std::pair<std::string, std::string>> read_pairs(const FlagRow& row, const std::string& text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& pair : split(text, ',')) {
    const std::size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == pair.size())
      fail(ExitCode::usage, row.told(), ' ', pair, ": expected A=B");
    pairs.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return pairs;
}

void read_dims(const OptionValues& a, std::map<std::string, std::int64_t>& dims,
               std::map<std::string, std::vector<std::int64_t>>& buckets) {
  for (const std::string& dim : a[device_flags.dim]) {
    const std::size_t equals = dim.rfind('=');
    const auto wrong = [&] { fail(ExitCode::usage, device_flags.dim.told(), ' ', dim, ": expected NAME=SIZE"); };
    if (equals == std::string::npos) wrong();
    const std::string name = dim.substr(0, equals), text = dim.substr(equals + 1);
    std::vector<std::int64_t> sizes;
    for (const std::string& size : split(text, '|')) sizes.push_back(parse_integer(size, concat(device_flags.dim.told(), ' ', name)));
    if (sizes.empty()) wrong();
    if (sizes.size() > 1)
      buckets[name] = std::move(sizes);
    else
      dims[name] = sizes[0];
  }
}

WeightOptions weight_options(const OptionValues& a) {
  WeightOptions o{.trainable = a[weight_flags.trainable],
                  .constant = a[weight_flags.constant],
                  .untie = a[weight_flags.untie],
                  .tie = a[weight_flags.tie],
                  .outputs = {},
                  .head = {},
                  .replace_head = {},
                  .lora = {}};
  read_head(a, o);
  return o;
}

namespace {

// Batches that make one step are one batch, each in a micro-batch of its own or in several.
void read_batch(const OptionValues& a, bool trains, CompileOptions& plan) {
  plan.batch = a[device_flags.batch_size];
  std::int64_t& parts = plan.parallel.micro_batches = a[device_flags.micro_batches];
  const std::int64_t batches = trains ? a[optimizer_flags.accumulate] : 1;
  if (parts > 1 && parts % batches != 0)
    fail(ExitCode::usage, device_flags.micro_batches.told(), ' ', parts, " are those of a step, and ", optimizer_flags.accumulate.told(),
         ' ', batches, " makes it of as many batches: expected a multiple of ", batches);
  parts = std::max(parts, batches);
  if (plan.batch > std::numeric_limits<std::int64_t>::max() / batches)
    fail(ExitCode::usage, device_flags.batch_size.told(), ' ', plan.batch, ": ", batches, " batches of that size (",
         optimizer_flags.accumulate.told(), ") are beyond 64 bits");
  plan.batch *= batches;
}

SliceBy slices_of(const OptionValues& a) {
  const std::string weights = a[device_flags.slice_weights];
  return weights == "auto" ? SliceBy::time : weights == "memory" ? SliceBy::memory : SliceBy::given;
}

ModelOptions model_options(const OptionValues& a, bool trains, int ranks) {
  ModelOptions o;
  o.plan.precision = a[device_flags.precision];
  o.plan.devices = parse_devices(a[device_flags.devices], slices_of(a) == SliceBy::given ? a[device_flags.slice_weights] : std::string());
  o.plan.parallel = a[device_flags.parallel];
  read_batch(a, trains, o.plan);
  o.plan.parallel.schedule = a[device_flags.schedule];
  o.plan.parallel.stages = a[device_flags.stage];
  o.plan.parallel.places = parse_place(a[device_flags.place], o.plan.devices, ranks);
  o.plan.memory.most = a[device_flags.device_memory];
  if (trains) {
    o.plan.parallel.splits = a[placement_flags.split];
    o.plan.memory.budget = a[placement_flags.memory_budget];
    o.plan.memory.recompute = a[placement_flags.recompute];
    o.plan.weight_gradients_beside = a[placement_flags.weight_gradients_beside];
    if (const std::string home = a[placement_flags.weights_on]; !home.empty()) keep_weights_on(o.plan, home);
    if (const std::string there = a[placement_flags.merge]; !there.empty()) merge_on(o.plan, there);
    const Offloaded offload = a[placement_flags.offload];
    if (offload.optimizer) offload_optimizer(o.plan, ranks);
    if (offload.activations) offload_activations(o.plan, ranks);
  }
  o.plan.gather = a[device_flags.gather];
  read_dims(a, o.dims, o.buckets);
  o.batch_axes = a[device_flags.batch_axis];
  o.constants = a[device_flags.set];
  if (const auto iterations = a[device_flags.max_loop_iterations]) o.max_loop_iterations = *iterations;
  o.plan.kernel.winograd = a[device_flags.winograd];
  o.plan.kernel.deterministic = a[device_flags.deterministic];
  o.plan.layout = a[device_flags.layout];
  o.plan.tuning.autotune = a[timing_flags.autotune];
  o.plan.tuning.cache = tuning_cache(a);
  o.plan.tuning.retune = a[device_flags.retune];
  if (o.plan.tuning.retune && !o.plan.tuning.autotune)
    fail(ExitCode::usage, device_flags.retune.told(), " needs ", timing_flags.autotune.told());
  if (o.plan.tuning.retune && o.plan.kernel.deterministic)
    fail(ExitCode::usage, device_flags.retune.told(), ": ", device_flags.deterministic.told(), " chooses kernels without timing them");
  o.plan.tuning.without = a[device_flags.without_kernels];
  o.plan.passes.without = a[device_flags.without_pass];
  read_loss(a, o);
  if (trains) {
    read_distillation(a, o);
    o.plan.optimizer = optimizer_options(a);
    o.plan.trained.freeze = a[weight_flags.freeze];
    o.plan.trained.unfreeze = a[weight_flags.unfreeze];
    o.plan.loss.dense_labels = a[target_flags.dense_labels];
    o.plan.memory.bucket_bytes = a[target_flags.bucket_bytes];
    o.plan.synchronize_batch_norm = a[target_flags.sync_batch_norm];
    o.unbiased_variance = a[target_flags.running_variance];
    if (const auto start = a[target_flags.loss_scale]) o.plan.loss.scaling = LossScaling{.start = *start};
  }
  return o;
}

void read_fit_options(const OptionValues& a, FitOptions& o) {
  o.steps = a[train_flags.steps];
  o.epochs = a.given(train_flags.steps) && !a.given(train_flags.epochs) ? 0 : a[train_flags.epochs];
  read_rate_options(a, o);
  parse_augment(o.preprocess, a[train_flags.augment]);
  o.shuffle = a[train_flags.shuffle];
  o.eval_batch = a[train_flags.eval_batch_size];
  o.run_dir = a[record_flags.run_dir];
  o.resume = a[record_flags.resume];
  read_record_options(o, a);
  o.check_replicas = a[train_flags.check_replicas];
}

}  // namespace

RunOptions run_options(const OptionValues& a, Purpose purpose, int ranks) {
  RunOptions o;
  o.purpose = purpose;
  o.model = model_options(a, purpose == Purpose::train || purpose == Purpose::plan, ranks);
  o.model.plan_file = a[plan_file_flags.plan];
  o.model.replan = a[plan_file_flags.replan];
  read_image_options(a, o.fit.preprocess);
  o.fit.metrics = metrics_of(a);
  o.slices = slices_of(a);
  o.data = a[data_flags.data];
  o.split = a[split_flags.split];
  o.configuration = a[device_flags.configuration];
  o.class_weights = a[target_flags.class_weights];
  for (const FlagRow* row : a.given()) o.chosen.insert(row->field());
  for (const FlagRow* row : {static_cast<const FlagRow*>(&data_flags.normalize), static_cast<const FlagRow*>(&data_flags.resize)})
    if (a.text(*row).empty()) o.chosen.erase(row->field());
  o.adjust_own_optimizer = [a](OptimizerOptions& optimizer) { optimizer = optimizer_options(a, optimizer); };
  return o;
}

RunOptions training_options(const OptionValues& a, const Model& model, Purpose purpose, int ranks) {
  RunOptions run = run_options(a, purpose, ranks);
  ModelOptions& o = run.model;
  o.init = a[train_flags.init];
  o.seed = static_cast<std::uint64_t>(a[train_flags.seed]);
  if (const std::filesystem::path folder = a[record_flags.run_dir]; !folder.empty()) o.plans = folder / "plans";
  o.resume = a[record_flags.resume];
  read_train_only(a, model, o.plan.trained.freeze, o.plan.trained.unfreeze);
  read_fit_options(a, run.fit);
  run.validation_split = a[train_flags.validation_split];
  return run;
}

}  // namespace tandem
