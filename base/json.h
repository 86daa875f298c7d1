// JSON: written for people and programs on stdout, read back from a run's config.json and its checkpoints. Text is made and
// taken apart by nlohmann-json, in json.cpp alone; these values are what the rest sees, with errors that say what was wanted.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tandem {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // in the order written
  using Value = std::variant<std::monostate, bool, double, std::int64_t, std::string, Array, Object>;

  Json() = default;  // null
  Json(bool v) : value_(v) {}
  Json(double v) : value_(v) {}
  Json(std::int64_t v) : value_(v) {}
  Json(int v) : value_(std::int64_t{v}) {}
  Json(std::size_t v) : value_(static_cast<std::int64_t>(v)) {}
  Json(std::string v) : value_(std::move(v)) {}
  Json(std::string_view v) : value_(std::string(v)) {}
  Json(const char* v) : value_(std::string(v)) {}
  Json(Array v) : value_(std::move(v)) {}
  Json(Object v) : value_(std::move(v)) {}
  template <class T>
  Json(const std::vector<T>& v) : value_(Array(v.begin(), v.end())) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  // Each fails (usage) where the value is of another kind.
  bool boolean() const;
  double number() const;
  std::int64_t integer() const;
  const std::string& text() const;
  const Array& array() const;
  const Object& object() const;
  const Json* find(std::string_view key) const;  // null where absent
  const Json& at(std::string_view key) const;    // fails (usage) where absent

  const Value& value() const { return value_; }

  // One line where indent < 0. Numbers that are not finite become null. Text that is no UTF-8 is written by as_text, hidden
  // characters (base/printable.h) as \uNNNN.
  std::string dump(int indent = -1) const;
  // Fails (usage) naming the byte, or the member that is there twice. Whole numbers beyond int64 become real ones; those
  // beyond double, text that is no UTF-8 and nesting beyond 64 levels are refused.
  static Json parse(std::string_view text);

 private:
  Value value_;
};

}  // namespace tandem
