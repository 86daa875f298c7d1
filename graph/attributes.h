// A node's attributes, by ONNX's names.
#pragma once
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "graph/tensor.h"

namespace tandem {

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Strings = std::vector<std::string>;
using AttributeValue = std::variant<std::int64_t, float, std::string, Ints, Floats, Strings, Tensor>;

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, AttributeValue>> list) : map_(list) {}

  bool has(std::string_view name) const { return map_.find(name) != map_.end(); }
  void set(std::string name, AttributeValue value) { map_.insert_or_assign(std::move(name), std::move(value)); }
  void erase(std::string_view name);
  // Each getter fails where the attribute is there with another type; the plain ones also where it is absent.
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t absent) const;
  float real(std::string_view name) const;
  float real(std::string_view name, float absent) const;
  const std::string& text(std::string_view name) const;
  std::string text(std::string_view name, std::string_view absent) const;
  const Ints& ints(std::string_view name) const;
  Ints ints(std::string_view name, Ints absent) const;
  const Floats& floats(std::string_view name) const;
  const Tensor& tensor(std::string_view name) const;
  const AttributeValue* find(std::string_view name) const;

  auto begin() const { return map_.begin(); }
  auto end() const { return map_.end(); }
  bool empty() const { return map_.empty(); }

 private:
  std::map<std::string, AttributeValue, std::less<>> map_;
};

std::string to_string(const AttributeValue& value);
std::string to_string(const Attributes& attributes);  // "axis=1 pads=[0,0,0,0]"; tensors by type and a hash

}  // namespace tandem
