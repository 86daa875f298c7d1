// What a run records, as options of the API.
#pragma once
#include "cli/options.h"
#include "trainer/model.h"

namespace tandem {

void read_record_options(FitOptions& options, const Arguments& arguments);

}  // namespace tandem
