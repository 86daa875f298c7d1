#include "cli/model_options.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/spec.h"
#include "cli/image_options.h"
#include "cli/loss_options.h"
#include "cli/optimizer_options.h"
#include "cli/tune_options.h"
#include "trainer/input_options.h"

namespace tandem {
namespace {

std::string cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return concat(cache, "/tandem");
  if (const char* home = std::getenv("HOME"); home && *home) return concat(home, "/.cache/tandem");
  return "";
}

// A path for the measured kernel times, or empty where none can be kept.
std::string tuning_cache(const Arguments& a) {
  if (!a.on("autotune")) return "";
  if (!a.text("tuning-cache").empty()) {
    check_writable_file(a.text("tuning-cache"));
    return a.text("tuning-cache");
  }
  const std::string folder = cache_folder();
  std::error_code error;
  if (folder.empty() || (std::filesystem::create_directories(folder, error), error)) return "";
  return folder + "/kernels.cache";
}

std::optional<LayoutPreference> layout_of(const std::string& text) {
  if (text == "auto") return std::nullopt;
  if (text == "blocked") return LayoutPreference::blocked;
  if (text == "channels-last") return LayoutPreference::channels_last;
  fail(ExitCode::usage, "--layout: unknown layout '", text, "'",
       suggestion(text, std::vector<std::string>{"auto", "blocked", "channels-last"}));
}

std::optional<bool> unbiased_of(const std::string& text) {
  if (text == "auto") return std::nullopt;
  if (text == "population" || text == "unbiased") return text == "unbiased";
  fail(ExitCode::usage, "--running-variance: unknown variance '", text, "'", suggestion(text, std::vector<std::string>{"auto", "population", "unbiased"}));
}

Precision precision_of(const std::string& text) {
  std::vector<std::string> names;
  for (const Precision p : precisions) {
    if (name_of(p) == text) return p;
    names.emplace_back(name_of(p));
  }
  fail(ExitCode::usage, "--precision: unknown number format '", text, "'", suggestion(text, names));
}

}  // namespace

std::vector<OptionRow> join(std::initializer_list<std::vector<OptionRow>> parts) {
  std::vector<OptionRow> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

void read_dims(const Arguments& a, std::map<std::string, std::int64_t>& dims, std::map<std::string, std::vector<std::int64_t>>& buckets) {
  for (const std::string& dim : a.list("dim")) {
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

std::vector<OptionRow> device_rows() {
  return {
      {"", "devices, batch and kernels", "", ""},
      {"devices", "LIST", "cpu", "devices: cpu, cpu:0-3, cuda:0, cuda:0*4, /GPU:0, separated by commas"},
      {"slice-weights", "LIST", "", "each device's share of a batch, such as 2,1,1 (default equal)"},
      {"batch-size", "N", "32", "samples of a batch, over all devices"},
      {"dim", "NAME=SIZE", "", "sizes of other symbolic dimensions, separated by commas; 'NAME=32|64|128': each training batch takes the smallest that holds it"},
      {"batch-axis", "INPUT=AXIS", "", "the axis along which an input of the file holds its samples, none for one that holds none, separated by commas (default: found out); data has samples first"},
      {"set", "INPUT=VALUE", "", "an input's value, the same in every batch: a number, numbers separated by |, or FILE.npy; separated by commas"},
      {"max-turns", "N", "", "most turns of loops whose end is computed from data and which do not say how many they can take"},
      {"layout", "NAME", "auto", "memory layout: auto, blocked or channels-last"},
      {"winograd", "", "on", "use Winograd's convolution, which rounds a little differently"},
      {"deterministic", "", "off", "the same result in every run: only kernels that give it, chosen by estimates, without timing them"},
      {"tuning-cache", "FILE", "", "where measured kernel times are kept (default in the user's cache folder)"},
      {"retune", "", "off", "time kernels again although their times are kept; the shorter times stay, and a plan may change. Times that were disturbed are taken again without it, once the machine is quiet"},
      {"without-pass", "NAMES", "", "passes of the planner to leave out, separated by commas: to find the one that is at fault (plan --dump-passes lists them)"},
      {"precision", "NAME", "fp32", "fp32, tf32 (GPUs), bf16 or fp16 with float32 weights, fp8 (experimental: bf16 with products in 8 bits); the model stays float32"},
  };
}

std::vector<OptionRow> training_rows() {
  return join({loss_rows_of_training(), {
      {"loss-scale", "X", "", "start of the loss scale, 0 for none (default 65536 with fp16, else none); it follows the gradients"},
      {"dense-labels", "", "off", "labels have the output's shape (found out from the data where there is some)"},
      {"bucket-bytes", "N", "26214400", "largest all-reduce bucket"},
      {"sync-batch-norm", "", "off", "BatchNormalization over all devices' samples"},
      {"running-variance", "NAME", "auto", "what BatchNormalization's running variance follows: population, the batch's own variance, as ONNX has it, or unbiased, n/(n-1) times that, as PyTorch has it (auto: unbiased where the file says that PyTorch made it)"},
  }});
}

std::vector<OptionRow> weight_rows() {
  return {
      {"", "which weights are trained", "", ""},
      {"freeze", "PATTERNS", "", "weights not to train, by name with * and ?, separated by commas; a BatchNormalization's statistics stay with it"},
      {"unfreeze", "PATTERNS", "", "exceptions to --freeze"},
      {"trainable", "PATTERNS", "", "tensors of the file that are weights, whatever tandem takes them for (summary --weights)"},
      {"constant", "PATTERNS", "", "tensors of the file that are constants"},
      {"untie", "PATTERNS", "", "tensors that several nodes read: each gets its own, also in the trained model ('*': all, none; default: scales and biases that the exporter merged)"},
      {"tie", "A=B", "", "train B as A (transposed where shapes say so), both are written; pairs separated by commas"},
  };
}

WeightOptions weight_options(const Arguments& a) {
  WeightOptions o{.trainable = a.list("trainable"), .constant = a.list("constant"), .untie = a.list("untie"), .tie = {}, .outputs = {}, .head = {}, .replace_head = {}, .lora = {}};
  for (const std::string& pair : a.list("tie")) {
    const std::size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == pair.size()) fail(ExitCode::usage, "--tie ", pair, ": expected A=B");
    o.tie.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  read_head(a, o);
  return o;
}

std::vector<OptionRow> data_rows() {
  static const std::string help = [] {
    std::string usages;
    for (const DataSource& source : data_sources()) usages += concat(usages.empty() ? "" : ", ", source.usage);
    return concat("what to read, see docs/training.md: ", usages);
  }();
  return join({{
      {"", "data", "", ""},
      {"data", "SPEC", "", help},
      {"normalize", "MEAN,DEV", "", "x becomes (x - MEAN) / DEV, after bytes became 0..1; also one mean, then one deviation, a channel; imagenet (its own), auto (measured), none (default: as the file says it was trained)"},
  }, image_rows()});
}

ModelOptions model_options(const Invocation& invocation, PlanMode mode) {
  const Arguments& a = invocation.arguments;
  ModelOptions o;
  o.plan.mode = mode;
  o.plan.precision = precision_of(a.text("precision"));
  o.plan.batch = a.integer("batch-size");
  if (o.plan.batch == 0) fail(ExitCode::usage, "--batch-size must be at least 1");
  o.plan.devices = parse_devices(a.text("devices"), a.text("slice-weights"));
  read_dims(a, o.dims, o.buckets);
  o.batch_axes = parse_axes(a.list("batch-axis"), "--batch-axis");
  o.constants = parse_constants(a.list("set"), "--set");
  if (a.given("max-turns")) o.max_turns = a.integer("max-turns");
  o.plan.kernel.winograd = a.on("winograd");
  o.plan.kernel.deterministic = a.on("deterministic");
  o.plan.layout = layout_of(a.text("layout"));
  o.plan.autotune = a.on("autotune");
  o.plan.tuning_cache = tuning_cache(a);
  o.plan.retune = a.on("retune");
  if (o.plan.retune && !o.plan.autotune) fail(ExitCode::usage, "--retune needs --autotune");
  if (o.plan.retune && o.plan.kernel.deterministic) fail(ExitCode::usage, "--retune: --deterministic chooses kernels without timing them");
  o.plan.without_passes = a.list("without-pass");
  read_loss(a, o);
  if (mode == PlanMode::training) {
    o.plan.optimizer = optimizer_options(a);
    o.plan.freeze = a.list("freeze");
    o.plan.unfreeze = a.list("unfreeze");
    o.plan.dense_labels = a.on("dense-labels");
    o.plan.bucket_bytes = a.integer("bucket-bytes");
    o.plan.synchronize_batch_norm = a.on("sync-batch-norm");
    o.unbiased_variance = unbiased_of(a.text("running-variance"));
    if (a.given("loss-scale")) o.plan.loss_scaling = LossScaling{.start = a.number("loss-scale")};
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
  const auto take = [&](std::string_view option, const char* key, const auto& use) {
    const auto entry = model.file().metadata().find(key);
    if (call.arguments.given(option) || entry == model.file().metadata().end()) return;
    try {
      use(split(entry->second, ','));
    } catch (const Error& e) {
      fail(ExitCode::model, "the model's metadata ", entry->first, ": ", e.what());
    }
    call.say(concat("note: ", option, " is ", entry->second, ", as the model was trained (--", option, " overrules it)"));
  };
  take("set", "tandem.set", [&](const std::vector<std::string>& list) { o.constants = parse_constants(list, "set"); });
  take("batch-axis", "tandem.batch_axis", [&](const std::vector<std::string>& list) { o.batch_axes = parse_axes(list, "batch axis"); });
  const std::string& source = call.arguments.text("data");
  if (source.empty()) return;
  if (const std::optional<DataRequest> request = model.dims_request(o))
    if (const std::unique_ptr<Dataset> data = arrays_of(source, *request)) model.fit_dims(o, *data);
}

void take_preparation(const Invocation& call, const Model& model, ModelOptions& o) {
  const auto take = [&](std::string_view option, std::string_view key, const auto& use) {
    const auto entry = model.file().metadata().find(concat("tandem.", key));
    if (call.arguments.given(option) || entry == model.file().metadata().end() || entry->second == call.arguments.text(option)) return;
    try {
      use(entry->second);
    } catch (const Error& e) {
      fail(ExitCode::model, "the model's metadata ", entry->first, ": ", e.what());
    }
    call.say(concat("note: ", option, " is ", entry->second, ", as the model was trained (--", option, " overrules it)"));
  };
  take("loss", "loss", [&](const std::string& text) {
    o.plan.loss = text;
    o.plan.loss_assumed = false;
  });
  take("loss-on", "loss_on", [&](const std::string& text) { o.plan.loss_on = text; });
  take("class-axis", "class_axis", [&](const std::string& text) { o.plan.class_axis = static_cast<int>(parse_integer(text, "class axis")); });
  take("ignore-index", "ignore_index", [&](const std::string& text) { o.plan.ignore_index = parse_integer(text, "ignore index"); });
  take("shift-labels", "shift_labels", [&](const std::string& text) { o.plan.shift_labels = text == "on"; });
}

Preprocess preprocess(const Invocation& call, const Model& model) {
  Preprocess p;
  read_image_options(call, model, p);
  const std::string& asked = call.arguments.text("normalize");
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
