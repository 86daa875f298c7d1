// The library is included here alone: it takes three seconds to compile.
#include "base/json.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <unordered_set>

#include "base/error.h"
#include "base/library_versions.h"
#include "base/printable.h"

namespace tandem {
namespace {

using Library = nlohmann::ordered_json;

constexpr std::size_t depth_limit = 64;

// Makes values of what the library's parser finds. Its own values would take the last of two members of one name in silence.
class Builder final : public nlohmann::json_sax<Library> {
 public:
  Json take() { return std::move(whole_); }

  bool null() override { return put({}); }
  bool boolean(bool v) override { return put(v); }
  bool number_integer(number_integer_t v) override { return put(std::int64_t{v}); }
  bool number_unsigned(number_unsigned_t v) override {
    return v > std::numeric_limits<std::int64_t>::max() ? put(static_cast<double>(v)) : put(static_cast<std::int64_t>(v));
  }
  bool number_float(number_float_t v, const string_t&) override { return put(v); }
  bool string(string_t& v) override { return put(std::move(v)); }
  bool binary(binary_t&) override { return false; }  // no JSON has it
  bool start_array(std::size_t) override { return open(false); }
  bool start_object(std::size_t) override { return open(true); }
  bool key(string_t& v) override {
    if (!open_.back().keys.insert(v).second) fail(ExitCode::usage, "JSON: member '", v, "' is there twice");
    open_.back().key = std::move(v);
    return true;
  }
  bool end_array() override { return close(); }
  bool end_object() override { return close(); }
  bool parse_error(std::size_t byte, const std::string&, const Library::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 7: what is wrong; last read: ..."
    std::string what = e.what();
    what.erase(0, what.find("] ") + 2);
    if (what.starts_with("parse error at ")) what.erase(0, what.find(": ") + 2);
    if (what.size() > 200) what = what.substr(0, what.find("; last read")).substr(0, 200);
    fail(ExitCode::usage, "JSON, byte ", byte > 0 ? byte - 1 : 0, ": ", what);
  }

 private:
  struct Open {
    bool object;
    Json::Array items;
    Json::Object members;
    std::string key;  // of the member that comes
    std::unordered_set<std::string> keys;
  };
  bool put(Json value) {
    if (open_.empty())
      whole_ = std::move(value);
    else if (Open& in = open_.back(); in.object)
      in.members.emplace_back(std::move(in.key), std::move(value));
    else
      in.items.push_back(std::move(value));
    return true;
  }
  bool open(bool object) {
    if (open_.size() > depth_limit) fail(ExitCode::usage, "JSON: nested too deeply, beyond ", depth_limit, " levels");
    open_.push_back({.object = object});
    return true;
  }
  bool close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    return put(done.object ? Json(std::move(done.members)) : Json(std::move(done.items)));
  }
  std::vector<Open> open_;
  Json whole_;
};

template <class T, class Value>
const T& get(const Value& value, std::string_view kind) {
  if (const T* v = std::get_if<T>(&value)) return *v;
  fail(ExitCode::usage, "JSON: expected ", kind);
}

struct ToLibrary {
  Library operator()(const Json& v) const { return std::visit(*this, v.value()); }
  Library operator()(std::monostate) const { return nullptr; }
  // Whole numbers are written as such: 1, not 1.0.
  Library operator()(double v) const {
    const bool whole = std::trunc(v) == v && std::abs(v) < 0x1p53 && !(v == 0 && std::signbit(v));
    return whole ? Library(static_cast<std::int64_t>(v)) : Library(v);
  }
  Library operator()(const Json::Array& items) const {
    Library list = Library::array();
    for (const Json& item : items) list.push_back((*this)(item));
    return list;
  }
  Library operator()(const Json::Object& members) const {
    Library::object_t object;
    for (const auto& [name, value] : members) object.emplace_back(text(name), (*this)(value));
    return object;
  }
  Library operator()(const std::string& v) const { return text(v); }
  template <class T>
  Library operator()(const T& v) const {
    return v;
  }

 private:
  static std::string text(const std::string& v) { return is_utf8(v) ? v : as_text(v); }
};

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
  return printable_json(ToLibrary()(*this).dump(indent));
}

LibraryVersion json_library() {
  return {"nlohmann/json", concat(NLOHMANN_JSON_VERSION_MAJOR, '.', NLOHMANN_JSON_VERSION_MINOR, '.', NLOHMANN_JSON_VERSION_PATCH)};
}

Json Json::parse(std::string_view text) {
  Builder builder;
  Library::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace tandem
