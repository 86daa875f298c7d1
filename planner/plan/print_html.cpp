// A plan as one page for a browser, nothing fetched from elsewhere. The page's scripts (planner/plan/page) draw what they read of the
// plan's JSON, which stands in it.
#include <algorithm>
#include <string_view>

#include "base/json.h"
#include "base/printable.h"
#include "base/units.h"
#include "planner/plan/format.h"
#include "planner/plan/page/page_differences.h"
#include "planner/plan/page/page_headline.h"
#include "planner/plan/page/page_main.h"
#include "planner/plan/page/page_memory.h"
#include "planner/plan/page/page_model.h"
#include "planner/plan/page/page_picture.h"
#include "planner/plan/page/page_placement.h"
#include "planner/plan/page/page_style.h"
#include "planner/plan/page/page_tables.h"
#include "planner/plan/page/page_timeline.h"
#include "planner/plan/page/page_view.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/print.h"

namespace tandem {
namespace {

constexpr std::size_t name_width = 60;
constexpr std::size_t most_steps = 200'000;  // that a page can show, of all timelines

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text, Lines::kept))
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

// JSON that may stand in a script: no text in it ends that or begins a comment.
std::string for_script(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) c == '<' ? out += "\\u003c" : out += c;
  return out;
}

// Steps as the timelines have them, written out.
std::size_t steps_of(const Plan& plan) {
  std::size_t steps = 0;
  for (const DeviceProgram& p : plan.programs)
    steps += p.steps.size() * (p.schedule.empty() ? 1 : static_cast<std::size_t>(plan.micro_batches));
  return steps;
}

}  // namespace

std::string page_of(const std::string& title, const std::string& summary, std::span<const Plan* const> plans, const std::string& diff) {
  const std::string head = escaped(title), text = escaped(summary);
  std::string out = concat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
      "'unsafe-inline'\">\n"
      "<title>",
      head, "</title>\n<style>", page_style, "</style></head>\n<body>\n<header><h1>", head, "</h1></header>\n");
  std::size_t steps = 0;
  for (const Plan* plan : plans) steps += steps_of(*plan);
  if (steps > most_steps)
    return concat(out, "<main><p>", plans.size() == 1 ? "This plan has " : "These plans have ",
                  text_of_integer(static_cast<std::int64_t>(steps)), " steps. A page shows at most ", text_of_integer(static_cast<std::int64_t>(most_steps)),
                  "; the plan's JSON has them all.</p>\n<pre tabindex=\"0\">", text, "</pre></main></body></html>\n");
  out += concat("<main id=\"page\"></main>\n<noscript><p>Pictures need JavaScript. This is the plan's summary.</p><pre>", text,
                "</pre></noscript>\n");
  const auto data = [&](std::string_view id, const std::string& json) {
    out += concat("<script type=\"application/json\" id=\"", id, "\">", for_script(json), "</script>\n");
  };
  for (std::size_t p = 0; p < plans.size(); ++p) data(p == 0 ? "plan" : "other", json_value_of(*plans[p], PlanDetail::pictures).dump());
  if (!diff.empty()) data("diff", diff);
  out += concat("<script>(() => {\n\"use strict\";\nconst STREAMS = ",
                Json(Json::Array(std::begin(stream_names), std::end(stream_names))).dump(), ";\n");
  for (const char* const script : {page_model, page_view, page_picture, page_headline, page_placement, page_timeline, page_memory,
                                   page_tables, page_differences, page_main})
    out += script;
  return out + "})();</script>\n</body></html>\n";
}

std::string html_of(const Plan& plan) {
  const std::string_view kind = plan.mode == PlanMode::training ? "Training" : "Inference";
  const Plan* const plans[] = {&plan};
  const std::string title = concat(kind, " plan of ", shorten(plan.model.empty() ? "a model" : plan.model, name_width));
  return page_of(title, text_of_plan(plan, false), plans);
}

}  // namespace tandem
