// Reads descriptions of devices: every figure has a row that says in which unit it stands and what it may be.
#include "kernels/described/device_kind.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/suggest.h"
#include "kernels/described/devices_text.h"

namespace tandem {
namespace {

constexpr double gib = 1 << 30, giga = 1e9, tera = 1e12, micro = 1e-6;
constexpr double begin_seconds = 8.4e-6, switch_seconds = 25e-6;  // NCCL's src/graph/tuning.cc: its Simple protocol, and NVLS
constexpr double share_of_products = 0.75;                         // that convolutions and attention reach where nothing else is said

struct Reader {
  std::string where;

  [[noreturn]] void wrong(std::string_view name, std::string_view is, std::string_view wanted) const {
    fail(ExitCode::usage, where, ": ", name, " is ", is, ", expected ", wanted);
  }
  void allow(const Json& json, const std::vector<std::string>& names) const {
    for (const auto& [name, value] : json.object())
      if (std::ranges::find(names, name) == names.end())
        fail(ExitCode::usage, where, ": unknown member '", name, "'", suggestion(name, names));
  }
  // Above zero and finite, and at most `most`; `absent` where it is not there, below zero: it has to be.
  double number(const Json& json, std::string_view name, double absent, double most = 1e9) const {
    const Json* const value = json.find(name);
    if (!value) {
      if (absent < 0) fail(ExitCode::usage, where, ": ", name, " is missing");
      return absent;
    }
    const double n = value->number();
    if (!(n > 0) || n > most) wrong(name, value->dump(), concat("a number above 0 and not above ", most));
    return n;
  }
  int count(const Json& json, std::string_view name, int absent, int least, int most) const {
    const Json* const value = json.find(name);
    if (!value) return absent;
    const std::int64_t n = value->integer();
    if (n < least || n > most) wrong(name, value->dump(), concat("a whole number from ", least, " to ", most));
    return static_cast<int>(n);
  }
  std::string text(const Json& json, std::string_view name) const {
    const Json* const value = json.find(name);
    return value ? value->text() : "";
  }
};

Interconnect read_links(const Reader& of_device, const Json& list) {
  Interconnect links{.levels = {}, .begin_seconds = begin_seconds, .switch_seconds = switch_seconds};
  int joined = 1;
  for (const Json& json : list.array()) {
    const Reader r{concat(of_device.where, ", link ", links.levels.size())};
    r.allow(json, {"link", "devices", "gbs", "switch_gbs", "hop_us"});
    LinkLevel level{.name = r.text(json, "link"),
                    .devices = r.count(json, "devices", 0, 2, 1 << 20),
                    .bandwidth = r.number(json, "gbs", -1) * giga,
                    .switch_bandwidth = r.number(json, "switch_gbs", 0) * giga,
                    .hop_seconds = r.number(json, "hop_us", 0) * micro};
    if (joined == 0) r.wrong("devices", "there", "no link behind one that joins all devices");
    if (level.devices > 0 && (level.devices <= joined || level.devices % joined != 0))
      r.wrong("devices", concat(level.devices), concat("a multiple of the ", joined, " that the link before joins, and more"));
    joined = level.devices;
    links.levels.push_back(std::move(level));
  }
  return links;
}

bool is_name(std::string_view name) {
  const auto plain = [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '-'; };
  return !name.empty() && std::islower(static_cast<unsigned char>(name[0])) && std::ranges::all_of(name, plain);
}

DeviceKind read_kind(Reader r, const Json& json) {
  r.allow(json, {"name", "product", "reports", "capability", "memory_gib", "memory_gbs", "tflops", "achieved", "multiprocessors", "links",
                 "host_gbs", "source"});
  DeviceKind kind;
  kind.name = r.text(json, "name");
  if (!is_name(kind.name) || kind.name == "cpu" || kind.name == "cuda" || kind.name == "gpu")
    r.wrong("name", concat("'", kind.name, "'"), "small letters, digits and hyphens, and not cpu, cuda or gpu");
  r.where += concat(" '", kind.name, "'");
  kind.product = r.text(json, "product");
  if (kind.product.empty()) kind.product = kind.name;
  if (const Json* const reports = json.find("reports"))
    for (const Json& name : reports->array()) kind.reports.push_back(name.text());
  kind.capability = r.count(json, "capability", 0, 10, 999);
  kind.memory = r.number(json, "memory_gib", -1, 1e6) * gib;
  kind.bandwidth = r.number(json, "memory_gbs", -1) * giga;
  const Json& flops = json.at("tflops");
  std::vector<std::string> formats;
  for (const Precision p : precisions) formats.emplace_back(name_of(p));
  const Reader of_flops{r.where + ", tflops"};
  of_flops.allow(flops, formats);
  for (const Precision p : precisions)
    if (const double peak = of_flops.number(flops, name_of(p), p == Precision::fp32 ? -1 : 0); peak > 0) kind.flops[p] = peak * tera;
  const Json none = Json::Object{};
  const Json& achieved = json.find("achieved") ? json.at("achieved") : none;
  const Reader of_shares{r.where + ", achieved"};
  of_shares.allow(achieved, {"products", "convolutions", "attention", "fp32", "memory"});
  kind.products = of_shares.number(achieved, "products", 0.75, 1);
  kind.convolutions = of_shares.number(achieved, "convolutions", share_of_products * kind.products, 1);
  kind.attention = of_shares.number(achieved, "attention", share_of_products * kind.products, 1);
  kind.plain = of_shares.number(achieved, "fp32", 0.85, 1);
  kind.copies = of_shares.number(achieved, "memory", 0.85, 1);
  kind.multiprocessors = r.count(json, "multiprocessors", 0, 1, 1 << 16);
  if (const Json* const links = json.find("links")) kind.links = read_links(r, *links);
  kind.links.host_bandwidth = r.number(json, "host_gbs", 25) * giga;
  kind.source = r.text(json, "source");
  return kind;
}

}  // namespace

std::vector<DeviceKind> read_device_kinds(const Json& json, std::string_view where) {
  const Reader all{std::string(where)};
  if (!json.is_object()) fail(ExitCode::usage, where, ": expected an object with a list of devices");
  all.allow(json, {"notes", "devices"});
  std::vector<DeviceKind> kinds;
  try {
    for (const Json& device : json.at("devices").array()) {
      const Reader r{concat(where, ", device ", kinds.size())};
      DeviceKind kind = read_kind(r, device);
      if (find_device_kind(kinds, kind.name)) r.wrong("name", concat("'", kind.name, "' again"), "a name of its own");
      kinds.push_back(std::move(kind));
    }
  } catch (const Error& e) {
    const std::string_view what = e.what();
    if (what.starts_with(where)) throw;
    fail(ExitCode::usage, where, ", device ", kinds.size(), ": ", what);
  }
  return kinds;
}

Json to_json(const DeviceKind& kind) {
  Json::Object flops;
  for (const auto& [precision, peak] : kind.flops) flops.emplace_back(name_of(precision), peak / tera);
  Json::Array links;
  for (const LinkLevel& l : kind.links.levels) {
    Json::Object link = {{"link", l.name}};
    if (l.devices > 0) link.emplace_back("devices", l.devices);
    link.emplace_back("gbs", l.bandwidth / giga);
    if (l.switch_bandwidth > 0) link.emplace_back("switch_gbs", l.switch_bandwidth / giga);
    if (l.hop_seconds > 0) link.emplace_back("hop_us", std::round(l.hop_seconds / micro * 1e3) / 1e3);
    links.push_back(Json(std::move(link)));
  }
  Json::Object json = {{"name", kind.name}, {"product", kind.product}, {"reports", kind.reports}};
  if (kind.capability > 0) json.emplace_back("capability", kind.capability);
  json.emplace_back("memory_gib", kind.memory / gib);
  json.emplace_back("memory_gbs", kind.bandwidth / giga);
  json.emplace_back("tflops", std::move(flops));
  json.emplace_back("achieved", Json::Object{{"products", kind.products},
                                             {"convolutions", kind.convolutions},
                                             {"attention", kind.attention},
                                             {"fp32", kind.plain},
                                             {"memory", kind.copies}});
  if (kind.multiprocessors > 0) json.emplace_back("multiprocessors", kind.multiprocessors);
  json.emplace_back("links", std::move(links));
  json.emplace_back("host_gbs", kind.links.host_bandwidth / giga);
  json.emplace_back("source", kind.source);
  return json;
}

const std::vector<DeviceKind>& known_device_kinds() {
  static const std::vector<DeviceKind> kinds = read_device_kinds(Json::parse(devices_text), "the program's devices");
  return kinds;
}

const DeviceKind* find_device_kind(const std::vector<DeviceKind>& kinds, std::string_view name) {
  const auto found = std::ranges::find(kinds, name, &DeviceKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

const DeviceKind* device_kind_of(std::string_view reported) {
  for (const DeviceKind& kind : known_device_kinds())
    if (std::ranges::find(kind.reports, reported) != kind.reports.end()) return &kind;
  return nullptr;
}

}  // namespace tandem
