#include "planner/place/parallel.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/option.h"
#include "base/spec.h"

namespace tandem {
namespace {

std::int64_t factor(std::string_view text, const std::string& name, std::int64_t most) {
  const std::int64_t value = parse_integer(text, concat(option("parallel"), ": ", name));
  if (value < 1 || value > most) fail(ExitCode::usage, option("parallel"), ": ", name, "=", text, ", expected 1 to ", most);
  return value;
}

}  // namespace

Parallelism parse_parallelism(std::string_view text) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  const std::vector<std::string> words{"data", "tensor", "zero"};
  if (text.empty()) return {};
  std::map<std::string, std::int64_t> given;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals), value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (std::find(words.begin(), words.end(), name) == words.end())
      fail(ExitCode::usage, option("parallel"), ": '", name, "' is no kind of parallelism", suggestion(name, words));
    const bool rest = value == "*" && name != "zero";
    if (!given.emplace(name, rest ? 0 : factor(value, name, name == "zero" ? 3 : most)).second)
      fail(ExitCode::usage, option("parallel"), ": ", name, " is given twice");
  }
  const auto of = [&](const char* name, std::int64_t absent) { return given.contains(name) ? given[name] : absent; };
  const bool stage_alone = !given.contains("data") && !given.contains("tensor");
  const Parallelism p{.data = of("data", stage_alone ? 0 : 1), .tensor = of("tensor", 1), .zero = static_cast<int>(of("zero", 0))};
  if (p.data == 0 && p.tensor == 0) fail(ExitCode::usage, option("parallel"), ": two factors are *, expected one at most");
  return p;
}

std::vector<Parallelism::Split> parse_splits(const std::vector<std::string>& rules) {
  std::vector<Parallelism::Split> splits;
  for (const std::string& rule : rules) {
    const std::size_t equals = rule.rfind('='), colon = rule.rfind(':');
    if (equals == std::string::npos || colon == std::string::npos || colon < equals || equals == 0)
      fail(ExitCode::usage, option("split"), ": '", rule, "', expected NAME=AXIS:DIMENSION, such as fc1.weight=tensor:0");
    const std::string axis = rule.substr(equals + 1, colon - equals - 1);
    const std::vector<std::string> axes{"data", "tensor"};
    if (std::find(axes.begin(), axes.end(), axis) == axes.end())
      fail(ExitCode::usage, option("split"), ": '", rule, "': '", axis, "' is no axis of the mesh", suggestion(axis, axes));
    const std::int64_t dimension = parse_integer(rule.substr(colon + 1), concat(option("split"), ": '", rule, "'"));
    if (dimension < 0 || dimension > 63) fail(ExitCode::usage, option("split"), ": '", rule, "': dimension ", dimension, ", expected 0 or more");
    splits.push_back({rule.substr(0, equals), axis, static_cast<int>(dimension)});
  }
  return splits;
}

Parallelism resolved(Parallelism p, std::size_t devices) {
  const auto count = static_cast<std::int64_t>(devices);
  const std::string asked = to_string(p);
  if (p.tensor == 0 && p.data > 0) p.tensor = count / p.data;
  if (p.data == 0 && p.tensor > 0) p.data = count / p.tensor;
  if (p.data < 1 || p.tensor < 1 || p.data > count || p.data * p.tensor != count)
    fail(ExitCode::usage, option("parallel"), " ", asked, " on ", count, count == 1 ? " device" : " devices", ", expected factors whose product is ", count, ", of which one may be *");
  return p;
}

std::string to_string(const Parallelism& p) {
  const auto factor = [](std::int64_t value) { return value == 0 ? std::string("*") : std::to_string(value); };
  return concat("data=", factor(p.data), ",tensor=", factor(p.tensor), p.zero > 0 ? concat(",zero=", p.zero) : "");
}

}  // namespace tandem
