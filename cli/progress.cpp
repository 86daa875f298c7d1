#include "cli/progress.h"

#include <fmt/format.h>

#include <cmath>
#include <ostream>

namespace tandem {
namespace {

constexpr int bar_width = 24;
constexpr double redraw_seconds = 0.1, line_seconds = 10;

std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  return s < 60     ? fmt::format("{}s", s)
         : s < 3600 ? fmt::format("{}m{:02}s", s / 60, s % 60)
                    : fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
}

std::string measures(std::string_view prefix, double loss, double accuracy) {
  std::string text = std::isfinite(loss) ? fmt::format("  {}loss {:.4f}", prefix, loss) : std::string();
  return std::isfinite(accuracy) ? text + fmt::format("  {}accuracy {:.2f}%", prefix, 100 * accuracy) : text;
}

}  // namespace

void Progress::step(const StepReport& report) {
  if (invocation_.quiet()) return;
  if (report.epoch != epoch_) epoch_ = report.epoch, loss_ = accuracy_ = 0, samples_ = 0;
  loss_ += report.loss * static_cast<double>(report.samples);
  accuracy_ += report.accuracy * static_cast<double>(report.samples);
  samples_ += report.samples;
  const double now = static_cast<double>(report.samples) / report.seconds;
  rate_ = rate_ == 0 ? now : 0.95 * rate_ + 0.05 * now;
  if (!due()) return;
  const double left = static_cast<double>((report.steps - report.step) * report.samples) / rate_;
  draw((report.step - 1) % steps_per_epoch_ + 1, steps_per_epoch_,
       fmt::format("epoch {}  step {}/{}{}  {:.0f} samples/s  {} left", report.epoch, report.step, report.steps,
                   measures("", loss_ / static_cast<double>(samples_), accuracy_ / static_cast<double>(samples_)), rate_, duration(left)));
}

void Progress::samples(std::int64_t done, std::int64_t all) {
  if (!invocation_.quiet() && due()) draw(done, all, fmt::format("{} of {} samples", done, all));
}

bool Progress::due() {
  const double since = std::chrono::duration<double>(Clock::now() - drawn_).count();
  if (since < (invocation_.streams.err_terminal ? redraw_seconds : line_seconds)) return false;
  const bool first_line = drawn_ == Clock::time_point{};
  drawn_ = Clock::now();
  return !first_line || invocation_.streams.err_terminal;
}

void Progress::draw(std::int64_t done, std::int64_t all, std::string line) {
  if (!invocation_.streams.err_terminal) {
    invocation_.say(line);
    return;
  }
  const auto full = static_cast<std::size_t>(bar_width * done / all);
  line = fmt::format("[{}{}] {}", std::string(full, '#'), std::string(bar_width - full, '.'), line);
  const std::size_t width = line.size();
  if (width < width_) line.append(width_ - width, ' ');
  width_ = width;
  invocation_.streams.err << '\r' << line << std::flush;
}

void Progress::clear() {
  if (width_ > 0) invocation_.streams.err << '\r' << std::string(width_, ' ') << '\r' << std::flush;
  width_ = 0;
}

void Progress::epoch(const EpochReport& report) {
  if (invocation_.quiet()) return;
  clear();
  drawn_ = Clock::now();
  const std::string all = report.epochs > 0 ? concat('/', report.epochs) : std::string();
  invocation_.say(fmt::format("epoch {}{}{}{}  {:.0f} samples/s  {}", report.epoch, all, measures("", report.loss, report.accuracy),
                              measures("val_", report.val_loss, report.val_accuracy), report.samples_per_second, duration(report.seconds)));
}

}  // namespace tandem
