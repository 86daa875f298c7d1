#include "trainer/checkpoint_names.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"
#include "base/json.h"

namespace tandem {

std::string escaped(const std::string& name) {
  bool text = true;
  try {
    text = Json::parse(Json(name).dump()).text() == name;
  } catch (const Error&) {
    text = false;
  }
  std::string out;
  for (const char c : name)
    out += c == '%' || (!text && static_cast<unsigned char>(c) >= 0x80) ? fmt::format("%{:02X}", static_cast<unsigned char>(c))
                                                                        : std::string(1, c);
  return out;
}

std::string unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] != '%' || i + 2 >= text.size() ||
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr != text.data() + i + 3) {
      out += text[i];
    } else {
      out += static_cast<char>(value);
      i += 2;
    }
  }
  return out;
}

}  // namespace tandem
