// One exception type for everything a user can cause: it says where, what was got and what was wanted, and
// carries the exit code the command line ends with.
#pragma once
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

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string s;
  (s.append(text_of(parts)), ...);
  return s;
}

// fail("Conv '", node.name, "': pads has ", n, " entries, expected ", 2 * rank)
template <class... Parts>
[[noreturn]] void fail(ExitCode code, const Parts&... parts) {
  throw Error(code, concat(parts...));
}
template <class First, class... Parts>
  requires(!std::is_same_v<First, ExitCode>)
[[noreturn]] void fail(const First& first, const Parts&... parts) {
  throw Error(ExitCode::model, concat(first, parts...));
}

}  // namespace tandem
