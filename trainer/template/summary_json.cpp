#include "trainer/template/summary_json.h"

namespace tandem {

Json json_of(const Summary& s, const ModelFile& file) {
  Json::Array rows;
  for (const SummaryRow& r : s.rows)
    rows.push_back(Json::Object{{"node", r.node},
                                {"op", r.op},
                                {"output", r.output ? Json(to_string(*r.output)) : Json()},
                                {"parameters", r.parameters},
                                {"flops", r.flops}});
  Json::Array tensors, warnings, problems;
  for (const SummaryTensor& t : s.tensors)
    tensors.push_back(Json::Object{{"name", t.tensor.name},
                                   {"type", to_string(t.tensor.type)},
                                   {"values", t.tensor.type.shape.elements()},
                                   {"is", std::string(name_of(t.tensor.holding))},
                                   {"frozen", t.frozen},
                                   {"certain", t.tensor.certain},
                                   {"reason", t.tensor.reason}});
  for (const std::string& warning : s.warnings) warnings.push_back(warning);
  for (const Problem& problem : s.problems) problems.push_back(to_string(problem));
  return Json::Object{{"model", s.model},
                      {"opset", file.opset()},
                      {"ir_version", file.ir_version()},
                      {"producer", file.producer()},
                      {"parameters", s.parameters},
                      {"trainable", s.trainable},
                      {"frozen", s.frozen},
                      {"adapters", s.adapters},
                      {"in_adapters", s.in_adapters},
                      {"bytes", s.bytes},
                      {"flops", s.flops},
                      {"nodes", std::move(rows)},
                      {"weights", std::move(tensors)},
                      {"warnings", std::move(warnings)},
                      {"problems", std::move(problems)}};
}

}  // namespace tandem
