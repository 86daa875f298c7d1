// `tandem plan --what-if`: the table, the chart and the JSON of plans side by side.
#pragma once
#include <string>

#include "cli/command.h"
#include "kernels/described/device_kind.h"
#include "trainer/template/what_if.h"

namespace tandem {

// Writes the table, or with --json all figures; a chart to `chart` (.svg or .png), where that is not empty. Other rates are those of the
// links of `kinds`.
void show_what_if(const Invocation& call, const ModelTemplate& model, const ModelOptions& options, const WhatIf& asked,
                  const std::vector<DeviceKind>& kinds, const std::string& chart);
// Fails (usage) where a chart's file has another ending than .svg or .png.
void check_chart(const std::string& file);

}  // namespace tandem
