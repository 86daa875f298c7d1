#include "trainer/template/input_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/spec.h"
#include "data/npy.h"
#include "importer/model_file.h"

namespace tandem {
namespace {

constexpr std::int64_t most_numbers = 1000;
constexpr const char* none = "none";

std::pair<std::string, std::string> pair_of(const std::string& text, std::string_view what, std::string_view form) {
  const std::size_t equals = text.rfind('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) fail(ExitCode::usage, what, ' ', text, ": expected ", form);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

double number_of(const std::string& text, const std::string& what) {
  if (text == "true" || text == "false") return text == "true" ? 1 : 0;
  return parse_number(text, what);
}

// Whole numbers stay whole, to the last digit.
Tensor numbers_of(const std::string& text, const std::string& what) {
  const std::vector<std::string> parts = split(text, '|');
  const auto is_whole = [](const std::string& p) { return !p.empty() && p.find_first_not_of("-0123456789") == std::string::npos; };
  const bool whole = std::ranges::all_of(parts, is_whole);
  Tensor list(TensorType{whole ? DType::int64 : DType::float64, Shape{std::ssize(parts)}});
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (whole)
      list.write<std::int64_t>()[i] = parse_integer(parts[i], what);
    else
      list.write<double>()[i] = number_of(parts[i], what);
  return parts.size() == 1 ? list.reshaped(Shape{}) : list;
}

}  // namespace

std::map<std::string, Tensor> parse_constants(const std::vector<std::string>& list, std::string_view what) {
  std::map<std::string, Tensor> constants;
  for (const std::string& text : list) {
    const auto [name, value] = pair_of(text, what, "INPUT=NUMBER, INPUT=NUMBER|NUMBER|... or INPUT=FILE.npy");
    if (!value.ends_with(".npy")) {
      constants.insert_or_assign(name, numbers_of(value, concat(what, ' ', name)));
      continue;
    }
    const std::string bytes = read_file(value);
    constants.insert_or_assign(name, parse_npy(std::as_bytes(std::span(bytes)), value));
  }
  return constants;
}

std::string text_of_constants(const std::map<std::string, Tensor>& constants) {
  std::string text;
  for (const auto& [name, value] : constants) {
    if (value.elements() > most_numbers || value.elements() == 0) continue;
    text += concat(text.empty() ? "" : ",", name, '=');
    const Tensor numbers = value.cast(is_float(value.dtype()) ? DType::float64 : DType::int64);
    for (std::int64_t i = 0; i < numbers.elements(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      text += i > 0 ? "|" : "";
      text += is_float(numbers.dtype()) ? fmt::format("{}", numbers.values<double>()[at]) : concat(numbers.values<std::int64_t>()[at]);
    }
  }
  return text;
}

std::map<std::string, int> parse_axes(const std::vector<std::string>& list, std::string_view what) {
  std::map<std::string, int> axes;
  for (const std::string& text : list) {
    const auto [name, value] = pair_of(text, what, "INPUT=AXIS or INPUT=none");
    constexpr std::int64_t most = 64;
    const std::int64_t axis = value == none ? no_samples : parse_integer(value, concat(what, ' ', name));
    if (value != none && (axis < 0 || axis >= most)) fail(ExitCode::usage, what, ' ', text, ": expected an axis from 0 on, or none");
    axes[name] = static_cast<int>(axis);
  }
  return axes;
}

std::string text_of_axes(const std::map<std::string, int>& axes) {
  std::string text;
  for (const auto& [name, axis] : axes) text += concat(text.empty() ? "" : ",", name, '=', axis < 0 ? none : std::to_string(axis));
  return text;
}

}  // namespace tandem
