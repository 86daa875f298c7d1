#include "trainer/records/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "base/crc32c.h"
#include "base/printable.h"
#include "graph/operator.h"

namespace tandem {
namespace {

// Protobuf's wire format.
std::string varint(std::uint64_t v) {
  std::string out;
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  return out + static_cast<char>(v);
}
std::string key(int field, int wire) { return varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire)); }
template <class T>
std::string little_endian(T v) {
  std::string out(sizeof v, '\0');
  std::memcpy(out.data(), &v, sizeof v);
  return out;
}
std::string whole(int field, std::int64_t v) { return key(field, 0) + varint(static_cast<std::uint64_t>(v)); }
std::string real64(int field, double v) { return key(field, 1) + little_endian(v); }
std::string real32(int field, float v) { return key(field, 5) + little_endian(v); }
std::string bytes(int field, std::string_view v) { return key(field, 2) + varint(v.size()) + std::string(v); }
static_assert(std::endian::native == std::endian::little);

std::uint32_t masked(std::string_view text) {
  const std::uint32_t crc = crc32c(0, std::as_bytes(std::span(text)));
  return std::rotr(crc, 15) + 0xa282ead8u;
}

// Of Event.
constexpr int wall_time = 1, step_of_event = 2, file_version = 3, graph_def = 4, summary = 5, session_log = 7;

std::string value_of(std::string_view tag, std::string_view what) { return bytes(summary, bytes(1, concat(bytes(1, as_text(tag)), what))); }

// TensorFlow's buckets: bounds that grow by a tenth from 1e-12.
const std::vector<double>& bounds() {
  static const std::vector<double> all = [] {
    std::vector<double> up, list;
    for (double v = 1e-12; v < 1e20; v *= 1.1) up.push_back(v);
    for (std::size_t i = up.size(); i-- > 0;) list.push_back(-up[i]);
    list.push_back(0);
    list.insert(list.end(), up.begin(), up.end());
    list.push_back(1e308);
    return list;
  }();
  return all;
}

}  // namespace

std::string tfrecord_of(std::string_view data) {
  const std::string length = little_endian(static_cast<std::uint64_t>(data.size()));
  return concat(length, little_endian(masked(length)), data, little_endian(masked(data)));
}

void EventFile::begin(const std::filesystem::path& folder, std::int64_t step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::array<char, HOST_NAME_MAX + 1> host{};
  ::gethostname(host.data(), host.size() - 1);
  try {
    file_ = GrowingFile(folder / concat("events.out.tfevents.", std::chrono::duration_cast<std::chrono::seconds>(now).count(), '.',
                                        host.data(), '.', ::getpid(), '.', step));
  } catch (const Error& e) {
    if (warn_) warn_(concat(e.what(), "; the run goes on without it"));
    return;
  }
  event(0, bytes(file_version, "brain.Event:2"));
  event(step + 1, bytes(session_log, whole(1, 1)));  // START: purges what a killed part wrote of steps from here on
  flush();
}

void EventFile::event(std::int64_t step, std::string_view what) {
  if (!file_.open()) return;
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  waiting_ += tfrecord_of(concat(real64(wall_time, now), whole(step_of_event, step), what));
  if (std::chrono::steady_clock::now() - flushed_ > std::chrono::seconds(5)) flush();
}

void EventFile::flush() {
  flushed_ = std::chrono::steady_clock::now();
  if (!file_.open()) return;
  try {
    file_.append(waiting_);
  } catch (const Error& e) {
    file_ = GrowingFile();
    if (warn_) warn_(concat(e.what(), "; the run goes on without it"));
  }
  waiting_.clear();
}

void EventFile::scalar(std::string_view tag, std::int64_t step, double value) {
  if (std::isfinite(value)) event(step, value_of(tag, real32(2, static_cast<float>(value))));
}

void EventFile::histogram(std::string_view tag, std::int64_t step, std::span<const double> values) {
  const std::vector<double>& limits = bounds();
  std::vector<double> counts(limits.size());
  double low = INFINITY, high = -INFINITY, sum = 0, squares = 0, number = 0;
  for (const double v : values) {
    if (!std::isfinite(v)) continue;
    low = std::min(low, v);
    high = std::max(high, v);
    sum += v;
    squares += v * v;
    ++number;
    ++counts[static_cast<std::size_t>(std::upper_bound(limits.begin(), limits.end() - 1, v) - limits.begin())];
  }
  if (number == 0) return;
  std::string limit, bucket;  // those that hold something, and the one before each
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0 || (i + 1 < counts.size() && counts[i + 1] > 0)) {
      limit += little_endian(limits[i]);
      bucket += little_endian(counts[i]);
    }
  const std::string histogram =
      concat(real64(1, low), real64(2, high), real64(3, number), real64(4, sum), real64(5, squares), bytes(6, limit), bytes(7, bucket));
  event(step, value_of(tag, bytes(5, histogram)));
}

void EventFile::graph(const Graph& graph) {
  std::map<std::string, int> taken;
  const auto unique = [&](const std::string& given) {
    const std::string name = as_text(given);
    const int n = taken[name]++;
    return n == 0 ? name : concat(name, '_', n);
  };
  std::map<int, std::string> made_by;  // of values
  std::string nodes;
  for (const ValueId input : graph.inputs) {
    made_by[input.index] = unique(graph[input].name);
    nodes += bytes(1, bytes(1, made_by[input.index]) + bytes(2, "Placeholder"));
  }
  std::vector<std::pair<const Node*, std::string>> named;
  for (const Node& node : graph.nodes) {
    named.emplace_back(&node, unique(node.name.empty() ? std::string(node.op->name) : node.name));
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i].present()) made_by[node.outputs[i].index] = i == 0 ? named.back().second : concat(named.back().second, ':', i);
  }
  for (const auto& [node, name] : named) {
    std::string text = bytes(1, name) + bytes(2, node->op->name);
    for (const ValueId in : node->inputs) {
      if (!in.present()) continue;
      const auto [found, fresh] = made_by.try_emplace(in.index);
      if (fresh) {  // a weight or a constant
        found->second = unique(graph[in].name);
        nodes += bytes(1, bytes(1, found->second) + bytes(2, graph[in].kind == ValueKind::parameter ? "Variable" : "Const"));
      }
      text += bytes(3, found->second);
    }
    nodes += bytes(1, text);
  }
  event(0, bytes(graph_def, nodes));
}

void EventFile::step(const StepReport& r) {
  if (!open() || !is_recorded(r.step)) return;
  scalar("loss/step", r.step, r.loss);
  scalar("accuracy/step", r.step, r.accuracy);
  scalar("learning_rate/step", r.step, r.learning_rate);
  scalar("samples_per_second/step", r.step, static_cast<double>(r.samples) / r.seconds);
}

void EventFile::epoch(const EpochReport& r) {
  if (!open()) return;
  scalar("loss/training", r.step, r.loss);
  scalar("loss/validation", r.step, r.val_loss);
  scalar("accuracy/training", r.step, r.accuracy);
  scalar("accuracy/validation", r.step, r.val_accuracy);
  for (const auto& [name, value] : r.metrics)
    scalar(name.starts_with("val_") ? concat(name.substr(4), "/validation") : concat(name, "/training"), r.step, value);
  flush();
}

}  // namespace tandem
