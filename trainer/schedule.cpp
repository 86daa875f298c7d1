#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "trainer/spec.h"

namespace tandem {

Schedule parse_schedule(std::string_view text) {
  const Spec spec = parse_spec(text);
  Schedule s{.name = spec.name};
  if (s.name == "constant")
    spec.allow({"warmup"}, "learning-rate schedule");
  else if (s.name == "step")
    spec.allow({"every", "factor", "warmup"}, "learning-rate schedule");
  else if (s.name == "cosine")
    spec.allow({"final", "warmup"}, "learning-rate schedule");
  else
    fail(ExitCode::usage, "unknown learning-rate schedule '", text, "'",
         suggestion(spec.name, std::vector<std::string>{"constant", "step", "cosine"}));
  s.every = spec.number("every", s.every);
  s.factor = spec.number("factor", s.factor);
  s.final_share = spec.number("final", s.final_share);
  s.warmup = spec.number("warmup", s.warmup);
  if (!(s.every > 0) || !(s.factor > 0) || !(s.final_share >= 0) || !(s.warmup >= 0))
    fail(ExitCode::usage, "learning-rate schedule '", text, "': every and factor must be positive, final and warmup not negative");
  return s;
}

double learning_rate(const Schedule& s, double base, std::int64_t step, std::int64_t steps, double steps_per_epoch) {
  const double warmup = s.warmup * steps_per_epoch, now = static_cast<double>(step);
  if (now < warmup) return base * (now + 1) / (warmup + 1);
  const double after = now - warmup;
  if (s.name == "step") return base * std::pow(s.factor, std::floor(after / (s.every * steps_per_epoch)));
  if (s.name == "cosine") {
    const double length = std::max(1.0, static_cast<double>(steps) - 1 - warmup);
    const double wave = 0.5 * (1 + std::cos(std::numbers::pi * std::min(1.0, after / length)));
    return base * (s.final_share + (1 - s.final_share) * wave);
  }
  return base;
}

}  // namespace tandem
