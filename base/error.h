// One exception type for everything a user can cause: it says where, what was got and what was wanted, and
// carries the exit code the command line ends with.
#pragma once
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace tandem {

enum class ExitCode : int {
  ok = 0,
  usage = 2,
  model = 3,
  data = 4,
  device = 5,
  communication = 6,
  io = 7,
  diverged = 8,
  resumable = 75,
};

class Error : public std::runtime_error {
 public:
  // Zeros in `message` are written as \x00: what() would end at the first of them.
  Error(ExitCode code, const std::string& message);
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Text of anything: strings, characters, numbers, booleans, and types with a free function to_string(T).
inline std::string text_of(std::string_view s) { return std::string(s); }
inline std::string text_of(const char* s) { return s; }
inline std::string text_of(char c) { return std::string(1, c); }
inline std::string text_of(bool b) { return b ? "true" : "false"; }
std::string text_of(double v);  // shortest text that reads back as the same number
template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>)
std::string text_of(T v) {
  return std::to_string(v);
}
template <class T>
  requires std::is_class_v<T> && (!std::is_convertible_v<const T&, std::string_view>)
std::string text_of(const T& v) {
  return to_string(v);
}

// A part of a text without its type, so that one function serves texts of all kinds of parts.
struct TextPart {
  const void* value;
  void (*append)(std::string& text, const void* value);

  template <class T>
  TextPart(const T& v) : value(&v), append([](std::string& text, const void* p) { text += text_of(*static_cast<const T*>(p)); }) {}
  template <std::size_t length>
  TextPart(const char (&v)[length]) : value(v), append([](std::string& text, const void* p) { text += static_cast<const char*>(p); }) {}
};
std::string text_of_parts(std::initializer_list<TextPart> parts);
[[noreturn]] void fail_with_parts(ExitCode code, std::initializer_list<TextPart> parts);

template <class... Parts>
std::string concat(const Parts&... parts) {
  return text_of_parts({TextPart(parts)...});
}

// fail("Conv '", node.name, "': pads has ", n, " entries, expected ", 2 * rank)
template <class... Parts>
[[noreturn]] void fail(ExitCode code, const Parts&... parts) {
  fail_with_parts(code, {TextPart(parts)...});
}
template <class First, class... Parts>
  requires(!std::is_same_v<First, ExitCode>)
[[noreturn]] void fail(const First& first, const Parts&... parts) {
  fail_with_parts(ExitCode::model, {TextPart(first), TextPart(parts)...});
}

}  // namespace tandem
