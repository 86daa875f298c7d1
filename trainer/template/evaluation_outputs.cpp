#include "trainer/template/evaluation_outputs.h"

#include "trainer/measure/scores.h"
#include "trainer/template/graph_file.h"

namespace tandem {

MetricNames rows_and_files(const std::vector<std::string>& metrics) {
  MetricNames m;
  for (const std::string& metric : metrics) (is_graph_file(metric) ? m.files : m.rows).push_back(metric);
  return m;
}

EvaluationOutputs evaluation_of(const Losses& losses, const std::vector<std::string>& metrics) {
  const auto [rows, files] = rows_and_files(metrics);
  EvaluationOutputs outputs{.model = !files.empty()};
  for (const Labels& l : losses) {
    outputs.losses.push_back(Scores(l, rows, losses.size() > 1).wanted());
    outputs.losses.back().loss = !l.own() && !l.of_file();
    outputs.losses.back().value |= l.own();
    outputs.model |= l.of_file();
  }
  return outputs;
}

}  // namespace tandem
