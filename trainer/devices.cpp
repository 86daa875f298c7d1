#include "trainer/devices.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/option.h"
#include "base/spec.h"

namespace tandem {
namespace {

constexpr std::int64_t most_devices = 1024;

// What one text of a list names.
struct Named {
  std::vector<DeviceSpec> devices;
  std::optional<std::int64_t> task;  // TensorFlow's
};

[[noreturn]] void bad(std::string_view text) {
  fail(ExitCode::usage, "device '", text, "': expected cpu, cpu:0, cpu:0-3, cuda:0, cuda:0*4, h100:0-7 or /task:0/device:GPU:0");
}

// "/job:worker/replica:0/task:1/device:GPU:2" without what stands before the device.
std::string_view without_job(std::string_view rest, std::string_view text, std::optional<std::int64_t>& task) {
  while (rest.starts_with('/')) {
    rest.remove_prefix(1);
    const std::string_view part = rest.substr(0, rest.find('/'));
    if (part.starts_with("task:")) task = parse_integer(part.substr(5), concat("device '", text, "'"));
    if (!part.starts_with("task:") && !part.starts_with("job:") && !part.starts_with("replica:")) break;
    rest.remove_prefix(part.size());
  }
  if (task && (*task < 0 || *task >= most_devices)) bad(text);
  if (rest.starts_with("device:")) rest.remove_prefix(7);
  return rest;
}

Named read_device(const std::string& text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  Named named;
  const std::string_view rest = without_job(lower, text, named.task);
  const std::size_t colon = rest.find(':');
  std::string backend(rest.substr(0, colon));
  if (backend == "gpu") backend = "cuda";
  const auto of_name = [](unsigned char c) { return std::isalnum(c) || c == '-'; };
  if (backend.empty() || !std::isalpha(static_cast<unsigned char>(backend[0])) || !std::ranges::all_of(backend, of_name)) bad(text);
  std::string_view range = colon == std::string_view::npos ? std::string_view("0") : rest.substr(colon + 1);
  std::int64_t copies = 1;
  if (const std::size_t star = range.find('*'); star != std::string_view::npos) {
    copies = parse_integer(range.substr(star + 1), concat("device '", text, "'"));
    range = range.substr(0, star);
  }
  const std::size_t dash = range.find('-');
  if (range.empty() || dash == 0) bad(text);
  const std::int64_t first = parse_integer(range.substr(0, dash), concat("device '", text, "'"));
  const std::int64_t last = dash == std::string_view::npos ? first : parse_integer(range.substr(dash + 1), concat("device '", text, "'"));
  if (last < first || last >= most_devices || copies < 1 || copies > most_devices) bad(text);
  if (copies > 1 && backend == "cpu")
    fail(ExitCode::usage, "device '", text, "': several devices on a CPU are shares of its cores, expected cpu:0-", copies - 1);
  for (std::int64_t i = first; i <= last; ++i)
    for (int c = 0; c < static_cast<int>(copies); ++c) named.devices.push_back({.id = {backend, static_cast<int>(i)}, .logical = c});
  return named;
}

// Tasks are ranks, which have as many devices each, one rank's behind the other's.
void check_tasks(std::string_view list, const std::vector<std::optional<std::int64_t>>& tasks) {
  if (std::ranges::none_of(tasks, [](const auto& task) { return task.has_value(); })) return;
  const std::int64_t most = tasks.back().value_or(0) + 1, count = std::ssize(tasks);
  for (std::int64_t i = 0; i < count; ++i)
    if (count % most != 0 || tasks[static_cast<std::size_t>(i)] != i / (count / most))
      fail(ExitCode::usage, "devices ", list, ": tasks are ranks: expected those of task 0 first, then those of task 1, as many of each");
}

std::string first_of(const std::string& backend, std::int64_t count) {
  return count == 1 ? concat(backend, ":0") : concat(backend, ":0-", count - 1);
}

std::string counted(std::int64_t count, std::string_view what) { return concat(count, ' ', what, count == 1 ? "" : "s"); }

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

// How many of the GPUs that are here are taken, where nobody says it.
std::int64_t gpus_for(int processes, const Gpus& gpus) {
  if (gpus.count < processes)
    fail(ExitCode::usage, counted(gpus.count, "GPU"), " for ", processes, " processes: ", option("devices"),
         " lists the devices of all processes, such as ", first_of("cpu", processes));
  return gpus.count - gpus.count % processes;
}

DeviceChoice all_of(int processes, const Gpus& gpus) {
  if (gpus.count == 0)
    return {first_of("cpu", processes), concat(gpus.reason, processes > 1 ? "; one device a process" : "")};
  const std::int64_t count = gpus_for(processes, gpus);
  if (count == gpus.count) return {first_of(gpus.backend, count), count == 1 ? "the GPU that is here" : "all GPUs that are here"};
  return {first_of(gpus.backend, count), concat("as many of ", gpus.count, " GPUs for each of ", processes, " processes")};
}

// The device where what nobody places lies, and those that rules name.
DeviceChoice with_named(const std::vector<std::string>& named, const Gpus& gpus) {
  std::vector<DeviceSpec> list = parse_devices(gpus.count > 0 ? first_of(gpus.backend, 1) : "cpu:0");
  for (const std::string& text : named)
    for (const std::string& part : split(text, ','))
      for (const DeviceSpec& d : read_device(part).devices)
        if (std::ranges::none_of(list, [&](const DeviceSpec& other) { return other.id == d.id; })) list.push_back(d);
  std::string text;
  for (const DeviceSpec& d : list) text += concat(text.empty() ? "" : ",", d.id);
  return {text, concat("the ", gpus.count > 0 ? "first GPU" : "CPU", " and the devices that ", option("place"), " names")};
}

// "PATTERN=DEVICES", of which the pattern may hold =.
std::pair<std::string, std::string> halves(const std::string& rule) {
  const std::size_t equals = rule.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == rule.size())
    fail(ExitCode::usage, option("place"), ": '", rule, "', expected NAME=DEVICE, such as 'fc*=cpu:1'");
  return {rule.substr(0, equals), rule.substr(equals + 1)};
}

// Rules stand between semicolons; there may be one behind the last, and spaces around each.
std::vector<std::string> rules_of(std::string_view text) {
  std::vector<std::string> rules;
  for (const std::string& part : split(text, ';')) {
    const std::size_t first = part.find_first_not_of(" \n\t"), last = part.find_last_not_of(" \n\t");
    if (first != std::string::npos) rules.push_back(part.substr(first, last - first + 1));
  }
  return rules;
}

}  // namespace

int usual_processes(const std::vector<DeviceSpec>& devices) {
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].id.backend == "cpu" || (i > 0 && devices[i].id.backend != devices[0].id.backend) ||
        std::count_if(devices.begin(), devices.end(), [&](const DeviceSpec& d) { return d.id == devices[i].id; }) > 1)
      return 1;
  return std::max<int>(1, static_cast<int>(devices.size()));
}

std::vector<DeviceSpec> parse_devices(std::string_view devices, std::string_view slice_weights) {
  std::vector<DeviceSpec> list;
  std::vector<std::optional<std::int64_t>> tasks;
  for (const std::string& part : split(devices, ',')) {
    const Named named = read_device(part);
    list.insert(list.end(), named.devices.begin(), named.devices.end());
    tasks.insert(tasks.end(), named.devices.size(), named.task);
  }
  if (list.empty()) fail(ExitCode::usage, "no device given, expected for example cpu:0-3");
  check_tasks(devices, tasks);
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

int add_device(std::vector<DeviceSpec>& devices, std::string_view text, std::string_view asked) {
  std::vector<DeviceSpec> one = parse_devices(text);
  if (one.size() != 1) fail(ExitCode::usage, option(asked), " '", text, "', expected one device");
  const auto same = [&](const DeviceSpec& d) { return d.id == one[0].id && d.logical == one[0].logical; };
  const auto found = std::find_if(devices.begin(), devices.end(), same);
  const auto index = static_cast<int>(found - devices.begin());
  if (found != devices.end()) return index;
  one[0].weight = 0;
  devices.push_back(one[0]);
  return index;
}

namespace {

// A device beside the replicas is one of them, without samples.
int add_replica(CompileOptions& plan, std::string_view device, std::string_view asked) {
  const auto replicas = static_cast<std::int64_t>(plan.devices.size());
  const int index = add_device(plan.devices, device, asked);
  if (plan.parallel.data == replicas) plan.parallel.data = static_cast<std::int64_t>(plan.devices.size());
  return index;
}

}  // namespace

void keep_weights_on(CompileOptions& plan, std::string_view device) {
  plan.parallel.weights_on = add_replica(plan, device, "weights_on");
}

void merge_on(CompileOptions& plan, std::string_view device) {
  plan.parallel.merge_on = add_replica(plan, device, "merge_on");
}

void offload_optimizer(CompileOptions& plan, int ranks) {
  const std::string asked = concat(option("offload"), " optimizer");
  if (std::ranges::all_of(plan.devices, [](const DeviceSpec& d) { return d.id.backend == "cpu"; }))
    fail(ExitCode::usage, asked, ": no GPU is among the devices (", to_string(plan.devices), "), whose states are in host memory anyway");
  if (plan.parallel.weights_on >= 0)
    fail(ExitCode::usage, asked, " and ", option("weights_on"), " both say where weights live: leave one of them out");
  if (ranks == 1) return keep_weights_on(plan, "cpu:0");
  const int each = static_cast<int>(plan.devices.size()) / ranks;
  const bool all = plan.parallel.data == std::ssize(plan.devices);
  for (int r = 0; r < ranks; ++r) insert_cpu_device(plan, (r + 1) * each + r);
  plan.parallel.weights_on = each;
  for (int r = 1; r < ranks; ++r) plan.parallel.weights_on_too.push_back((r + 1) * each + r);
  if (all) plan.parallel.data = std::ssize(plan.devices);
}

namespace {

// Devices of a rank whose activations are sent: its GPUs, or all that compute where somebody said where weights live.
std::vector<int> senders_of(const CompileOptions& plan, DeviceRange range) {
  std::vector<int> gpus, all;
  for (int d = range.first; d < range.first + range.count; ++d) {
    if (plan.devices[at(d)].weight <= 0 || plan.parallel.has_weights(d)) continue;
    all.push_back(d);
    if (plan.devices[at(d)].id.backend != "cpu") gpus.push_back(d);
  }
  return gpus.empty() && plan.parallel.weights_on >= 0 ? all : gpus;
}

// The rank's device without samples on which weights live; -1: there is none.
int home_of(const CompileOptions& plan, DeviceRange range) {
  for (int d = range.first; d < range.first + range.count; ++d)
    if (plan.parallel.has_weights(d) && plan.devices[at(d)].weight <= 0) return d;
  return -1;
}

}  // namespace

void offload_activations(CompileOptions& plan, int ranks) {
  const std::string asked = concat(option("offload"), " activations");
  const int each = static_cast<int>(plan.devices.size()) / ranks;
  const std::size_t first = senders_of(plan, {0, each}).size();
  if (first == 0)
    fail(ExitCode::usage, asked, ": no GPU is among the devices (", to_string(plan.devices),
         "), whose activations are in host memory anyway");
  bool all_have_homes = true;  // else ranks would have more and fewer devices
  for (int r = 0; r < ranks; ++r) all_have_homes = all_have_homes && home_of(plan, {r * each, each}) >= 0;
  plan.memory.activations_on.assign(plan.devices.size(), -1);
  for (int r = ranks; r-- > 0;) {
    const std::vector<int> senders = senders_of(plan, {r * each, each});
    if (senders.size() != first)
      fail(ExitCode::usage, asked, ": rank 0 has ", first, " devices that send activations, rank ", r, " has ", senders.size(),
           ": expected as many of each");
    const int home = all_have_homes ? home_of(plan, {r * each, each}) : -1;  // it keeps those of the rank's first device
    int behind = (r + 1) * each;
    for (const int d : senders) {
      const int keeper = home >= 0 && d == senders[0] ? home : behind++;
      if (keeper != home) insert_cpu_device(plan, keeper);
      plan.memory.activations_on[at(d)] = keeper;
    }
  }
}

std::string to_string(const std::vector<DeviceSpec>& devices) {
  std::string text;
  for (const DeviceSpec& d : devices) text += (text.empty() ? "" : ", ") + to_string(d.id);
  return text;
}

Gpus gpus_of(Backends backends) {
  Gpus gpus{.reason = "no GPU is here"};
  for (const Backend* backend : backends) {
    if (backend->name() == "cpu") continue;
    const std::string reason = backend->unusable();
    if (reason.empty() && backend->device_count() > 0) return {backend->device_count(), backend->name(), ""};
    if (!reason.empty()) gpus.reason = concat("no GPU can be used: ", reason);
  }
  return gpus;
}

DeviceChoice chosen_devices(std::string_view asked, int processes, const std::function<Gpus()>& gpus,
                            const std::vector<std::string>& named) {
  processes = std::max(1, processes);
  if (asked.empty() && !named.empty()) return with_named(named, gpus());
  if (asked.empty() || asked == "all") return all_of(processes, gpus());
  if (is_number(asked)) {
    const std::int64_t count = parse_integer(asked, option("devices"));
    if (count < 1 || count > most_devices)
      fail(ExitCode::usage, option("devices"), ' ', asked, ": expected 1 to ", most_devices, " devices");
    const Gpus here = gpus();
    if (here.count == 0) return {first_of("cpu", count), here.reason};
    if (here.count < count)
      fail(ExitCode::usage, option("devices"), ' ', asked, ": ", counted(here.count, "GPU"), here.count == 1 ? " is" : " are",
           " here; that many on the CPU are ", first_of("cpu", count));
    return {first_of(here.backend, count), concat("the first of ", counted(here.count, "GPU"), " here")};
  }
  for (const auto& [word, backend] : {std::pair{"cpu", "cpu"}, {"cuda", "cuda"}, {"gpu", "cuda"}})
    if (asked == word && processes > 1) return {first_of(backend, processes), concat("one for each of ", processes, " processes")};
  return {std::string(asked), ""};
}

std::vector<int> places_of(std::string_view list, const std::vector<DeviceSpec>& devices, int ranks, const std::string& what) {
  std::vector<int> places;
  for (const std::string& part : split(list, ',')) {
    const Named named = read_device(part);
    const auto each = std::max<std::ptrdiff_t>(1, std::ssize(devices) / std::max(1, ranks));
    for (const DeviceSpec& wanted : named.devices) {
      std::vector<int> found;
      for (std::ptrdiff_t d = 0; d < std::ssize(devices); ++d) {
        const DeviceSpec& there = devices[static_cast<std::size_t>(d)];
        if (there.id == wanted.id && there.logical == wanted.logical && (!named.task || d / each == *named.task))
          found.push_back(static_cast<int>(d));
      }
      if (found.empty())
        fail(ExitCode::usage, what, ": ", option("devices"), " has no ", part, ": it lists ", to_string(devices));
      if (found.size() > 1)
        fail(ExitCode::usage, what, ": ", found.size(), " ranks have a ", wanted.id, ": expected which, such as /task:0/device:",
             wanted.id);
      places.push_back(found[0]);
    }
  }
  std::ranges::sort(places);
  if (std::ranges::adjacent_find(places) != places.end()) fail(ExitCode::usage, what, ": a device is there twice");
  return places;
}

std::vector<Parallelism::Place> parse_place(std::string_view rules, const std::vector<DeviceSpec>& devices, int ranks) {
  std::vector<Parallelism::Place> list;
  for (const std::string& rule : rules_of(rules)) {
    const auto [pattern, where] = halves(rule);
    list.push_back({pattern, places_of(where, devices, ranks, concat(option("place"), " '", rule, "'"))});
  }
  return list;
}

std::vector<std::string> devices_in(std::string_view rules) {
  std::vector<std::string> list;
  for (const std::string& rule : rules_of(rules)) list.push_back(halves(rule).second);
  return list;
}

}  // namespace tandem
