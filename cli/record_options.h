// What a run records: options of `tandem train`.
#pragma once
#include <vector>

#include "cli/options.h"
#include "trainer/model.h"

namespace tandem {

std::vector<OptionRow> record_rows();
void read_record_options(FitOptions& options, const Arguments& arguments);

}  // namespace tandem
