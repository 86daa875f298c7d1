#include "planner/plan/timeline.h"

#include <algorithm>
#include <limits>

#include "planner/plan/format.h"

namespace tandem {
namespace {

class Replay {
 public:
  explicit Replay(const Plan& plan)
      : plan_(plan), lines_(plan.devices.size()), devices_(plan.devices.size()), came_(plan.exchanges.size()) {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const auto& steps = plan_.program_of(d).steps;
      lines_[d].begins.assign(steps.size(), unknown);
      lines_[d].ends = lines_[d].begins;
      for (StepId s{0}; s.index < std::ssize(steps); ++s.index) {
        // Gradients of weights share the device with what else computes: none knows how well, so that they are counted one after another.
        const auto stream = at(steps[s].stream == weights_stream ? compute_stream : steps[s].stream);
        if (devices_[d].size() <= stream) devices_[d].resize(stream + 1);
        devices_[d][stream].steps.push_back(s);
      }
      lines_[d].streams = static_cast<int>(devices_[d].size());
    }
  }

  std::vector<Timeline> run() {
    for (int d = static_cast<int>(lines_.size()); d-- > 0;) going_.push_back(d);
    while (!going_.empty()) {
      const auto d = at(going_.back());
      going_.pop_back();
      for (bool more = true; more;) {
        more = false;
        for (Stream& stream : devices_[d]) more = go_on(d, stream) || more;
      }
    }
    for (Timeline& line : lines_)  // of what waits for ever
      for (auto* times : {&line.begins, &line.ends})
        std::ranges::replace(*times, unknown, line.seconds);
    return std::move(lines_);
  }

 private:
  static constexpr double unknown = -1;
  struct Stream {
    std::vector<StepId> steps;
    std::size_t next = 0;
    double free = 0;      // when what was taken has ended
    bool waits = false;   // for the other members of the exchange that is next
  };

  const Step& step(std::size_t d, StepId s) const { return plan_.program_of(d).steps[s]; }

  // As far as the stream comes without the others. Whether it came on.
  bool go_on(std::size_t d, Stream& stream) {
    bool came_on = false;
    while (stream.next < stream.steps.size() && !stream.waits) {
      const StepId s = stream.steps[stream.next];
      if (ready(d, stream) == unknown) break;
      if (const auto* exchange = step(d, s).as<ExchangeStep>()) {
        stream.waits = true;
        meet(exchange->exchange, static_cast<int>(d));
      } else {
        take(d, stream, ready(d, stream));
      }
      came_on = true;
    }
    return came_on;
  }

  // When the stream's next step may begin.
  double ready(std::size_t d, const Stream& stream) const {
    double begin = stream.free;
    for (const StepId w : step(d, stream.steps[stream.next]).waits) {
      if (lines_[d].ends[w] == unknown) return unknown;
      begin = std::max(begin, lines_[d].ends[w]);
    }
    return begin;
  }

  void take(std::size_t d, Stream& stream, double begin) {
    const StepId s = stream.steps[stream.next++];
    lines_[d].begins[s] = begin;
    lines_[d].ends[s] = stream.free = begin + step(d, s).seconds;
    lines_[d].seconds = std::max(lines_[d].seconds, stream.free);
  }

  // A member waits until the last of them lets all go on.
  void meet(ExchangeId e, int device) {
    const Exchange& exchange = plan_.exchanges[e];
    const std::size_t row = *exchange.row_of(device);
    const std::span<const int> members = exchange.row(row);
    came_[e].resize(at(exchange.rows));
    if (++came_[e][row] < members.size()) return;
    std::vector<Stream*> streams;
    double begin = 0;
    for (const int m : members) {
      const auto in = std::ranges::find_if(devices_[at(m)], [&](const Stream& s) {
        const auto* head = s.waits ? step(at(m), s.steps[s.next]).as<ExchangeStep>() : nullptr;
        return head && head->exchange == e;
      });
      streams.push_back(&*in);
      begin = std::max(begin, ready(at(m), *in));
    }
    for (std::size_t m = 0; m < members.size(); ++m) {
      streams[m]->waits = false;
      take(at(members[m]), *streams[m], begin);
      going_.push_back(members[m]);
    }
  }

  const Plan& plan_;
  std::vector<Timeline> lines_;
  std::vector<std::vector<Stream>> devices_;  // by device and stream
  IdVector<ExchangeId, std::vector<std::size_t>> came_;  // by row
  std::vector<int> going_;
};

}  // namespace

std::vector<Timeline> timelines_of(const Plan& plan) { return Replay(plan).run(); }

Plan written_out(const Plan& plan) { return has_schedule(plan) ? expanded(plan).plan : plan; }

TimedPlan timed(const Plan& plan) {
  TimedPlan t{.flat = expanded(plan), .lines = {}, .alike = {}};
  t.lines = timelines_of(t.flat.plan);
  for (int d = 0; d < std::ssize(plan.devices); ++d) {
    const auto same = [&](const std::vector<int>& group) {
      const auto first = at(group[0]), own = at(d);
      return plan.devices[first].program == plan.devices[own].program && plan.devices[first].slice_size == plan.devices[own].slice_size &&
             t.lines[first].begins == t.lines[own].begins && t.lines[first].ends == t.lines[own].ends;
    };
    const auto group = std::ranges::find_if(t.alike, same);
    (group == t.alike.end() ? t.alike.emplace_back() : *group).push_back(d);
  }
  return t;
}

double seconds_of(const Plan& plan) {
  double seconds = 0;
  for (const Timeline& t : timelines_of(written_out(plan))) seconds = std::max(seconds, t.seconds);
  return seconds;
}

double bubble_of(const Plan& plan, const std::vector<Timeline>& lines) {
  double begin = std::numeric_limits<double>::max(), end = 0, busy = 0;
  std::int64_t stages = 0;
  for (std::size_t d = 0; d < lines.size(); ++d) {
    const auto& steps = plan.program_of(d).steps;
    if (std::ranges::none_of(steps, [](const Step& s) { return s.as<LaunchStep>() != nullptr; })) continue;  // it keeps what others make
    ++stages;
    for (StepId s{0}; s.index < std::ssize(steps); ++s.index) {
      if (!is_of_micro_batch(steps[s].phase) || steps[s].stream != compute_stream) continue;
      begin = std::min(begin, lines[d].begins[s]);
      end = std::max(end, lines[d].ends[s]);
      busy += steps[s].seconds;
    }
  }
  return end > begin ? 1 - busy / ((end - begin) * static_cast<double>(stages)) : 0;
}

}  // namespace tandem
