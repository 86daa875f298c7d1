#include "trainer/records/evaluation_json.h"

namespace tandem {

Json json_of(const Evaluation& e) {
  Json::Object metrics, tables;
  for (const auto& [name, value] : e.metrics) metrics.emplace_back(name, value);
  for (const auto& [output, t] : e.tables) {
    Json::Array classes, confusion;
    for (std::size_t c = 0; c < t.right.size(); ++c)
      classes.push_back(Json::Object{
          {"precision", t.precision(c)}, {"recall", t.recall(c)}, {"f1", t.f1(c)}, {"iou", t.iou(c)}, {"count", t.support[c]}});
    const auto n = static_cast<std::ptrdiff_t>(t.classes);
    for (auto row = t.confusion.begin(); row != t.confusion.end(); row += n) confusion.push_back(std::vector<std::int64_t>(row, row + n));
    tables.emplace_back(output, Json::Object{{"classes", std::move(classes)}, {"confusion", std::move(confusion)}});
  }
  return Json::Object{{"metrics", std::move(metrics)}, {"tables", std::move(tables)}};
}

}  // namespace tandem
