#include "planner/plan/bounds.h"

#include <algorithm>

#include "planner/plan/format.h"

namespace tandem {

std::string_view StepBounds::largest() const {
  const std::pair<std::string_view, double> parts[] = {
      {"arithmetic", arithmetic}, {"memory", memory}, {"latency", latency}, {"link", waiting}};
  return std::ranges::max_element(parts, {}, &std::pair<std::string_view, double>::second)->first;
}

std::size_t longest_of(const std::vector<Timeline>& lines) {
  return static_cast<std::size_t>(std::ranges::max_element(lines, {}, &Timeline::seconds) - lines.begin());
}

StepBounds bounds_of(const Plan& plan) {
  const Plan flat = written_out(plan);
  return bounds_of(flat, timelines_of(flat));
}

StepBounds bounds_of(const Plan& flat, const std::vector<Timeline>& lines) {
  StepBounds bounds;
  if (lines.empty()) return bounds;
  const std::size_t longest = longest_of(lines);
  const DeviceProgram& program = flat.program_of(longest);
  double busy = 0;
  for (const Step& s : program.steps) {
    if ((s.stream != compute_stream && s.stream != weights_stream) || s.as<ExchangeStep>()) continue;
    const double launch = s.as<LaunchStep>() ? std::min(s.seconds, program.model.launch_seconds) : 0;
    const double moves = program.model.bandwidth > 0 ? s.bytes / program.model.bandwidth : 0;
    bounds.latency += launch;
    (s.seconds - launch > 1.01 * moves ? bounds.arithmetic : bounds.memory) += s.seconds - launch;
    busy += s.seconds;
  }
  bounds.waiting = std::max(0.0, lines[longest].seconds - busy);
  return bounds;
}

}  // namespace tandem
