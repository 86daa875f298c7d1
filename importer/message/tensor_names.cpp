// Patterns of names as the exporters of PyTorch, TensorFlow and Keras write them.
#include "importer/message/tensor_names.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace tandem {
namespace {

constexpr std::string_view statistics[] = {"running_mean", "running_var", "moving_mean", "moving_variance", "moving_var"};
constexpr std::string_view weights[] = {"weight", "bias", "kernel", "gamma", "beta", "weights", "biases"};
constexpr std::string_view creations[] = {"zeros", "ones", "full", "fill", "empty", "new_", "scalar", "arange", "tmp", "mean"};
constexpr std::string_view constants[] = {"const", "scalar", "lifted"};
constexpr std::string_view numbers[] = {"zero", "one", "two", "three", "half", "eps", "epsilon", "pi"};
constexpr std::string_view variables[] = {"ReadVariableOp", "/resource"};  // TensorFlow's

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}
std::string lower(std::string_view name) {
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}
bool is_identifiers(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; });
}
// "val_12", "_val_3", "470"
bool counts(std::string_view name) {
  std::size_t digits = 0;
  while (digits < name.size() && is_digit(name[name.size() - 1 - digits])) ++digits;
  return digits > 0 && (digits == name.size() || name[name.size() - 1 - digits] == '_');
}

}  // namespace

bool is_path(std::string_view name) {
  return is_identifiers(name) && name.find('.') != std::string_view::npos && name.front() != '.' && name.back() != '.';
}

bool is_made_up(std::string_view name) {
  const std::string small = lower(name);
  if (std::find(std::begin(numbers), std::end(numbers), small) != std::end(numbers)) return true;
  if (std::any_of(std::begin(constants), std::end(constants), [&](std::string_view word) { return small.find(word) != std::string::npos; }))
    return true;
  if (std::any_of(std::begin(variables), std::end(variables),
                  [&](std::string_view word) { return name.find(word) != std::string_view::npos; }))
    return false;
  return !is_identifiers(name) || (!is_path(name) && counts(name));
}

bool is_weights_name(std::string_view name) {
  if (std::any_of(std::begin(variables), std::end(variables),
                  [&](std::string_view word) { return name.find(word) != std::string_view::npos; }))
    return true;
  if (const std::size_t colon = name.find(':'); colon != std::string_view::npos && name.find("::") == std::string_view::npos)
    name = name.substr(0, colon);
  const std::size_t last = name.find_last_of("./");
  if (last == std::string_view::npos) return false;
  const std::string word = lower(name.substr(last + 1));
  return std::any_of(std::begin(weights), std::end(weights), [&](std::string_view w) { return word == w; });
}

bool is_statistics_name(std::string_view name) {
  return std::any_of(std::begin(statistics), std::end(statistics), [&](std::string_view s) { return name.ends_with(s); });
}

bool is_creations_name(std::string_view name) {
  return std::any_of(std::begin(creations), std::end(creations), [&](std::string_view s) { return name.starts_with(s); });
}

bool is_exporters_number(std::string_view name) {
  const std::string small = lower(name);
  const bool word =
      std::any_of(std::begin(constants), std::end(constants), [&](std::string_view w) { return small.find(w) != std::string::npos; });
  return word || name.starts_with("val_") || name.find("_cast") != std::string_view::npos || is_creations_name(name);
}

}  // namespace tandem
