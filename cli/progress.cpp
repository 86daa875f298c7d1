#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

namespace tandem {
namespace {

constexpr std::size_t widest_bar = 24, narrowest_bar = 4;
constexpr int usual_columns = 80, least_columns = 20;
constexpr double redraw_seconds = 0.1, line_seconds = 10;

std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  return s < 60     ? fmt::format("{}s", s)
         : s < 3600 ? fmt::format("{}m{:02}s", s / 60, s % 60)
                    : fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
}

std::string loss_text(std::string_view prefix, double loss) {
  return std::isfinite(loss) ? fmt::format("{}loss {:.4f}", prefix, loss) : std::string();
}
std::string accuracy_text(std::string_view prefix, double accuracy) {
  return std::isfinite(accuracy) ? fmt::format("{}accuracy {:.2f}%", prefix, 100 * accuracy) : std::string();
}

// Those that say something, two spaces apart.
std::string join(std::span<const ProgressPart> parts) {
  std::string line;
  for (const ProgressPart& p : parts)
    if (!p.text.empty()) line += (line.empty() ? "" : "  ") + p.text;
  return line;
}

}  // namespace

std::string progress_line(double share, std::span<const ProgressPart> parts, int columns) {
  const auto room = static_cast<std::size_t>(std::max(columns, 2) - 1);
  std::vector<ProgressPart> shown(parts.begin(), parts.end());
  std::string line = join(shown);
  const std::size_t least = narrowest_bar + 3;  // with its brackets and a space
  while (line.size() + least > room && shown.size() > 1) {
    shown.erase(std::max_element(shown.begin(), shown.end(), [](const auto& a, const auto& b) { return a.dispensable < b.dispensable; }));
    line = join(shown);
  }
  if (line.size() + least > room) return line.substr(0, room);
  const std::size_t width = std::min(widest_bar, room - line.size() - 3);
  const auto full = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width));
  return fmt::format("[{}{}] {}", std::string(full, '#'), std::string(width - full, '.'), line);
}

void RecentRate::add(std::int64_t samples, double seconds) {
  steps_.emplace_back(samples, seconds);
  samples_ += samples;
  seconds_ += seconds;
  while (steps_.size() > 1 && seconds_ - steps_.front().second >= window_seconds) {
    samples_ -= steps_.front().first;
    seconds_ -= steps_.front().second;
    steps_.pop_front();
  }
}

void Progress::step(const StepReport& report) {
  if (invocation_.quiet()) return;
  if (report.epoch != epoch_) {
    epoch_ = report.epoch;
    loss_ = accuracy_ = 0;
    samples_ = 0;
  }
  loss_ += report.loss * static_cast<double>(report.samples);
  accuracy_ += report.accuracy * static_cast<double>(report.samples);
  samples_ += report.samples;
  rate_.add(report.samples, report.seconds);
  if (!due()) return;
  const double rate = rate_.samples_per_second(), left = static_cast<double>((report.steps - report.step) * report.samples) / rate,
               samples = static_cast<double>(samples_);
  const ProgressPart parts[] = {{fmt::format("epoch {}", report.epoch), 3},
                                {fmt::format("step {}/{}", report.step, report.steps), 0},
                                {loss_text("", loss_ / samples), 1},
                                {accuracy_text("", accuracy_ / samples), 4},
                                {fmt::format("{:.0f} samples/s", rate), 5},
                                {fmt::format("{} left", duration(left)), 2}};
  draw(static_cast<double>((report.step - 1) % steps_per_epoch_ + 1) / static_cast<double>(steps_per_epoch_), parts);
}

void Progress::validation(std::int64_t done, std::int64_t all) {
  if (invocation_.quiet() || !due()) return;
  const ProgressPart parts[] = {{fmt::format("epoch {}", epoch_), 1}, {"validation", 0}, {fmt::format("{} of {} samples", done, all), 2}};
  draw(static_cast<double>(done) / static_cast<double>(all), parts);
}

void Progress::samples(std::int64_t done, std::int64_t all) {
  if (invocation_.quiet() || !due()) return;
  const ProgressPart parts[] = {{fmt::format("{} of {} samples", done, all), 0}};
  draw(static_cast<double>(done) / static_cast<double>(all), parts);
}

bool Progress::due() {
  const double since = std::chrono::duration<double>(Clock::now() - drawn_).count();
  if (since < (invocation_.streams.err_terminal ? redraw_seconds : line_seconds)) return false;
  const bool first_line = drawn_ == Clock::time_point{};
  drawn_ = Clock::now();
  return !first_line || invocation_.streams.err_terminal;
}

// Asked anew each time: a window may have changed its size.
int Progress::columns() const {
  const int columns = invocation_.streams.columns ? invocation_.streams.columns() : 0;
  return columns > 0 ? std::max(columns, least_columns) : usual_columns;
}

void Progress::draw(double share, std::span<const ProgressPart> parts) {
  if (!invocation_.streams.err_terminal) {
    invocation_.say(join(parts));
    return;
  }
  const int now = columns();
  std::string line = progress_line(share, parts, now);
  const std::size_t width = line.size(), before = std::min(width_, static_cast<std::size_t>(now) - 1);
  if (width < before) line.append(before - width, ' ');
  width_ = width;
  invocation_.streams.err << '\r' << line << std::flush;
}

void Progress::clear() {
  const std::size_t width = std::min(width_, static_cast<std::size_t>(columns()) - 1);
  if (width > 0) invocation_.streams.err << '\r' << std::string(width, ' ') << '\r' << std::flush;
  width_ = 0;
}

void Progress::epoch(const EpochReport& report) {
  if (invocation_.quiet()) return;
  clear();
  drawn_ = Clock::now();
  std::vector<ProgressPart> parts{{concat("epoch ", report.epoch, report.epochs > 0 ? concat('/', report.epochs) : std::string())},
                                {loss_text("", report.loss)},
                                {accuracy_text("", report.accuracy)},
                                {loss_text("val_", report.val_loss)},
                                  {accuracy_text("val_", report.val_accuracy)}};
  for (const auto& [name, value] : report.metrics)
    if (std::find(metrics_.begin(), metrics_.end(), name.starts_with("val_") ? name.substr(4) : name) != metrics_.end())
      parts.push_back({fmt::format("{} {:.4g}", name, value)});
  parts.push_back({fmt::format("{:.0f} samples/s", report.samples_per_second)});
  parts.push_back({duration(report.seconds)});
  invocation_.say(join(parts));
}

}  // namespace tandem
