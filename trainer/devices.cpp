#include "trainer/devices.h"

#include <algorithm>
#include <cctype>

#include "base/option.h"
#include "base/spec.h"

namespace tandem {
namespace {

constexpr std::int64_t most_devices = 1024;

void append(std::vector<DeviceSpec>& list, const std::string& text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string_view rest = lower;
  if (rest.starts_with('/')) rest.remove_prefix(1);
  if (rest.starts_with("device:")) rest.remove_prefix(7);
  const std::size_t colon = rest.find(':');
  std::string backend(rest.substr(0, colon));
  if (backend == "gpu") backend = "cuda";
  const auto bad = [&]() { fail(ExitCode::usage, "device '", text, "': expected cpu, cpu:0, cpu:0-3, cuda:0 or cuda:0*4"); };
  if (backend.empty() || !std::all_of(backend.begin(), backend.end(), [](unsigned char c) { return std::isalpha(c); })) bad();
  std::string_view range = colon == std::string_view::npos ? std::string_view("0") : rest.substr(colon + 1);
  std::int64_t copies = 1;
  if (const std::size_t star = range.find('*'); star != std::string_view::npos) {
    copies = parse_integer(range.substr(star + 1), concat("device '", text, "'"));
    range = range.substr(0, star);
  }
  const std::size_t dash = range.find('-');
  if (range.empty() || dash == 0) bad();
  const std::int64_t first = parse_integer(range.substr(0, dash), concat("device '", text, "'"));
  const std::int64_t last = dash == std::string_view::npos ? first : parse_integer(range.substr(dash + 1), concat("device '", text, "'"));
  if (last < first || last >= most_devices || copies < 1 || copies > most_devices) bad();
  if (copies > 1 && backend == "cpu")
    fail(ExitCode::usage, "device '", text, "': several devices on a CPU are shares of its cores, expected cpu:0-", copies - 1);
  for (std::int64_t i = first; i <= last; ++i)
    for (int c = 0; c < static_cast<int>(copies); ++c) list.push_back({.id = {backend, static_cast<int>(i)}, .logical = c});
}

}  // namespace

std::vector<DeviceSpec> parse_devices(std::string_view devices, std::string_view slice_weights) {
  std::vector<DeviceSpec> list;
  for (const std::string& part : split(devices, ',')) append(list, part);
  if (list.empty()) fail(ExitCode::usage, "no device given, expected for example cpu:0-3");
  if (slice_weights.empty()) return list;
  const std::vector<std::string> weights = split(slice_weights, ',');
  if (weights.size() != list.size())
    fail(ExitCode::usage, "slice weights '", slice_weights, "' are ", weights.size(),
         weights.size() == 1 ? " number for " : " numbers for ", list.size(), list.size() == 1 ? " device" : " devices");
  for (std::size_t i = 0; i < list.size(); ++i) list[i].weight = parse_number(weights[i], "slice weights");
  return list;
}

std::vector<DeviceSpec> own_devices(const std::vector<DeviceSpec>& all, const World* world) {
  const DeviceRange range = devices_of(world, static_cast<int>(all.size()));
  std::vector<DeviceSpec> own(all.begin() + range.first, all.begin() + range.first + range.count);
  for (auto d = own.begin(); d != own.end(); ++d)
    if (std::any_of(own.begin(), d, [&](const DeviceSpec& other) { return other.id == d->id && other.logical == d->logical; }))
      fail(ExitCode::usage, "devices ", to_string(own), world ? concat(" of rank ", world->rank()) : "", ": ", d->id,
           " is there twice, expected each device once", d->id.backend == "cpu" ? "" : concat("; several logical devices on one are ", d->id, "*2"));
  return own;
}

int add_device(std::vector<DeviceSpec>& devices, std::string_view text) {
  std::vector<DeviceSpec> one = parse_devices(text);
  if (one.size() != 1) fail(ExitCode::usage, option("weights_on"), " '", text, "', expected one device");
  const auto same = [&](const DeviceSpec& d) { return d.id == one[0].id && d.logical == one[0].logical; };
  const auto found = std::find_if(devices.begin(), devices.end(), same);
  const auto index = static_cast<int>(found - devices.begin());
  if (found != devices.end()) return index;
  one[0].weight = 0;
  devices.push_back(one[0]);
  return index;
}

std::string to_string(const std::vector<DeviceSpec>& devices) {
  std::string text;
  for (const DeviceSpec& d : devices) text += (text.empty() ? "" : ", ") + to_string(d.id);
  return text;
}

}  // namespace tandem
