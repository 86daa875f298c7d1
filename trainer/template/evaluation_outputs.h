// What metrics take of an evaluation plan.
#pragma once
#include <string>
#include <vector>

#include "planner/loss/evaluation.h"
#include "trainer/template/model_options.h"

namespace tandem {

struct MetricNames {
  std::vector<std::string> rows, files;  // that this program knows, that files compute
};
MetricNames rows_and_files(const std::vector<std::string>& metrics);
// What a plan has to give for these metrics. Fails (usage) as Scores.
EvaluationOutputs evaluation_of(const Losses& losses, const std::vector<std::string>& metrics);

}  // namespace tandem
