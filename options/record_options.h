// What a run records, as options of the API.
#pragma once
#include "options/values.h"
#include "trainer/model.h"

namespace tandem {

void read_record_options(FitOptions& options, const OptionValues& values);

}  // namespace tandem
