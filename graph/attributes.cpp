// Getters that say which attribute was missing or of another type, and the text by which plans and messages show attributes: there a
// tensor is told by its type and a hash of its bytes.
#include "graph/attributes.h"

#include "base/hash.h"

namespace tandem {
namespace {

template <class T>
const T* get(const std::map<std::string, AttributeValue, std::less<>>& map, std::string_view name) {
  const auto it = map.find(name);
  if (it == map.end()) return nullptr;
  const T* value = std::get_if<T>(&it->second);
  if (!value) fail("attribute '", name, "' has the wrong type: ", to_string(it->second));
  return value;
}

template <class T>
const T& require(const std::map<std::string, AttributeValue, std::less<>>& map, std::string_view name) {
  const T* value = get<T>(map, name);
  if (!value) fail("attribute '", name, "' is missing");
  return *value;
}

template <class List>
std::string list_text(const List& list) {
  std::string s = "[";
  for (const auto& item : list) {
    if (s.size() > 1) s += ',';
    s += text_of(item);
  }
  return s + "]";
}

// So that two different constants do not print alike.
std::string hash_text(std::span<const std::byte> bytes) {
  Hash hash;
  hash.add(bytes);
  return hash.text();
}

}  // namespace

void Attributes::erase(std::string_view name) {
  const auto it = map_.find(name);
  if (it != map_.end()) map_.erase(it);
}

const AttributeValue* Attributes::find(std::string_view name) const {
  const auto it = map_.find(name);
  return it == map_.end() ? nullptr : &it->second;
}

std::int64_t Attributes::integer(std::string_view name) const { return require<std::int64_t>(map_, name); }
std::int64_t Attributes::integer(std::string_view name, std::int64_t absent) const {
  const auto* v = get<std::int64_t>(map_, name);
  return v ? *v : absent;
}
float Attributes::real(std::string_view name) const { return require<float>(map_, name); }
float Attributes::real(std::string_view name, float absent) const {
  const auto* v = get<float>(map_, name);
  return v ? *v : absent;
}
const std::string& Attributes::text(std::string_view name) const { return require<std::string>(map_, name); }
std::string Attributes::text(std::string_view name, std::string_view absent) const {
  const auto* v = get<std::string>(map_, name);
  return v ? *v : std::string(absent);
}
const Ints& Attributes::ints(std::string_view name) const { return require<Ints>(map_, name); }
Ints Attributes::ints(std::string_view name, Ints absent) const {
  const auto* v = get<Ints>(map_, name);
  return v ? *v : std::move(absent);
}
const Floats& Attributes::floats(std::string_view name) const { return require<Floats>(map_, name); }
const Tensor& Attributes::tensor(std::string_view name) const { return require<Tensor>(map_, name); }

std::string to_string(const AttributeValue& value) {
  struct Visitor {
    std::string operator()(std::int64_t v) const { return text_of(v); }
    std::string operator()(float v) const { return text_of(static_cast<double>(v)); }
    std::string operator()(const std::string& v) const { return v; }
    std::string operator()(const Ints& v) const { return list_text(v); }
    std::string operator()(const Floats& v) const { return list_text(std::vector<double>(v.begin(), v.end())); }
    std::string operator()(const Strings& v) const { return list_text(v); }
    std::string operator()(const Tensor& v) const { return concat(v.type(), '#', hash_text(v.bytes())); }
  };
  return std::visit(Visitor{}, value);
}

std::string to_string(const Attributes& attributes) {
  std::string s;
  for (const auto& [name, value] : attributes) {
    if (!s.empty()) s += ' ';
    s += concat(name, '=', to_string(value));
  }
  return s;
}

}  // namespace tandem
