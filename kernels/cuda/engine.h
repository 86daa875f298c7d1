// A library's choice of how to run an operation, as kernels' names carry it: "eng47.k2=1.k14=3".
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::cuda {

struct Engine {
  std::int64_t index = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> knobs;  // type and value
  bool operator==(const Engine&) const = default;
};
std::string to_string(const Engine& engine);
std::optional<Engine> parse_engine(std::string_view text);

}  // namespace tandem::cuda
