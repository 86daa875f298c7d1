#include "base/spec.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace tandem {
namespace {

template <class T>
T parse(std::string_view text, std::string_view what, std::string_view kind) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) fail(ExitCode::usage, what, ": '", text, "' is not ", kind);
  return value;
}

bool is_option(std::string_view part, bool lists) {
  const std::size_t equals = part.find('=');
  if (equals == 0 || equals == std::string_view::npos) return false;
  return std::all_of(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(equals),
                     [&](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || (lists && (c == '.' || c == ':')); });
}

}  // namespace

double parse_number(std::string_view text, std::string_view what) {
  const auto value = parse<double>(text, what, "a number");
  if (!std::isfinite(value)) fail(ExitCode::usage, what, ": '", text, "' is not finite");
  return value;
}
std::int64_t parse_integer(std::string_view text, std::string_view what) {
  return parse<std::int64_t>(text, what, "a whole number");
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

double Spec::number(std::string_view key, double absent) const {
  const auto found = options.find(std::string(key));
  return found == options.end() ? absent : parse_number(found->second, concat(name, ": ", key));
}

std::int64_t Spec::integer(std::string_view key, std::int64_t absent) const {
  const auto found = options.find(std::string(key));
  return found == options.end() ? absent : parse_integer(found->second, concat(name, ": ", key));
}

std::string Spec::text(std::string_view key, std::string_view absent) const {
  const auto found = options.find(std::string(key));
  return found == options.end() ? std::string(absent) : found->second;
}

void Spec::allow(std::initializer_list<std::string_view> keys, std::string_view what) const {
  const std::vector<std::string> known(keys.begin(), keys.end());
  for (const auto& [key, value] : options)
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail(ExitCode::usage, what, " '", name, "' has no option '", key, "'", known.empty() ? std::string() : suggestion(key, known));
}

Spec parse_spec(std::string_view text, bool lists) {
  Spec spec;
  std::string head, last;
  for (const std::string& part : split(text, ',')) {
    if (is_option(part, lists) && !head.empty()) {
      const std::size_t equals = part.find('=');
      last = part.substr(0, equals);
      spec.options[last] = part.substr(equals + 1);
    } else if (lists && !spec.options.empty()) {
      spec.options[last] += ',' + part;
    } else {
      if (!spec.options.empty()) fail(ExitCode::usage, "'", text, "': expected KEY=VALUE in place of '", part, "'");
      head += (head.empty() ? "" : ",") + part;
    }
  }
  const std::size_t colon = head.find(':');
  spec.name = head.substr(0, colon);
  if (colon != std::string::npos) spec.argument = head.substr(colon + 1);
  return spec;
}

}  // namespace tandem
