// Old files leave an attribute's type out; then the field that is filled tells it.
#include "importer/message/attribute_values.h"

#include "importer/message/tensor_data.h"
#include "tandem_onnx.pb.h"

namespace tandem {

using Proto = onnx::AttributeProto;

AttributeType type_of(const Proto& a) {
  if (a.type() != Proto::UNDEFINED) return a.type();
  if (a.has_f()) return Proto::FLOAT;
  if (a.has_i()) return Proto::INT;
  if (a.has_s()) return Proto::STRING;
  if (a.has_t()) return Proto::TENSOR;
  if (a.has_g()) return Proto::GRAPH;
  if (a.floats_size()) return Proto::FLOATS;
  if (a.ints_size()) return Proto::INTS;
  if (a.strings_size()) return Proto::STRINGS;
  if (a.graphs_size()) return Proto::GRAPHS;
  return Proto::UNDEFINED;
}

namespace {

// A field besides that of the attribute's type may mean anything. Its own may be left out: writers that know no presence omit zeros.
void check_fields(const Proto& a, AttributeType type) {
  const struct {
    AttributeType type;
    const char* name;
    bool filled;
  } fields[] = {{Proto::FLOAT, "f", a.has_f()},
                {Proto::INT, "i", a.has_i()},
                {Proto::STRING, "s", a.has_s()},
                {Proto::TENSOR, "t", a.has_t()},
                {Proto::GRAPH, "g", a.has_g()},
                {Proto::FLOATS, "floats", a.floats_size() > 0},
                {Proto::INTS, "ints", a.ints_size() > 0},
                {Proto::STRINGS, "strings", a.strings_size() > 0},
                {Proto::TENSORS, "tensors", a.tensors_size() > 0},
                {Proto::GRAPHS, "graphs", a.graphs_size() > 0}};
  const char* own = "";
  for (const auto& field : fields)
    if (field.type == type) own = field.name;
  for (const auto& field : fields)
    if (field.filled && field.type != type)
      fail("attribute '", a.name(), "' has a value in '", field.name, "', its type takes one in '", own, "' alone");
}

}  // namespace

AttributeValue AttributeReader::read(const Proto& a) {
  check_fields(a, type_of(a));
  switch (type_of(a)) {
    case Proto::FLOAT: return a.f();
    case Proto::INT: return static_cast<std::int64_t>(a.i());
    case Proto::STRING: return a.s();
    case Proto::FLOATS: return Floats(a.floats().begin(), a.floats().end());
    case Proto::INTS: return Ints(a.ints().begin(), a.ints().end());
    case Proto::STRINGS: return Strings(a.strings().begin(), a.strings().end());
    case Proto::TENSOR: break;
    default: fail("attribute '", a.name(), "' has type ", static_cast<int>(type_of(a)), ", which is not supported");
  }
  const auto known = tensors_.find(&a);
  if (known != tensors_.end()) return known->second;
  try {
    const std::optional<Tensor> tensor = tensor_of(a.t(), external_);
    if (!tensor) fail("has no values");
    return tensors_.emplace(&a, *tensor).first->second;
  } catch (const Error& error) {
    fail("attribute '", a.name(), "': the tensor ", error.what());
  }
}

}  // namespace tandem
