#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "planner/plan/format.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/print.h"
#include "planner/plan/trace.h"

namespace tandem {
namespace {

// The format's unit is a microsecond. Whole nanoseconds, so that slices that follow one another do not overlap by rounding.
std::string microseconds(std::int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}
std::int64_t nanoseconds(double seconds) {
  return std::max<std::int64_t>(0, std::llround(1e9 * seconds));
}
// A stream's. 0 would be the idle thread of all processes to Perfetto, which then takes two lanes for one.
int thread_of(const Step& step) {
  return 1 + step.stream;
}
std::string quoted(std::string_view text) {
  return Json(text).dump();
}

class TracePrinter {
 public:
  explicit TracePrinter(const Plan& flat) : flat_(flat) {}

  // Devices of one way to know their times. `first` is the number of the first one's process.
  void add(const std::vector<Timeline>& lines, std::string_view title, int first) {
    for (int d = 0; d < std::ssize(lines); ++d) {
      name_lanes(d, first + d, title);
      const IdVector<StepId, Step>& steps = flat_.program_of(at(d)).steps;
      for (StepId s{0}; s.index < std::ssize(steps); ++s.index) slice(steps[s], s, lines[at(d)], first + d);
    }
    flows(lines, first);
  }

  std::string done(const Plan& plan) {
    return concat("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"model\":", quoted(plan.model), ",\"plan\":\"", hash_of(plan),
                  "\"},\"traceEvents\":[\n", events_, "\n]}\n");
  }

 private:
  void event(const std::string& text) {
    if (!events_.empty()) events_ += ",\n";
    events_ += text;
  }

  void name(std::string_view what, int process, int thread, const std::string& value) {
    event(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what, process, thread, value));
  }

  void name_lanes(int device, int process, std::string_view title) {
    name("process_name", process, 1, quoted(concat(flat_.devices[at(device)].device, title)));
    event(fmt::format(R"({{"ph":"M","name":"process_sort_index","pid":{0},"tid":1,"args":{{"sort_index":{0}}}}})", process));
    std::vector<bool> used(at(plan_streams));
    for (const Step& s : flat_.program_of(at(device)).steps) {
      if (s.stream >= plan_streams || used[at(s.stream)]) continue;
      used[at(s.stream)] = true;
      name("thread_name", process, thread_of(s), quoted(stream_names[at(s.stream)]));
    }
  }

  void slice(const Step& step, StepId s, const Timeline& line, int process) {
    const std::int64_t begin = nanoseconds(line.begins[s]), end = std::max(begin, nanoseconds(line.ends[s]));
    Json::Object arguments{{"step", s.index}, {"estimate_us", 1e6 * step.seconds}};
    if (const auto* launch = step.as<LaunchStep>()) arguments.emplace_back("kernel", launch->kernel);
    if (!step.origin.empty()) arguments.emplace_back("from", step.origin);
    if (step.flops > 0) arguments.emplace_back("flops", step.flops);
    if (step.bytes > 0) arguments.emplace_back("bytes", step.bytes);
    if (flat_.micro_batches > 1) {
      arguments.emplace_back("phase", name_of(step.phase));
      arguments.emplace_back("micro_batch", step.micro_batch);
    }
    event(fmt::format(R"({{"ph":"X","name":{},"cat":"{}","ts":{},"dur":{},"pid":{},"tid":{},"args":{}}})", quoted(label_of(flat_, step)),
                      kind_of(flat_, step), microseconds(begin), microseconds(end - begin), process, thread_of(step),
                      Json(std::move(arguments)).dump()));
  }

  struct End {
    std::int64_t time;  // within its slice
    int process, thread;
    bool gives;
  };
  // From who gives, or comes first, through all that take part in a row. A flow goes forward in time.
  void flows(const std::vector<Timeline>& lines, int first) {
    IdVector<ExchangeId, std::vector<std::vector<End>>> rows(flat_.exchanges.size());
    for (int d = 0; d < std::ssize(lines); ++d) {
      const IdVector<StepId, Step>& steps = flat_.program_of(at(d)).steps;
      for (StepId s{0}; s.index < std::ssize(steps); ++s.index) {
        const auto* e = steps[s].as<ExchangeStep>();
        if (!e) continue;
        const Exchange& exchange = flat_.exchanges[e->exchange];
        rows[e->exchange].resize(at(exchange.rows));
        const std::size_t row = exchange.row_of(d).value_or(0);
        const std::int64_t begin = nanoseconds(lines[at(d)].begins[s]), end = nanoseconds(lines[at(d)].ends[s]);
        const bool gives = exchange.kind == ExchangeKind::send && !steps[s].inputs.empty();
        rows[e->exchange][row].push_back({begin + (end - begin) / 2, first + d, thread_of(steps[s]), gives});
      }
    }
    for (const auto& exchange : rows)
      for (const std::vector<End>& row : exchange) flow(row);
  }

  void flow(std::vector<End> ends) {
    if (ends.size() < 2) return;
    std::ranges::stable_sort(ends, [](const End& a, const End& b) { return std::pair(a.time, !a.gives) < std::pair(b.time, !b.gives); });
    ++flows_;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const bool last = i + 1 == ends.size();
      event(fmt::format(R"({{"ph":"{}","name":"exchange","cat":"exchange","id":{},"ts":{},"pid":{},"tid":{}{}}})",
                        i == 0 ? 's'
                        : last ? 'f'
                               : 't',
                        flows_, microseconds(ends[i].time), ends[i].process, ends[i].thread, last ? R"(,"bp":"e")" : ""));
    }
  }

  const Plan& flat_;
  std::string events_;
  int flows_ = 0;
};

}  // namespace

std::string trace_of(const Plan& plan) {
  return trace_of(plan, {});
}

std::string trace_of(const Plan& plan, const std::vector<Timeline>& measured) {
  const TimedPlan times = timed(plan);
  TracePrinter printer(times.flat.plan);
  printer.add(times.lines, measured.empty() ? "" : " planned", 1);
  if (!measured.empty()) printer.add(measured, " measured", 1 + static_cast<int>(plan.devices.size()));
  return printer.done(plan);
}

}  // namespace tandem
