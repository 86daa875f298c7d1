// Reads and writes the part of a kernel's name that says which engine runs it.
#include "kernels/cuda/engine.h"

#include <charconv>

#include "base/error.h"

namespace tandem::cuda {

std::string to_string(const Engine& engine) {
  std::string text = concat("eng", engine.index);
  for (const auto& [type, value] : engine.knobs) text += concat(".k", type, '=', value);
  return text;
}

std::optional<Engine> parse_engine(std::string_view text) {
  Engine e;
  const auto number = [&](std::string_view prefix, std::int64_t& value) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
  };
  if (!number("eng", e.index)) return std::nullopt;
  while (!text.empty()) {
    auto& [type, value] = e.knobs.emplace_back();
    if (!number(".k", type) || !number("=", value)) return std::nullopt;
  }
  return e;
}

}  // namespace tandem::cuda
