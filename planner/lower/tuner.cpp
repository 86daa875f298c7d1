// Asks a backend for the kernels of each request once, estimates or times them, and keeps times in a file by what they depend
// on.
#include "planner/lower/tuner.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>

#include "base/atomic_file.h"

namespace tandem {
namespace {

// The file's first line: the number rises when kernels are timed in another way, or are not as fast as they were: such times do not
// compare.
constexpr std::string_view first_line = "tandem kernel times 6";
// Its times may have been disturbed unseen, by threads that woke late: all count as disturbed until they are taken again.
constexpr std::string_view unsure_first_line = "tandem kernel times 5";
constexpr char disturbed_mark = '~';              // before a time that other programs lengthened
constexpr std::chrono::seconds keep_every(10);    // so that a process that is killed has not timed in vain
constexpr std::string_view fatal_mark = "fatal";  // in a time's place: the kernel ended its process

std::string text_of_options(const KernelOptions& o) {
  return concat(o.threads, o.deterministic ? " deterministic" : "", o.winograd ? "" : " no-winograd", o.tf32 ? " tf32" : "",
                o.preference == LayoutPreference::channels_last ? " channels-last" : "");
}

std::string key_of(const KernelRequest& r) {
  std::string key = concat(r.op, " {", *r.attributes, "}");
  for (const Operand& o : r.inputs) key += concat(' ', o);
  key += " ->";
  for (const Operand& o : r.outputs) key += concat(' ', o);
  return key += concat(" | ", text_of_options(r.options), " device ", r.options.device);
}

// The cost of a kernel does not depend on what else was asked for: its own operands and threads name it.
std::string key_of(const KernelRequest& r, const KernelDescription& d, const std::string& version) {
  std::string key = concat(version, '|', d.kernel, '|', r.options.threads, '|', *r.attributes);
  for (const Operand& o : d.inputs) key += concat(' ', o);
  key += " ->";
  for (const Operand& o : d.outputs) key += concat(' ', o);
  if (r.options.device > 0) key += concat(" device ", r.options.device);
  std::replace(key.begin(), key.end(), '\t', ' ');
  std::replace(key.begin(), key.end(), '\n', ' ');
  return key;
}

// A run on CPUs that is killed goes on to the same bits: no kernel is left out for that. On GPUs equal bits are promised to plans alone
// that time no kernels.
bool same_after_kills(const Backend& backend) {
  return backend.name() == "cpu";
}

Cost estimated(const KernelDescription& d, double flops, const DeviceModel& device) {
  double bytes = 0;
  for (const Operand& o : d.inputs) bytes += static_cast<double>(o.bytes());
  for (const Operand& o : d.outputs) bytes += static_cast<double>(o.bytes());
  return {estimate(flops, d.passes * bytes, d.efficiency, device), false};
}

}  // namespace

double estimate(double flops, double bytes, double efficiency, const DeviceModel& device) {
  const double compute = device.flops > 0 ? flops / (device.flops * efficiency) : 0;
  const double memory = device.bandwidth > 0 ? bytes / device.bandwidth : 0;
  return std::max(compute, memory) + device.launch_seconds;
}

Tuner::Tuner(const Backend& backend, bool measure, std::string cache_file, bool again, std::function<void()> before_each,
             std::function<bool()> quiet, std::vector<std::string> without)
    : backend_(backend),
      measure_(measure),
      cache_file_(std::move(cache_file)),
      again_(again),
      before_each_(std::move(before_each)),
      without_(std::move(without)),
      ask_quiet_(std::move(quiet)) {
  if (!measure_ || cache_file_.empty()) return;
  read_file();
  if (same_after_kills(backend_)) return;
  for (const std::string& key : TimedNow::left_behind(cache_file_)) {
    timed_[key] = fatal();
    changed_ = true;
  }
}

Tuner::Timed Tuner::fatal() { return {{std::numeric_limits<double>::infinity()}, false, true}; }

// What is known already stays: times that were taken here, after the file was last read.
void Tuner::read_file() {
  constexpr std::int64_t most = 256 << 20;  // bytes
  std::istringstream in;
  try {
    in.str(read_regular(cache_file_, most, ExitCode::io));
  } catch (const Error&) {
    return;
  }
  std::string line;
  if (!std::getline(in, line)) return;
  const bool unsure = line == unsure_first_line;
  if (!unsure && line != first_line) return;
  while (std::getline(in, line)) {
    const auto tab = line.find('\t');
    if (tab == std::string::npos) continue;
    if (line.starts_with(fatal_mark)) {
      timed_.emplace(line.substr(tab + 1), fatal());
      continue;
    }
    const bool marked = line[0] == disturbed_mark;
    double seconds = 0;
    const auto [end, error] = std::from_chars(line.data() + marked, line.data() + tab, seconds);
    if (error == std::errc{} && end == line.data() + tab && seconds > 0 && std::isfinite(seconds))
      timed_.emplace(line.substr(tab + 1), Timed{{seconds, marked || unsure}});
  }
}

void Tuner::write_file() {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(cache_file_).parent_path(), ignored);
  const FileLock lock(cache_file_);
  read_file();  // what other runs have added meanwhile
  std::vector<std::string> lines;
  for (const auto& [key, timed] : timed_)  // every digit: whoever reads it chooses as who wrote it
    lines.push_back(timed.fatal
                        ? concat(fatal_mark, '\t', key, '\n')
                        : concat(timed.timing.disturbed ? std::string(1, disturbed_mark) : "", timed.timing.seconds, '\t', key, '\n'));
  std::sort(lines.begin(), lines.end());
  std::string text = concat(first_line, '\n');
  for (const std::string& line : lines) text += line;
  write_atomically(cache_file_, text);
}

Tuner::~Tuner() {
  if (measure_) backend_.release_scratch();
  if (!changed_ || cache_file_.empty()) return;
  try {
    write_file();
  } catch (const Error&) {  // it is timed again
  }
}

const std::vector<KernelDescription>& Tuner::describe(const KernelRequest& request) {
  const std::string key = key_of(request);
  const auto it = described_.find(key);
  if (it != described_.end()) return it->second;
  if (before_each_) before_each_();
  KernelRequest timed = request;
  timed.timed = measure_;
  std::vector<KernelDescription> all = backend_.describe(timed);
  std::erase_if(all, [&](const KernelDescription& d) {
    bool out = false;
    for (const std::string& beginning : without_) {
      if (beginning.empty() || !d.kernel.starts_with(beginning)) continue;
      left_out_.insert(beginning);
      out = true;
    }
    return out;
  });
  return described_.emplace(key, std::move(all)).first->second;
}

std::vector<std::size_t> Tuner::promising(const std::vector<KernelDescription>& all, double flops, const DeviceModel& device) const {
  constexpr double factor = 4;  // estimates are no better than this
  double best = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double seconds = estimated(all[i], flops, device).seconds;
    if (i == 0 || seconds < best) best = seconds;
  }
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (estimated(all[i], flops, device).seconds <= factor * best) list.push_back(i);
  return list;
}

Cost Tuner::cost(const KernelRequest& request, const KernelDescription& d, double flops, const DeviceModel& device) {
  if (!measure_) return estimated(d, flops, device);
  const std::string key = key_of(request, d, backend_.version());
  const auto it = timed_.find(key);
  if (it == timed_.end() || due(it->second)) {
    if (before_each_) before_each_();
    time(key, request, d);
  }
  used_.insert(key);
  return {device.sharing * timed_.at(key).timing.seconds, true};
}

void Tuner::time(const std::string& key, const KernelRequest& request, const KernelDescription& d) {
  if (!now_) now_.emplace(same_after_kills(backend_) ? std::string() : cache_file_);
  now_->begin(key);
  try {
    keep(key, backend_.measure(d, request.options));
  } catch (const Error& error) {
    if (same_after_kills(backend_)) throw;
    timed_[key] = fatal();
    changed_ = true;
    now_->end();
    std::string operands;
    for (const Operand& o : d.inputs) operands += concat(' ', o);
    fail(error.code(), error.what(), "; it was timed with operands", operands, "; the next plan leaves this kernel out");
  }
  now_->end();
  const auto now = std::chrono::steady_clock::now();
  if (cache_file_.empty() || now - written_ < keep_every) return;
  written_ = now;
  try {
    write_file();
  } catch (const Error&) {  // the next one may
  }
}

std::vector<std::string> Tuner::ended_processes() const {
  std::vector<std::string> names;
  for (const std::string& key : used_) {
    if (!timed_.at(key).fatal) continue;
    const std::size_t begin = key.find('|') + 1;
    names.push_back(key.substr(begin, key.find('|', begin) - begin));
  }
  return names;
}

std::size_t Tuner::disturbed() const {
  return static_cast<std::size_t>(
      std::count_if(used_.begin(), used_.end(), [&](const std::string& key) { return timed_.at(key).timing.disturbed; }));
}

// Whether a time that is known is taken again.
bool Tuner::due(const Timed& timed) {
  if (timed.here) return false;
  if (again_) return true;
  if (!timed.timing.disturbed) return false;
  if (!quiet_) quiet_ = ask_quiet_();
  return *quiet_;
}

void Tuner::keep(const std::string& key, const Timing& timing) {
  const auto it = timed_.find(key);
  if (it == timed_.end()) {
    timed_[key] = {timing, true};
    changed_ = true;
    return;
  }
  Timed& known = it->second;
  known.here = true;
  if (known.fatal) {
    known = {timing, true};
    changed_ = true;
    return;
  }
  if (timing.disturbed && !again_) {  // as a busy machine has it: the file stays the same, byte for byte
    quiet_ = false;
    return;
  }
  if (timing.disturbed != known.timing.disturbed)
    known.timing = timing.disturbed ? known.timing : timing;
  else
    known.timing.seconds = std::min(known.timing.seconds, timing.seconds);
  changed_ = true;
}

}  // namespace tandem
