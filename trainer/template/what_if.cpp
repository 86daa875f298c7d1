#include "trainer/template/what_if.h"

#include <algorithm>
#include <set>

#include "base/option.h"
#include "base/spec.h"

namespace tandem {
namespace {

constexpr int most_devices = 1024;
constexpr std::int64_t most_samples = std::int64_t{1} << 40;

std::string what_if_option() { return option("what_if"); }

std::vector<std::string> values_of(std::string_view key, std::string_view text) {
  std::vector<std::string> values = split(text, '|');
  if (values.empty()) fail(ExitCode::usage, what_if_option(), ": ", key, " has no value");
  return values;
}

// Doubled from the first on, and the last.
std::vector<int> devices_of(std::string_view text) {
  std::vector<int> list;
  for (const std::string& value : values_of("devices", text)) {
    const std::size_t dots = value.find("..");
    const std::int64_t first = parse_integer(value.substr(0, dots), what_if_option() + ": devices"),
                       last = dots == std::string::npos ? first : parse_integer(value.substr(dots + 2), what_if_option() + ": devices");
    if (first < 1 || last < first || last > most_devices)
      fail(ExitCode::usage, what_if_option(), ": devices=", value, ", expected N or N..M from 1 to ", most_devices);
    for (std::int64_t n = first; n < last; n *= 2) list.push_back(static_cast<int>(n));
    list.push_back(static_cast<int>(last));
  }
  return list;
}

Precision precision_of(const std::string& text) {
  std::vector<std::string> names;
  for (const Precision p : precisions) {
    if (name_of(p) == text) return p;
    names.emplace_back(name_of(p));
  }
  fail(ExitCode::usage, what_if_option(), ": precision=", text, suggestion(text, names));
}

double above_zero(std::string_view key, const std::string& text) {
  const double value = parse_number(text, concat(what_if_option(), ": ", key));
  if (value <= 0) fail(ExitCode::usage, what_if_option(), ": ", key, "=", text, ", expected a number above 0");
  return value;
}

// A pair KEY=VALUES; values hold no comma.
void take(WhatIf& asked, std::string_view key, std::string_view text) {
  if (key == "devices") {
    asked.devices = devices_of(text);
  } else if (key == "batch") {
    constexpr std::string_view each = "/device";
    asked.per_device = text.ends_with(each);
    if (asked.per_device) text.remove_suffix(each.size());
    for (const std::string& value : values_of(key, text)) {
      asked.batches.push_back(parse_integer(value, concat(what_if_option(), ": ", key)));
      if (asked.batches.back() < 1 || asked.batches.back() > most_samples)
        fail(ExitCode::usage, what_if_option(), ": batch=", value, ", expected a whole number from 1 to ", most_samples);
    }
  } else if (key == "precision") {
    for (const std::string& value : values_of(key, text)) asked.precisions.push_back(precision_of(value));
  } else if (key == "link") {
    for (const std::string& value : values_of(key, text)) asked.links.push_back(1e9 * above_zero(key, value));
  } else if (key == "price") {
    asked.price = above_zero(key, std::string(text));
  } else {
    const std::vector<std::string> keys = {"devices", "batch", "precision", "link", "price"};
    fail(ExitCode::usage, what_if_option(), ": unknown '", key, "'", suggestion(key, keys));
  }
}

// The first of them as many times.
std::vector<DeviceSpec> as_many(const std::vector<DeviceSpec>& devices, int count) {
  std::vector<DeviceSpec> list;
  for (int d = 0; d < count; ++d) list.push_back({.id = {devices[0].id.backend, d}});
  return list;
}

// Those that have samples: others only keep or update what these use.
int with_samples(const std::vector<DeviceSpec>& devices) {
  return static_cast<int>(std::ranges::count_if(devices, [](const DeviceSpec& d) { return d.weight > 0; }));
}

WhatIfRow row_of(const ModelTemplate& model, const ModelOptions& options, double link, Backends backends, double price) {
  WhatIfRow row{.devices = with_samples(options.plan.devices),
                .batch = options.plan.batch,
                .precision = options.plan.precision,
                .link = link,
                .problem = {},
                .bounds = {}};
  try {
    const Plan plan = model.make_plan(options, backends);
    row.seconds = plan.seconds;
    row.samples_per_second = static_cast<double>(row.batch) / plan.seconds;
    for (const DeviceProgram& program : plan.programs)
      if (program.model.memory > 0 && program.peak_bytes() >= row.bytes) {
        row.bytes = program.peak_bytes();
        row.memory = program.model.memory;
      }
    row.cost = price * row.devices / 3600 * 1e6 / row.samples_per_second;
    row.bounds = bounds_of(plan);
  } catch (const Stopped&) {
    throw;
  } catch (const Error& e) {
    row.problem = e.what();
  }
  return row;
}

}  // namespace

WhatIf parse_what_if(std::string_view text) {
  WhatIf asked;
  std::set<std::string> known;
  for (const std::string& pair : split(text, ',')) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos)
      fail(ExitCode::usage, what_if_option(), ": '", pair, "', expected KEY=VALUES such as devices=1..64 or batch=256|512");
    const std::string key = pair.substr(0, equals);
    if (!known.insert(key).second) fail(ExitCode::usage, what_if_option(), ": ", key, " is there twice");
    take(asked, key, std::string_view(pair).substr(equals + 1));
  }
  return asked;
}

std::vector<WhatIfRow> what_if(const ModelTemplate& model, const ModelOptions& options, const WhatIf& asked,
                               const std::function<Backends(double link)>& backends) {
  const std::vector<DeviceSpec>& own = options.plan.devices;
  const auto other = [&](const DeviceSpec& d) { return d.id.backend != own[0].id.backend; };
  if (!asked.devices.empty() && std::ranges::any_of(own, other))
    fail(ExitCode::usage, what_if_option(), ": devices=... is for devices of one kind, here there are ", own[0].id.backend, " and others");
  const double each = static_cast<double>(options.plan.batch) / with_samples(own);
  const auto or_own = [](auto list, auto value) {
    if (list.empty()) list.push_back(value);
    return list;
  };
  std::vector<WhatIfRow> rows;
  for (const Precision precision : or_own(asked.precisions, options.plan.precision))
    for (const double link : or_own(asked.links, 0.0)) {
      const Backends usable = backends(link);
      double first = 0;  // samples/s of a device
      for (const std::int64_t batch : or_own(asked.batches, std::int64_t{0}))
        for (const int count : or_own(asked.devices, with_samples(own))) {
          ModelOptions o = options;
          o.plan.precision = precision;
          if (!asked.devices.empty()) o.plan.devices = as_many(own, count);
          o.plan.batch = batch == 0           ? std::max<std::int64_t>(1, static_cast<std::int64_t>(each * count))
                         : asked.per_device ? batch * count
                                            : batch;
          WhatIfRow row = row_of(model, o, link, usable, asked.price);
          const double of_device = row.samples_per_second / count;
          if (first == 0) first = of_device;
          if (first > 0) row.efficiency = of_device / first;
          rows.push_back(std::move(row));
        }
    }
  return rows;
}

}  // namespace tandem
