// Options of `tandem train` that say how long it trains, from which weights, and what it writes.
#pragma once
#include <vector>

#include "cli/options.h"

namespace tandem {

std::vector<OptionRow> run_rows();

}  // namespace tandem
