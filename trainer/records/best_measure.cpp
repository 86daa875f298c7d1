#include "trainer/records/best_measure.h"

#include <cmath>

#include "base/option.h"
#include "trainer/measure/scores.h"

namespace tandem {
namespace {

constexpr std::string_view of_validation = "val_";

bool ends_with(std::string_view name, std::string_view end) {
  return name == end || (name.ends_with(end) && name[name.size() - end.size() - 1] == '_');
}

}  // namespace

double number_of(const EpochReport& e, std::string_view name) {
  constexpr std::pair<std::string_view, double EpochReport::*> own[] = {
      {"loss", &EpochReport::loss}, {"accuracy", &EpochReport::accuracy}, {"val_loss", &EpochReport::val_loss}, {"val_accuracy", &EpochReport::val_accuracy}};
  for (const auto& [known, value] : own)
    if (name == known) return e.*value;
  const auto it = e.metrics.find(std::string(name));
  return it == e.metrics.end() ? not_measured : it->second;
}

BestMeasure::BestMeasure(std::string_view text) {
  const bool least = text.starts_with("min:"), most = text.starts_with("max:");
  name_ = text.substr(least || most ? 4 : 0);
  if ((least || most) && name_.empty()) fail(ExitCode::usage, option("best"), " ", text, ": expected [min:|max:]NAME");
  if (least || most || name_.empty()) {
    least_ = least;
    return;
  }
  const std::string_view bare =
      name_.starts_with(of_validation) ? std::string_view(name_).substr(of_validation.size()) : std::string_view(name_);
  if (ends_with(bare, "loss")) {
    least_ = true;
    return;
  }
  if (ends_with(bare, "accuracy")) return;
  const std::optional<bool> lower = lower_is_better(bare.substr(bare.rfind('_') == std::string_view::npos ? 0 : bare.rfind('_') + 1));
  if (!lower)
    fail(ExitCode::usage, option("best"), " ", text, ": whether less or more of it is better is not known: say min:", name_,
         " or max:", name_);
  least_ = *lower;
}

std::string BestMeasure::name_in(const EpochReport& e) const {
  for (const std::string& name : {std::string(of_validation) + name_, name_})
    if (std::isfinite(number_of(e, name))) return name;
  return "";
}

double BestMeasure::score(const EpochReport& e) const {
  if (name_.empty()) return std::isfinite(e.val_accuracy) ? e.val_accuracy : -(std::isfinite(e.val_loss) ? e.val_loss : e.loss);
  const double value = number_of(e, name_in(e));
  return least_ ? -value : value;
}

}  // namespace tandem
