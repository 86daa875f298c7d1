#include "cli/model_options.h"

#include <algorithm>
#include <filesystem>

#include "base/cache_folder.h"
#include "base/file.h"
#include "base/spec.h"
#include "cli/data_flags.h"
#include "cli/device_flags.h"
#include "cli/image_options.h"
#include "cli/loss_flags.h"
#include "cli/loss_options.h"
#include "cli/optimizer_options.h"
#include "cli/tune_options.h"
#include "cli/weight_flags.h"
#include "trainer/input_options.h"

namespace tandem {
namespace {

// A path for the measured kernel times, or empty where none can be kept.
std::string tuning_cache(const Arguments& a) {
  if (!a[timing_flags.autotune]) return "";
  if (const std::string asked = a[device_flags.tuning_cache]; !asked.empty()) {
    check_writable_file(asked);
    return asked;
  }
  const std::filesystem::path folder = cache_folder();
  std::error_code error;
  if (folder.empty() || (std::filesystem::create_directories(folder, error), error)) return "";
  return folder / "kernels.cache";
}

}  // namespace

std::string usages_of_data(const FlagRow&) {
  std::string usages;
  for (const DataSource& source : data_sources()) usages += concat(usages.empty() ? "" : ", ", source.usage);
  return usages;
}
std::map<std::string, int> read_axes(const FlagRow& row, const std::string& text) { return parse_axes(split(text, ','), row.flag()); }
std::map<std::string, Tensor> read_constants(const FlagRow& row, const std::string& text) { return parse_constants(split(text, ','), row.flag()); }
std::vector<std::pair<std::string, std::string>> read_pairs(const FlagRow& row, const std::string& text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& pair : split(text, ',')) {
    const std::size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == pair.size()) fail(ExitCode::usage, row.flag(), ' ', pair, ": expected A=B");
    pairs.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return pairs;
}

void read_dims(const Arguments& a, std::map<std::string, std::int64_t>& dims, std::map<std::string, std::vector<std::int64_t>>& buckets) {
  for (const std::string& dim : a[device_flags.dim]) {
    const std::size_t equals = dim.rfind('=');
    if (equals == std::string::npos) fail(ExitCode::usage, "--dim ", dim, ": expected NAME=SIZE");
    const std::string name = dim.substr(0, equals), text = dim.substr(equals + 1);
    std::vector<std::int64_t> sizes;
    for (const std::string& size : split(text, '|')) sizes.push_back(parse_integer(size, concat("--dim ", name)));
    if (sizes.empty()) fail(ExitCode::usage, "--dim ", dim, ": expected NAME=SIZE");
    if (sizes.size() > 1)
      buckets[name] = std::move(sizes);
    else
      dims[name] = sizes[0];
  }
}

WeightOptions weight_options(const Arguments& a) {
  WeightOptions o{.trainable = a[weight_flags.trainable], .constant = a[weight_flags.constant], .untie = a[weight_flags.untie], .tie = a[weight_flags.tie], .outputs = {}, .head = {}, .replace_head = {}, .lora = {}};
  read_head(a, o);
  return o;
}

ModelOptions model_options(const Invocation& invocation, PlanMode mode) {
  const Arguments& a = invocation.arguments;
  ModelOptions o;
  o.plan.mode = mode;
  o.plan.precision = a[device_flags.precision];
  o.plan.batch = a[device_flags.batch_size];
  o.plan.devices = parse_devices(a[device_flags.devices], a[device_flags.slice_weights]);
  o.plan.parallel = a[device_flags.parallel];
  o.plan.parallel.splits = a[device_flags.split];
  read_dims(a, o.dims, o.buckets);
  o.batch_axes = a[device_flags.batch_axis];
  o.constants = a[device_flags.set];
  if (const auto turns = a[device_flags.max_turns]) o.max_turns = *turns;
  o.plan.kernel.winograd = a[device_flags.winograd];
  o.plan.kernel.deterministic = a[device_flags.deterministic];
  o.plan.layout = a[device_flags.layout];
  o.plan.autotune = a[timing_flags.autotune];
  o.plan.tuning_cache = tuning_cache(a);
  o.plan.retune = a[device_flags.retune];
  if (o.plan.retune && !o.plan.autotune) fail(ExitCode::usage, "--retune needs --autotune");
  if (o.plan.retune && o.plan.kernel.deterministic) fail(ExitCode::usage, "--retune: --deterministic chooses kernels without timing them");
  o.plan.without_passes = a[device_flags.without_pass];
  read_loss(a, o);
  if (mode == PlanMode::training) {
    o.plan.optimizer = optimizer_options(a);
    o.plan.freeze = a[weight_flags.freeze];
    o.plan.unfreeze = a[weight_flags.unfreeze];
    o.plan.dense_labels = a[target_flags.dense_labels];
    o.plan.bucket_bytes = a[target_flags.bucket_bytes];
    o.plan.synchronize_batch_norm = a[target_flags.sync_batch_norm];
    o.unbiased_variance = a[target_flags.running_variance];
    if (const auto start = a[target_flags.loss_scale]) o.plan.loss_scaling = LossScaling{.start = *start};
  }
  return o;
}

namespace {

// What data an argument names, opened to see the shapes of its arrays; null: such data is read by the model's shapes.
std::unique_ptr<Dataset> arrays_of(const std::string& source, const DataRequest& request) {
  const bool bare = source.find(':') == std::string::npos && (source.ends_with(".npy") || source.ends_with(".npz"));
  if (!bare && !source.starts_with("npz:") && !source.starts_with("npy:")) return nullptr;
  Splits splits = open_data(source, request);
  return std::move(splits.train ? splits.train : splits.test ? splits.test : splits.validation);
}

}  // namespace

void settle_inputs(const Invocation& call, const Model& model, ModelOptions& o) {
  const auto take = [&](const FlagRow& option, const char* key, const auto& use) {
    const auto entry = model.file().metadata().find(key);
    if (call.arguments.given(option) || entry == model.file().metadata().end()) return;
    try {
      use(split(entry->second, ','));
    } catch (const Error& e) {
      fail(ExitCode::model, "the model's metadata ", entry->first, ": ", e.what());
    }
    call.say(concat("note: ", option.name, " is ", entry->second, ", as the model was trained (", option.flag(), " overrules it)"));
  };
  take(device_flags.set, "tandem.set", [&](const std::vector<std::string>& list) { o.constants = parse_constants(list, "set"); });
  take(device_flags.batch_axis, "tandem.batch_axis", [&](const std::vector<std::string>& list) { o.batch_axes = parse_axes(list, "batch axis"); });
  const std::string source = call.arguments[data_flags.data];
  if (source.empty()) return;
  if (const std::optional<DataRequest> request = model.dims_request(o))
    if (const std::unique_ptr<Dataset> data = arrays_of(source, *request)) model.fit_dims(o, *data);
}

void take_preparation(const Invocation& call, const Model& model, ModelOptions& o) {
  const auto take = [&](const FlagRow& option, const auto& use) {
    const auto entry = model.file().metadata().find(concat("tandem.", option.field()));
    if (call.arguments.given(option) || entry == model.file().metadata().end() || entry->second == call.arguments.text(option)) return;
    try {
      use(entry->second);
    } catch (const Error& e) {
      fail(ExitCode::model, "the model's metadata ", entry->first, ": ", e.what());
    }
    call.say(concat("note: ", option.name, " is ", entry->second, ", as the model was trained (", option.flag(), " overrules it)"));
  };
  take(loss_flags.loss, [&](const std::string& text) {
    o.plan.loss = text;
    o.plan.loss_assumed = false;
  });
  take(loss_flags.loss_on, [&](const std::string& text) { o.plan.loss_on = text; });
  take(loss_flags.class_axis, [&](const std::string& text) { o.plan.class_axis = static_cast<int>(parse_integer(text, "class axis")); });
  take(loss_flags.ignore_index, [&](const std::string& text) { o.plan.ignore_index = parse_integer(text, "ignore index"); });
  take(loss_flags.shift_labels, [&](const std::string& text) { o.plan.shift_labels = text == "on"; });
}

Preprocess preprocess(const Invocation& call, const Model& model) {
  Preprocess p;
  read_image_options(call, model, p);
  const std::string asked = call.arguments[data_flags.normalize];
  const auto entry = model.file().metadata().find("tandem.normalize");
  if (!asked.empty() || entry == model.file().metadata().end()) {
    if (!asked.empty()) parse_normalize(p, asked);
    return p;
  }
  try {
    parse_normalize(p, entry->second);
  } catch (const Error& e) {
    fail(ExitCode::model, "the model's metadata tandem.normalize: ", e.what());
  }
  call.say(concat("note: normalize is ", entry->second, ", as the model was trained (--normalize overrules it, none for none)"));
  return p;
}

const Dataset& split_of(const Splits& splits, std::string_view name) {
  const std::pair<std::string_view, const Dataset*> parts[] = {
      {"test", splits.test.get()}, {"validation", splits.validation.get()}, {"train", splits.train.get()}};
  std::string there;
  for (const auto& [part, data] : parts) {
    if (data && (name.empty() || name == part)) return *data;
    if (data) there += concat(there.empty() ? "" : ", ", part);
  }
  fail(name.empty() ? ExitCode::data : ExitCode::usage, "the data has no part '", name, "'", there.empty() ? "" : concat(" (it has ", there, ")"));
}

}  // namespace tandem
