// What names, attributes and opsets mean at one place of a model.
#pragma once
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "importer/flat/flat_model.h"
#include "tandem_onnx.pb.h"

namespace tandem {

inline std::string domain_of(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

// What a function's body, or the model's own graph, knows besides names.
struct Frame {
  std::string prefix;
  std::map<std::string, std::int64_t> opsets;
  std::map<std::string, const onnx::AttributeProto*> attributes;  // of the call
  std::vector<const onnx::FunctionProto*> calls;                  // from the model's graph to here

  Frame(std::string p, const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) : prefix(std::move(p)) {
    for (const auto& import : imports) opsets[domain_of(import.domain())] = import.version();
  }
  const onnx::AttributeProto* resolve(const onnx::AttributeProto& attribute) const {
    if (attribute.ref_attr_name().empty()) return &attribute;
    const auto it = attributes.find(attribute.ref_attr_name());
    return it == attributes.end() ? nullptr : it->second;
  }
};

// The names of a graph or function; a graph within another sees that one's too.
struct Scope {
  const Scope* outer = nullptr;
  std::unordered_map<std::string, Symbol> names;
  const Symbol* find(const std::string& name) const {
    for (const Scope* s = this; s; s = s->outer)
      if (const auto it = s->names.find(name); it != s->names.end()) return &it->second;
    return nullptr;
  }
};

}  // namespace tandem
