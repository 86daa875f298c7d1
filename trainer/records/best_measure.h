// What the best epoch of a run is told by.
#pragma once
#include <string>
#include <string_view>

#include "trainer/model.h"

namespace tandem {

class BestMeasure {
 public:
  // FitOptions::best. Fails (usage) where it says neither min: nor max: of what is no metric of trainer/measure/scores.h, loss or accuracy.
  explicit BestMeasure(std::string_view text);
  // What an epoch has of it, more is better; NaN: nothing.
  double score(const EpochReport& epoch) const;
  // The name by which the epoch has it; empty: it has none of it.
  std::string name_in(const EpochReport& epoch) const;
  const std::string& name() const { return name_; }  // as asked for, without min: or max:; empty: the usual
  bool least() const { return least_; }

 private:
  std::string name_;
  bool least_ = false;
};

// A number of an epoch's report by its name: "loss", "val_accuracy", "val_f1"; NaN: it has none.
double number_of(const EpochReport& epoch, std::string_view name);

}  // namespace tandem
