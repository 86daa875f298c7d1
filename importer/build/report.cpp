// Problems of one kind at many nodes share a line, and lines are few: a report is read by people.
#include "importer/build/report.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tandem {
namespace {

constexpr std::size_t names_shown = 3;
constexpr std::size_t lines_shown = 1000;

struct Line {
  const Problem* first;
  std::vector<std::string> nodes;
};

std::string text_of_line(const Line& line) {
  const Problem& p = *line.first;
  std::string s;
  for (std::size_t i = 0; i < std::min(line.nodes.size(), names_shown); ++i)
    s += concat(i > 0 ? ", " : line.nodes.size() > 1 ? "nodes " : "node ", '\'', line.nodes[i], '\'');
  if (line.nodes.size() > names_shown) s += concat(" and ", line.nodes.size() - names_shown, " more");
  if (!p.op.empty()) s += concat(s.empty() ? "" : ": ", p.op, " (opset ", p.opset, ')');
  return s.empty() ? p.reason : concat(s, ": ", p.reason);
}

}  // namespace

std::string to_string(const Problem& problem) {
  return text_of_line({&problem, problem.node.empty() ? std::vector<std::string>{} : std::vector<std::string>{problem.node}});
}

std::string report_of(const std::string& model, const std::vector<Problem>& problems) {
  std::vector<Line> lines;
  std::map<std::tuple<std::string_view, std::int64_t, std::string_view>, std::size_t> known;
  for (const Problem& p : problems) {
    const auto [it, first] = known.emplace(std::tuple(std::string_view(p.op), p.opset, std::string_view(p.reason)), lines.size());
    if (first) lines.push_back({&p, {}});
    if (!p.node.empty()) lines[it->second].nodes.push_back(p.node);
  }
  std::string s = concat("model '", model, "' cannot be used, ", problems.size(), problems.size() == 1 ? " problem:" : " problems:");
  for (std::size_t i = 0; i < std::min(lines.size(), lines_shown); ++i) s += concat("\n  ", text_of_line(lines[i]));
  if (lines.size() > lines_shown) s += concat("\n  and ", lines.size() - lines_shown, " lines more");
  return s;
}

}  // namespace tandem
