// A summary as JSON.
#pragma once
#include "base/json.h"
#include "trainer/template/summary.h"

namespace tandem {

Json json_of(const Summary& summary, const ModelFile& file);

}  // namespace tandem
