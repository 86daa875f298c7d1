// What options mean of training a model that was trained before for something else.
#pragma once
#include <vector>

#include "options/values.h"
#include "trainer/model.h"

namespace tandem {

WeightOptions adapter_options(const OptionValues& values);  // of commands that have only adapter

void read_head(const OptionValues& values, WeightOptions& weights);
// train_only head: all is frozen but the new head and what unfreeze names.
void read_train_only(const OptionValues& values, const Model& model, std::vector<std::string>& freeze, std::vector<std::string>& unfreeze);

}  // namespace tandem
