#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "cli/backends.h"
#include "cli/calibrate_device.h"
#include "cli/command.h"
#include "cli/describe_device.h"
#include "cli/table.h"
#include "data/data_file.h"
#include "data/image.h"
#include "kernels/cpu/peak.h"
#include "kernels/described/device_kind.h"

namespace tandem {
namespace {

constexpr std::size_t columns = 60, first_column = 9, key_columns = 11;

// Words from a column on; those that do not fit go to the next line, under the first.
std::string wrapped(std::size_t indent, std::string_view words) {
  std::string text;
  for (std::size_t width = indent; !words.empty();) {
    const std::string_view word = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    if (width > indent && width + 1 + word.size() > columns) {
      text += fmt::format("\n{:{}}", "", indent);
      width = indent;
    } else if (width > indent) {
      text += ' ';
      ++width;
    }
    text += word;
    width += word.size();
  }
  return text + '\n';
}

// "         has        AVX2, AVX-512, ..."
std::string line(std::string_view key, std::string_view words) {
  return fmt::format("{:{}}{:<{}}{}", "", first_column, key, key_columns, wrapped(first_column + key_columns, words));
}

// "cuda     not usable: ..."
std::string headline(std::string_view device, std::string_view words) {
  return fmt::format("{:<{}}{}", device, first_column, wrapped(first_column, words));
}

// The number formats that plans for a backend's devices can be made in.
std::vector<std::string_view> formats(const Backend& backend) {
  std::vector<std::string_view> names;
  for (const Precision p : precisions)
    if (backend.declines(p).empty()) names.push_back(name_of(p));
  return names;
}

struct Listing {
  Json::Array list;
  std::string text;

  void add(const std::string& device, const Backend& backend, const DeviceModel& m) {
    Json::Object object = {{"device", device}, {"usable", true}, {"name", m.name}, {"threads", m.threads}, {"memory", m.memory}};
    text += headline(device, m.name);
    if (backend.name() == "cpu")
      measure_cpu(object, backend, m);
    else
      describe(object, m);
    const std::vector<std::string_view> trains_in = formats(backend);
    object.emplace_back("formats", Json::Array(trains_in.begin(), trains_in.end()));
    object.emplace_back("backend", backend.version());
    text += line("trains in", fmt::format("{}", fmt::join(trains_in, ", ")));
    text += line("kernels", backend.version());
    list.push_back(Json(std::move(object)));
  }

  void add_missing(const std::string& device, const std::string& reason) {
    list.push_back(Json::Object{{"device", device}, {"usable", false}, {"reason", reason}});
    text += headline(device, concat("not usable: ", reason));
  }

 private:
  void measure_cpu(Json::Object& object, const Backend& backend, const DeviceModel& m) {
    const double bandwidth = measure_bandwidth();
    const std::vector<std::string_view> sets = instruction_sets();
    Json::Array peaks;
    double fastest = 0;  // in float32
    text += line("memory", fmt::format("{:.1f} GB, {:.1f} GB/s measured", static_cast<double>(m.memory) / 1e9, bandwidth / 1e9));
    for (const Peak& p : measure_peaks()) {
      text += line(p.format, fmt::format("{:.0f} GFLOP/s measured, {}", p.flops / 1e9, p.instructions));
      if (p.format == "fp32") fastest = std::max(fastest, p.flops);
      peaks.push_back(Json::Object{{"format", p.format}, {"instructions", p.instructions}, {"flops", p.flops}});
    }
    text += line("has", sets.empty() ? "no vectors that tandem knows" : fmt::format("{}", fmt::join(sets, ", ")));
    text += line("oneDNN", fmt::format("uses {}", onednn_isa()));
    text += line("devices", concat("cpu:0 to cpu:", backend.device_count() - 1, " share its cores"));
    object.emplace_back("flops", fastest);
    object.emplace_back("bandwidth", bandwidth);
    object.emplace_back("peaks", std::move(peaks));
    object.emplace_back("instruction_sets", Json::Array(sets.begin(), sets.end()));
    object.emplace_back("onednn_isa", onednn_isa());
  }

  void describe(Json::Object& object, const DeviceModel& m) {
    text += line("memory", fmt::format("{:.1f} GB, {:.0f} GB/s", static_cast<double>(m.memory) / 1e9, m.bandwidth / 1e9));
    text += line("fp32", fmt::format("{:.0f} GFLOP/s", m.flops / 1e9));
    object.emplace_back("flops", m.flops);
    object.emplace_back("bandwidth", m.bandwidth);
  }
};

struct DevicesFlags : FlagGroup {
  Flag<std::string> describe{*this, "describe", "FILE", "", "measure this machine's CPU and write its description there, as plan's --cluster takes it: some seconds", {.scope = FlagScope::place}};
  Switch calibrate{*this, "calibrate", off, "time some kernels of this machine's CPU once; plans without --autotune then go by these rates", {.scope = FlagScope::place}};
  Switch known{*this, "known", off, "list the devices that plans can be made for without them; with --json as plan's --cluster takes it"};
};
constexpr DevicesFlags devices_flags;

std::string rate(double flops) { return fmt::format("{:g}", flops / 1e12); }

int show_known(const Invocation& call) {
  Json::Array list;
  std::vector<std::vector<std::string>> rows;
  for (const DeviceKind& kind : known_device_kinds()) {
    list.push_back(to_json(kind));
    std::vector<std::string> row = {kind.name, kind.product, fmt::format("{:g} GiB", kind.memory / (1 << 30)),
                                    fmt::format("{:g}", kind.bandwidth / 1e9)};
    for (const Precision p : precisions) row.push_back(kind.flops.contains(p) ? rate(kind.flops.at(p)) : "-");
    row.push_back(kind.links.levels.empty() ? "" : kind.links.levels[0].name);
    rows.push_back(std::move(row));
  }
  if (call.json()) {
    call.print(Json::Object{{"devices", std::move(list)}});
    return 0;
  }
  std::vector<TableColumn> head = {{"device"}, {"", false, 1}, {"memory", true}, {"GB/s", true}};
  for (const Precision p : precisions) head.push_back({to_string(p), true});
  head.push_back({"link", false, 2});
  call.write(table(head, std::move(rows), output_columns(call.streams, call.environment)) +
             "TFLOP/s of products by format; --devices h100:0-7 plans for eight of them\n");
  return 0;
}

int describe(const Invocation& call, const BackendSet& backends, const std::string& file) {
  check_writable_file(file);
  const auto [kind, disturbed] = describe_cpu(find_backend(backends.all(), "cpu"));
  write_atomically(file, Json(Json::Object{{"devices", Json::Array{to_json(kind)}}}).dump() + "\n");
  call.say(
      concat("'", file, "' describes ", kind.product, " as ", kind.name, ": tandem plan MODEL --cluster ", file, " --devices ", kind.name));
  if (disturbed > 0)
    call.warn(concat("other programs disturbed ", disturbed,
                     " of the times: kernels reach more than it says; make it again on a quiet machine"));
  return 0;
}

int run(const Invocation& call) {
  if (call.arguments[devices_flags.known]) return show_known(call);
  const BackendSet backends = BackendSet::load();
  if (const std::string file = call.arguments[devices_flags.describe]; !file.empty()) return describe(call, backends, file);
  if (call.arguments[devices_flags.calibrate]) return calibrate(call, find_backend(backends.all(), "cpu"));
  Listing listing;
  for (const Backend* backend : backends.all()) {
    if (const std::string reason = backend->unusable(); !reason.empty())
      listing.add_missing(backend->name(), reason);
    else if (backend->name() == "cpu")
      listing.add("cpu", *backend, backend->model(0, 1));
    else
      for (int i = 0; i < backend->device_count(); ++i)
        listing.add(to_string(DeviceId{backend->name(), i}), *backend, backend->model(i, 1));
  }
  for (const MissingBackend& missing : backends.missing()) listing.add_missing(missing.name, missing.reason);
  if (call.json())
    call.print(Json(std::move(listing.list)));
  else
    call.write(listing.text + headline("data", concat("reads images: ", image_formats())) + line("", concat("unpacks ", compressions())));
  return 0;
}

}  // namespace

Command devices_command() {
  return {
      .name = "devices",
      .help = "list the devices of this machine, what they can do, and why some cannot be used",
      .usage = "[options]",
      .examples = "  tandem devices\n  tandem devices --json\n  tandem devices --known\n  tandem devices --describe mine.json\n"
                  "  tandem devices --calibrate\n",
      .options = {&devices_flags},
      .run = run,
  };
}

}  // namespace tandem
