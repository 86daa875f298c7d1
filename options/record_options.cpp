#include "options/record_options.h"

#include <algorithm>
#include <cmath>

#include "base/spec.h"
#include "options/train_flags.h"

namespace tandem {
namespace {

// "500" is steps, "90s", "10m" and "1h" are time.
void read_interval(FitOptions& o, const std::string& text) {
  constexpr std::pair<char, double> units[] = {{'s', 1}, {'m', 60}, {'h', 3600}};
  const auto unit = std::find_if(std::begin(units), std::end(units), [&](const auto& u) { return text.ends_with(u.first); });
  if (unit == std::end(units)) {
    o.checkpoint_steps = parse_integer(text, record_flags.checkpoint_every.told());
    if (o.checkpoint_steps < 0)
      fail(ExitCode::usage, record_flags.checkpoint_every.told(), ' ', text,
           ": expected a number of steps, or a time such as 90s, 10m, 1h");
    return;
  }
  o.checkpoint_seconds = unit->second * parse_number(text.substr(0, text.size() - 1), record_flags.checkpoint_every.told());
  if (!(o.checkpoint_seconds > 0 && std::isfinite(o.checkpoint_seconds)))
    fail(ExitCode::usage, record_flags.checkpoint_every.told(), ' ', text, ": expected more than no time");
}

}  // namespace

void read_record_options(FitOptions& o, const OptionValues& a) {
  o.checkpoint_steps = a[record_flags.checkpoint_steps];
  if (const std::string every = a[record_flags.checkpoint_every]; !every.empty()) read_interval(o, every);
  o.keep_checkpoints = a[record_flags.keep_checkpoints];
  o.check_nan = a[record_flags.check_nan];
  o.histograms = a[record_flags.histograms];
  o.tensorboard = a[record_flags.tensorboard] || o.histograms;
  if (o.tensorboard && o.run_dir.empty())
    fail(ExitCode::usage, record_flags.tensorboard.told(), " needs a run folder: give ", record_flags.run_dir.told(), " another than none");
}

}  // namespace tandem
