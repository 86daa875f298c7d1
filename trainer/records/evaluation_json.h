// What an evaluation measured, as JSON.
#pragma once
#include "base/json.h"
#include "trainer/reports.h"

namespace tandem {

Json json_of(const Evaluation& e);  // "metrics"; "tables": "classes", and "confusion" where it is a metric, of each output

}  // namespace tandem
