#include "trainer/json.h"

#include <charconv>
#include <cmath>

#include "graph/error.h"

namespace tandem {
namespace {

constexpr int depth_limit = 64;

void quote(std::string& out, std::string_view s) {
  constexpr std::string_view escapes = "\"\\\b\f\n\r\t";
  constexpr std::string_view letters = "\"\\bfnrt";
  constexpr std::string_view hex = "0123456789abcdef";
  out += '"';
  for (std::size_t at = 0; at < s.size(); ++at) {
    char c = s[at];
    const bool control = c == '\xc2' && at + 1 < s.size() && static_cast<unsigned char>(s[at + 1]) < 0xa0;  // of two bytes in UTF-8
    if (control) c = s[++at];
    const auto byte = static_cast<unsigned char>(c);
    if (const std::size_t i = escapes.find(c); i != std::string_view::npos) {
      out += '\\';
      out += letters[i];
    } else if (byte < 0x20 || byte == 0x7f || control) {
      out += "\\u00";
      out += hex[byte >> 4];
      out += hex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

class Writer {
 public:
  explicit Writer(int indent) : indent_(indent) {}
  std::string out;

  void operator()(std::monostate) { out += "null"; }
  void operator()(bool v) { out += v ? "true" : "false"; }
  void operator()(double v) { out += std::isfinite(v) ? text_of(v) : "null"; }
  void operator()(std::int64_t v) { out += std::to_string(v); }
  void operator()(const std::string& v) { quote(out, v); }
  template <class Item, class Write>
  void list(char open, char close, const std::vector<Item>& items, Write&& write) {
    out += open;
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i) out += indent_ < 0 ? ", " : ",";
      line();
      write(items[i]);
    }
    --level_;
    if (!items.empty()) line();
    out += close;
  }

 private:
  void line() {
    if (indent_ >= 0) out += '\n' + std::string(static_cast<std::size_t>(indent_ * level_), ' ');
  }
  int indent_;
  int level_ = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}
  Json whole() {
    Json v = value(0);
    space();
    if (at_ != text_.size()) error("expected the end");
    return v;
  }

 private:
  [[noreturn]] void error(std::string_view what) const { fail(ExitCode::usage, "JSON, byte ", at_, ": ", what); }
  void space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  Json value(int depth) {
    if (depth > depth_limit) error("nested too deeply");
    space();
    if (take("null")) return {};
    if (take("true")) return true;
    if (take("false")) return false;
    if (at_ < text_.size() && text_[at_] == '"') return string();
    if (take("[")) {
      Json::Array items;
      for (space(); !take("]"); space()) {
        if (!items.empty() && !take(",")) error("expected ',' or ']'");
        items.push_back(value(depth + 1));
      }
      return items;
    }
    if (take("{")) {
      Json::Object members;
      for (space(); !take("}"); space()) {
        if (!members.empty() && !take(",")) error("expected ',' or '}'");
        space();
        std::string key = string();
        space();
        if (!take(":")) error("expected ':'");
        members.emplace_back(std::move(key), value(depth + 1));
      }
      return members;
    }
    return number();
  }
  Json number() {
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    double real = 0;
    std::int64_t whole = 0;
    const auto r = std::from_chars(begin, end, real);
    if (r.ec != std::errc{} || !std::isfinite(real)) error("expected a value");
    const auto i = std::from_chars(begin, end, whole);
    at_ += static_cast<std::size_t>(r.ptr - begin);
    if (i.ec == std::errc{} && i.ptr == r.ptr) return whole;
    return real;
  }
  std::string string() {
    if (!take("\"")) error("expected a string");
    std::string s;
    while (!take("\"")) {
      if (at_ >= text_.size()) error("a string has no end");
      const char c = text_[at_++];
      if (c != '\\') {
        s += c;
        continue;
      }
      constexpr std::string_view letters = "\"\\/bfnrt";
      constexpr std::string_view meant = "\"\\/\b\f\n\r\t";
      const char letter = at_ < text_.size() ? text_[at_++] : '\0';
      if (letter == 'u')
        unicode(s);
      else if (const std::size_t i = letters.find(letter); i != std::string_view::npos)
        s += meant[i];
      else
        error("unknown escape");
    }
    return s;
  }
  unsigned hex4() {
    unsigned code = 0;
    const auto digits = text_.substr(at_, 4);
    const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || r.ptr != digits.data() + 4) error("expected four hex digits");
    at_ += 4;
    return code;
  }
  void unicode(std::string& s) {
    unsigned code = hex4();
    if (code >= 0xD800 && code < 0xDC00 && take("\\u")) code = 0x10000 + ((code - 0xD800) << 10) + (hex4() - 0xDC00);
    const auto tail = [&](int shift) { s += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
    if (code < 0x80) {
      s += static_cast<char>(code);
    } else if (code < 0x800) {
      s += static_cast<char>(0xC0 | code >> 6), tail(0);
    } else if (code < 0x10000) {
      s += static_cast<char>(0xE0 | code >> 12), tail(6), tail(0);
    } else {
      s += static_cast<char>(0xF0 | ((code >> 18) & 7)), tail(12), tail(6), tail(0);
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

template <class T, class Value>
const T& get(const Value& value, std::string_view kind) {
  if (const T* v = std::get_if<T>(&value)) return *v;
  fail(ExitCode::usage, "JSON: expected ", kind);
}

void write(Writer& writer, const Json& json) {
  if (json.is_object()) {
    writer.list('{', '}', json.object(), [&](const auto& member) {
      quote(writer.out, member.first);
      writer.out += ": ";
      write(writer, member.second);
    });
  } else if (json.is_array()) {
    writer.list('[', ']', json.array(), [&](const Json& item) { write(writer, item); });
  } else {
    writer.out += json.dump();
  }
}

}  // namespace

bool Json::boolean() const {
  return get<bool>(value_, "true or false");
}
std::int64_t Json::integer() const {
  return get<std::int64_t>(value_, "a whole number");
}
const std::string& Json::text() const {
  return get<std::string>(value_, "a string");
}
const Json::Array& Json::array() const {
  return get<Array>(value_, "an array");
}
const Json::Object& Json::object() const {
  return get<Object>(value_, "an object");
}
double Json::number() const {
  if (const auto* whole = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*whole);
  return get<double>(value_, "a number");
}

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : object())
    if (name == key) return &value;
  return nullptr;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* value = find(key)) return *value;
  fail(ExitCode::usage, "JSON: no member '", key, "'");
}

std::string Json::dump(int indent) const {
  Writer writer(indent);
  if (is_object() || is_array()) {
    write(writer, *this);
  } else {
    std::visit(
        [&]<class T>(const T& v) {
          if constexpr (!std::is_same_v<T, Array> && !std::is_same_v<T, Object>) writer(v);
        },
        value_);
  }
  return std::move(writer.out);
}

Json Json::parse(std::string_view text) {
  return Parser(text).whole();
}

}  // namespace tandem
