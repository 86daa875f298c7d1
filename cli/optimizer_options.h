// What the options of the optimizer, the learning rate and averages mean for the API.
#pragma once
#include <vector>

#include "cli/command.h"
#include "cli/optimizer_flags.h"
#include "trainer/model.h"

namespace tandem {

// Reads those of the rows above that the command has; what is not given stays as in `base` (default: as the named optimizer has it).
OptimizerOptions optimizer_options(const Arguments& arguments);
OptimizerOptions optimizer_options(const Arguments& arguments, OptimizerOptions base);
// The rate, its schedule, averages and early stopping.
void read_rate_options(const Arguments& arguments, FitOptions& options);

// 'bias,*norm*: weight-decay=0,lr=0.1x; head*: lr=0.01': groups by patterns. `rate`: what an lr without x is a part of. Fails (usage).
std::vector<UpdateGroup> parse_groups(const std::string& text, double rate);

// --find-lr: tests rates, and where it `writes` prints what was found and draws the picture.
void find_rate(const Invocation& call, Model& model, const Dataset& data, const FitOptions& options, bool writes);

}  // namespace tandem
