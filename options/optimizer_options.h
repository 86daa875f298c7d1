// What the options of the optimizer, the learning rate and averages mean for the API.
#pragma once
#include <vector>

#include "options/optimizer_flags.h"
#include "options/values.h"
#include "trainer/model.h"

namespace tandem {

// Reads those of the rows above that there are; what is not given stays as in `base` (default: as the named optimizer has it).
OptimizerOptions optimizer_options(const OptionValues& values);
OptimizerOptions optimizer_options(const OptionValues& values, OptimizerOptions base);
// The rate, its schedule, averages and early stopping.
void read_rate_options(const OptionValues& values, FitOptions& options);

// 'bias,*norm*: weight-decay=0,lr=0.1x; head*: lr=0.01': groups by patterns. `rate`: what an lr without x is a part of. Fails (usage).
std::vector<UpdateGroup> parse_groups(const std::string& text, double rate);

}  // namespace tandem
