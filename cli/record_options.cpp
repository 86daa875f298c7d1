#include "cli/record_options.h"

#include <algorithm>
#include <cmath>

#include "base/spec.h"

namespace tandem {
namespace {

// "500" is steps, "90s", "10m" and "1h" are time.
void read_interval(FitOptions& o, const std::string& text) {
  constexpr std::pair<char, double> units[] = {{'s', 1}, {'m', 60}, {'h', 3600}};
  const auto unit = std::find_if(std::begin(units), std::end(units), [&](const auto& u) { return text.ends_with(u.first); });
  if (unit == std::end(units)) {
    o.checkpoint_steps = parse_integer(text, "--checkpoint-every");
    if (o.checkpoint_steps < 0) fail(ExitCode::usage, "--checkpoint-every ", text, ": expected a number of steps, or a time such as 90s, 10m, 1h");
    return;
  }
  o.checkpoint_seconds = unit->second * parse_number(text.substr(0, text.size() - 1), "--checkpoint-every");
  if (!(o.checkpoint_seconds > 0 && std::isfinite(o.checkpoint_seconds))) fail(ExitCode::usage, "--checkpoint-every ", text, ": expected more than no time");
}

}  // namespace

std::vector<OptionRow> record_rows() {
  return {
      {"", "run folder and records", "", ""},
      {"run-dir", "DIR", "", "keep checkpoints, metrics, curves, the plans and config.json there (default runs/MODEL-N, none for none)"},
      {"resume", "", "off", "go on from --run-dir's last checkpoint, with the options of that run where none are given and with its plans"},
      {"overwrite", "", "off", "start anew in a --run-dir that holds a run; replace a file of external data beside --output"},
      {"checkpoint-every", "N|TIME", "", "a checkpoint every N steps too, or so often: 90s, 10m, 1h (default after epochs only)"},
      {"checkpoint-steps", "N", "0", "the older name of --checkpoint-every N"},
      {"keep-checkpoints", "N", "0", "keep the N latest checkpoints, as step-N.checkpoint, beside the last, the one before and the best"},
      {"check-nan", "", "off", "look at all weights after every step, and find the first step and node that made what is no number"},
      {"tensorboard", "", "off", "write TensorBoard's event files into the run folder"},
      {"histograms", "", "off", "with histograms of all weights after every epoch"},
  };
}

void read_record_options(FitOptions& o, const Arguments& a) {
  o.checkpoint_steps = a.integer("checkpoint-steps");
  if (const std::string& every = a.text("checkpoint-every"); !every.empty()) read_interval(o, every);
  o.keep_checkpoints = a.integer("keep-checkpoints");
  o.check_nan = a.on("check-nan");
  o.histograms = a.on("histograms");
  o.tensorboard = a.on("tensorboard") || o.histograms;
  if (o.tensorboard && o.run_dir.empty()) fail(ExitCode::usage, "--tensorboard needs a run folder: give --run-dir another than none");
}

}  // namespace tandem
