#include "cli/find_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/file.h"
#include "options/optimizer_flags.h"
#include "trainer/records/curves.h"

namespace tandem {

void find_rate(const Invocation& call, Model& model, const Dataset& data, const FitOptions& options, bool writes) {
  const OptionValues& a = call.arguments;
  const RateTestOptions test = a[rate_flags.find_lr_range];
  call.say(fmt::format("testing learning rates from {} to {} in {} steps", test.least, test.most, test.steps));
  const RateTest found = model.test_rates(data, options, test);
  if (!writes) return;
  const bool any = std::isfinite(found.suggestion);
  Panel panel{.title = any ? fmt::format("suggested learning rate {:.2g}", found.suggestion) : "no rate makes the loss fall",
              .x_label = "log10 of the learning rate",
              .series = {{.name = "loss", .points = {}}, {.name = "smoothed", .points = {}}}};
  double least = std::numeric_limits<double>::infinity();
  for (const double loss : found.smoothed) least = std::min(least, loss);
  for (std::size_t i = 0; i < found.rates.size(); ++i) {
    const double x = std::log10(found.rates[i]);
    panel.series[0].points.emplace_back(x, std::min(found.losses[i], test.ends_at * std::abs(least) + least));
    panel.series[1].points.emplace_back(x, found.smoothed[i]);
    if (found.rates[i] == found.suggestion)
      panel.series.push_back({.name = "suggestion", .points = {{x, found.smoothed[i]}}, .marks = true});
  }
  write_atomically(a[rate_flags.find_lr], svg_of(std::span(&panel, 1)));
  if (call.json()) {
    Json::Array rates, losses;
    for (std::size_t i = 0; i < found.rates.size(); ++i) {
      rates.emplace_back(found.rates[i]);
      losses.emplace_back(found.smoothed[i]);
    }
    call.print(Json::Object{{"event", "find-lr"},
                            {"suggestion", any ? Json(found.suggestion) : Json()},
                            {"rates", std::move(rates)},
                            {"losses", std::move(losses)}});
  } else if (any) {
    call.write(fmt::format("suggested learning rate {:.2g}: there the loss falls fastest (--lr {:.2g})\nwrote {}\n", found.suggestion,
                           found.suggestion, a[rate_flags.find_lr]));
  } else {
    call.write(fmt::format("no learning rate from {} to {} makes the loss fall\nwrote {}\n", test.least, test.most, a[rate_flags.find_lr]));
  }
}

}  // namespace tandem
