// What options mean of training a model that was trained before for something else.
#pragma once
#include <vector>

#include "cli/command.h"
#include "trainer/model.h"

namespace tandem {

WeightOptions adapter_options(const Arguments& arguments);  // of commands that have only --adapter

void read_head(const Arguments& arguments, WeightOptions& weights);
// --train-only head: all is frozen but the new head and what --unfreeze names.
void read_train_only(const Arguments& arguments, const Model& model, std::vector<std::string>& freeze, std::vector<std::string>& unfreeze);

}  // namespace tandem
