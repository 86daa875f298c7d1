#include "planner/plan/timeline.h"

#include <algorithm>

namespace tandem {
namespace {

class Replay {
 public:
  explicit Replay(const Plan& plan) : plan_(plan), lines_(plan.devices.size()), free_(plan.devices.size()), came_(plan.exchanges.size()) {}

  std::vector<Timeline> run() {
    for (int d = static_cast<int>(lines_.size()); d-- > 0;) going_.push_back(d);
    while (!going_.empty()) {
      const int d = going_.back();
      going_.pop_back();
      go_on(static_cast<std::size_t>(d));
    }
    for (std::size_t d = 0; d < lines_.size(); ++d) {
      lines_[d].streams = static_cast<int>(free_[d].size());
      // of what waits for ever
      for (auto* times : {&lines_[d].begins, &lines_[d].ends}) times->resize(plan_.program_of(d).steps.size(), lines_[d].seconds);
    }
    return std::move(lines_);
  }

 private:
  // As far as a device comes without the others.
  void go_on(std::size_t d) {
    const auto& steps = plan_.program_of(d).steps;
    while (lines_[d].begins.size() < steps.size()) {
      if (const auto* exchange = next(d).as<ExchangeStep>()) return meet(exchange->exchange, static_cast<int>(d));
      take(d, ready(d));
    }
  }
  const Step& next(std::size_t d) const { return plan_.program_of(d).steps[lines_[d].begins.size()]; }

  double ready(std::size_t d) {
    const Step& s = next(d);
    if (free_[d].size() <= static_cast<std::size_t>(s.stream)) free_[d].resize(static_cast<std::size_t>(s.stream) + 1);
    double begin = free_[d][static_cast<std::size_t>(s.stream)];
    for (const StepId w : s.waits) begin = std::max(begin, lines_[d].ends[w]);
    return begin;
  }

  void take(std::size_t d, double begin) {
    const Step& s = next(d);
    const double end = begin + s.seconds;
    lines_[d].begins.push_back(begin);
    lines_[d].ends.push_back(end);
    free_[d][static_cast<std::size_t>(s.stream)] = end;
    lines_[d].seconds = std::max(lines_[d].seconds, end);
  }

  // A member waits until the last of them lets all go on.
  void meet(ExchangeId e, int device) {
    const Exchange& exchange = plan_.exchanges[e];
    const std::size_t row = *exchange.row_of(device);
    const std::span<const int> members = exchange.row(row);
    came_[e].resize(at(exchange.rows));
    if (++came_[e][row] < members.size()) return;
    double begin = 0;
    for (const int m : members) begin = std::max(begin, ready(static_cast<std::size_t>(m)));
    for (const int m : members) {
      take(static_cast<std::size_t>(m), begin);
      going_.push_back(m);
    }
  }

  const Plan& plan_;
  std::vector<Timeline> lines_;
  std::vector<std::vector<double>> free_;  // by device and stream
  IdVector<ExchangeId, std::vector<std::size_t>> came_;  // by row
  std::vector<int> going_;
};

}  // namespace

std::vector<Timeline> timelines_of(const Plan& plan) { return Replay(plan).run(); }

}  // namespace tandem
