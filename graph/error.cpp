#include "graph/error.h"

#include <charconv>

namespace tandem {

std::string text_of(double v) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  return std::string(buffer, end);
}

}  // namespace tandem
