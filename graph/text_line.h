// A line of a graph's text (graph/parse.h) as it is read from its beginning to its end.
#pragma once
#include <charconv>

#include "base/printable.h"
#include "graph/attributes.h"
#include "graph/graph.h"
#include "graph/parse.h"

namespace tandem {

inline bool is_real(std::string_view number) { return number.find_first_of(".en") != std::string_view::npos; }  // inf and nan, too

inline DType dtype_named(std::string_view name) {
  for (int i = 1; i <= static_cast<int>(DType::float6e3m2); ++i)
    if (const DType dtype{i}; name_of(dtype) == name) return dtype;
  return DType::undefined;
}

// One line, from its beginning to its end.
class TextLine {
 public:
  TextLine(std::string_view text, int number) : rest_(text), number_(number) { skip(); }

  bool ended() const { return rest_.empty() || rest_[0] == '#'; }
  [[noreturn]] void refuse(std::string_view wanted) const {
    fail(ExitCode::usage, "graph text, line ", number_, ": expected ", wanted, ", got ",
         ended() ? "the end of the line" : concat("'", printable(rest_.substr(0, 40)), "'"));
  }
  // What is wrong where the text itself reads well.
  template <class... Parts>
  [[noreturn]] void wrong(const Parts&... parts) const {
    fail(ExitCode::usage, "graph text, line ", number_, ": ", parts...);
  }

  char next() const { return rest_.empty() ? '\0' : rest_[0]; }
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    // "as" is no beginning of "assigned".
    if (is_word(text.back()) && rest_.size() > text.size() && is_word(rest_[text.size()])) return false;
    rest_.remove_prefix(text.size());
    skip();
    return true;
  }
  void expect(std::string_view text) {
    if (!take(text)) refuse(concat('\'', text, '\''));
  }

  // Letters and the like, without what they may mean.
  std::string_view token() {
    std::size_t size = 0;
    while (size < rest_.size() && (is_word(rest_[size]) || rest_[size] == '+')) ++size;
    const std::string_view token = rest_.substr(0, size);
    rest_.remove_prefix(size);
    skip();
    return token;
  }
  std::string name(std::string_view wanted = "a name") {
    if (next() == '"') return quoted();
    if (!is_word(next())) refuse(wanted);
    return std::string(token());
  }
  std::string quoted() {
    const std::size_t end = rest_.find('"', 1);
    if (end == std::string_view::npos) refuse("a closing quote");
    std::string text = from_text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    skip();
    return text;
  }
  template <class T = std::int64_t>
  T number(std::string_view wanted = "a whole number") {
    const std::string_view before = rest_, digits = token();
    T value{};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
      rest_ = before;
      refuse(wanted);
    }
    return value;
  }
  template <class Each>
  void list(std::string_view open, std::string_view close, Each&& each) {
    expect(open);
    if (take(close)) return;
    do each();
    while (take(","));
    expect(close);
  }
  Ints ints() {
    Ints all;
    list("[", "]", [&] { all.push_back(number()); });
    return all;
  }
  bool begins_real() const { return is_real(rest_.substr(0, rest_.find_first_of(",]}) "))); }

  bool begins_type() const {
    const std::size_t end = rest_.find('[');
    return end != std::string_view::npos && dtype_named(rest_.substr(0, end)) != DType::undefined;
  }
  TensorType type() {
    if (!begins_type()) refuse("a type");
    const DType dtype = dtype_named(token());
    return {dtype, Shape{ints()}};
  }

  Tensor values(const TensorType& type) {
    if (size_of(type.dtype) == 0) wrong("no values are written of ", type);
    Tensor tensor(type);
    if (take("...")) return tensor;
    if (type.dtype == DType::float64) return of<double>(type);
    if (is_float(type.dtype) || is_small_float(type.dtype)) return of<float>(type).cast(type.dtype);
    return of<std::int64_t>(type).cast(type.dtype);
  }

  AttributeValue attribute() {
    if (next() == '"') return quoted();
    if (begins_type()) {
      const TensorType of = type();
      return values(of);
    }
    if (next() != '[') return begins_real() ? AttributeValue(number<float>("a number")) : AttributeValue(number("an attribute's value"));
    if (take("[floats]")) return Floats{};
    if (take("[strings]")) return Strings{};
    const TextLine before = *this;
    expect("[");
    const bool texts = next() == '"', reals = begins_real();
    *this = before;
    if (texts) {
      Strings all;
      list("[", "]", [&] { all.push_back(quoted()); });
      return all;
    }
    if (!reals) return ints();
    Floats all;
    list("[", "]", [&] { all.push_back(number<float>("a number")); });
    return all;
  }

  std::pair<ValueRole, std::string> role() {
    if (!take("as")) return {};
    for (int i = 0; i <= static_cast<int>(last_role); ++i)
      if (const ValueRole role{i}; take(name_of(role))) return {role, take("of") ? name() : std::string()};
    refuse("a role");
  }

 private:
  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r"), rest_.size())); }

  template <class T>
  Tensor of(const TensorType& type) {
    std::vector<T> all;
    list("[", "]", [&] { all.push_back(number<T>("a number")); });
    if (static_cast<std::int64_t>(all.size()) != type.shape.elements()) wrong(type, " given ", all.size(), " values");
    return Tensor::of<T>(type.shape, all);
  }

  std::string_view rest_;
  int number_;
};

}  // namespace tandem
