#include "trainer/records/run_records.h"

namespace tandem {

void RunRecords::begin(std::int64_t step, const std::function<Graph()>& graph) {
  steps_.begin(step);
  if (!options_.tensorboard || !folder_.kept()) return;
  events_.begin(folder_.path(), step);
  events_.graph(graph());
}

void RunRecords::step(const StepReport& report) {
  steps_.step(report);
  events_.step(report);
}

void RunRecords::epoch(const EpochReport& report, const Session& session) {
  if (events_.open() && options_.histograms)
    session.each_parameter([&](const NamedTensor& p) {
      if (is_float(p.tensor.dtype())) events_.histogram(concat("weights/", p.name), report.step, p.tensor.to_doubles());
    });
  events_.epoch(report);
}

void RunRecords::flush() {
  steps_.flush();
  events_.flush();
}

}  // namespace tandem
