// How far training or evaluation is: a bar that redraws itself on a terminal, plain lines elsewhere.
#pragma once
#include <chrono>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "trainer/model.h"

namespace tandem {

// A part of a progress line. Where there is no room for all, the most dispensable go first.
struct ProgressPart {
  std::string text;
  int dispensable = 0;
};
// One line of at most columns - 1 characters (a terminal may break a line that it fills): a bar that is `share` full, then the
// parts in their order. The bar gives way last but one: the least dispensable part stays, cut where even that does not fit.
std::string progress_line(double share, std::span<const ProgressPart> parts, int columns);

// Samples a second of the last steps: as many of them as took `window_seconds` together, and at least one.
class RecentRate {
 public:
  static constexpr double window_seconds = 5;
  void add(std::int64_t samples, double seconds);  // of one step
  double samples_per_second() const { return seconds_ > 0 ? static_cast<double>(samples_) / seconds_ : 0; }

 private:
  std::deque<std::pair<std::int64_t, double>> steps_;
  std::int64_t samples_ = 0;
  double seconds_ = 0;
};

class Progress {
 public:
  // `metrics`: of those that an epoch reports, the ones that its line shows.
  explicit Progress(const Invocation& invocation, std::int64_t steps_per_epoch = 1, std::vector<std::string> metrics = {})
      : invocation_(invocation), steps_per_epoch_(steps_per_epoch), metrics_(std::move(metrics)) {}
  ~Progress() { clear(); }
  void step(const StepReport& report);
  void epoch(const EpochReport& report);
  void validation(std::int64_t done, std::int64_t all);  // samples, of the epoch whose steps were reported
  void samples(std::int64_t done, std::int64_t all);
  void clear();  // takes the bar away, so that something else can be written

 private:
  using Clock = std::chrono::steady_clock;
  bool due();  // whether it is time to show something again
  void draw(double share, std::span<const ProgressPart> parts);
  int columns() const;

  const Invocation& invocation_;
  std::int64_t steps_per_epoch_;
  std::vector<std::string> metrics_;
  double loss_ = 0, accuracy_ = 0;  // running means of the epoch
  std::int64_t samples_ = 0, epoch_ = 0;
  RecentRate rate_;
  Clock::time_point drawn_{};
  std::size_t width_ = 0;  // of what stands on the line
};

}  // namespace tandem
