// A TensorProto keeps its values in one of several lists, in a string of bytes or in another file. All are read into one form, and
// written back into the one that the file had.
#include "importer/message/tensor_data.h"

#include <cstring>

#include "graph/small_types.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

// Element by element from one of TensorProto's lists, whose element type may be wider (int32_data holds int8).
template <class T, class List>
Tensor from_list(const TensorType& type, const List& list) {
  if (list.size() != type.shape.elements()) fail("has ", list.size(), " values, its shape ", type.shape, " takes ", type.shape.elements());
  Tensor tensor(type);
  auto* out = reinterpret_cast<T*>(tensor.write().data());
  for (int i = 0; i < list.size(); ++i) out[i] = static_cast<T>(list.Get(i));
  return tensor;
}

// int32_data holds as many elements of 4 and 2 bits as a byte does, and one of all others.
Tensor from_bytes(const TensorType& type, const google::protobuf::RepeatedField<std::int32_t>& list) {
  if (bits_of(type.dtype) == 6 || bits_of(type.dtype) == 8) {
    Tensor tensor = from_list<std::uint8_t>(type, list);
    const int unused = 8 - bits_of(type.dtype);
    for (std::byte& b : tensor.write()) b &= std::byte{0xff} >> unused;
    return tensor;
  }
  std::string bytes;
  for (const std::int32_t v : list) bytes += static_cast<char>(v);
  return unpacked(type, bytes);
}

Tensor from_typed(const TensorType& type, const onnx::TensorProto& p) {
  if (is_small(type.dtype)) return from_bytes(type, p.int32_data());
  switch (type.dtype) {
    case DType::float32: return from_list<float>(type, p.float_data());
    case DType::float64: return from_list<double>(type, p.double_data());
    case DType::int64: return from_list<std::int64_t>(type, p.int64_data());
    case DType::uint64: return from_list<std::uint64_t>(type, p.uint64_data());
    case DType::uint32: return from_list<std::uint32_t>(type, p.uint64_data());
    case DType::int32: return from_list<std::int32_t>(type, p.int32_data());
    case DType::int16: return from_list<std::int16_t>(type, p.int32_data());
    case DType::uint16:
    case DType::float16:
    case DType::bfloat16: return from_list<std::uint16_t>(type, p.int32_data());
    case DType::int8: return from_list<std::int8_t>(type, p.int32_data());
    case DType::uint8: return from_list<std::uint8_t>(type, p.int32_data());
    case DType::boolean: return from_list<bool>(type, p.int32_data());
    default: fail("holds ", name_of(type.dtype), " values, which are not supported");
  }
}

std::string_view field_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return "float_data";
    case DType::float64: return "double_data";
    case DType::int64: return "int64_data";
    case DType::uint32:
    case DType::uint64: return "uint64_data";
    default: return "int32_data";
  }
}

// Values stand in one field, and in one that their type has: of two nobody knows which are meant.
void check_fields(const onnx::TensorProto& p, DType dtype) {
  const std::pair<std::string_view, bool> fields[] = {
      {"external data", p.data_location() == onnx::TensorProto::EXTERNAL}, {"raw_data", !p.raw_data().empty()},
      {"float_data", p.float_data_size() > 0}, {"double_data", p.double_data_size() > 0}, {"int32_data", p.int32_data_size() > 0},
      {"int64_data", p.int64_data_size() > 0}, {"uint64_data", p.uint64_data_size() > 0}, {"string_data", p.string_data_size() > 0}};
  std::string_view first;
  for (const auto& [name, filled] : fields) {
    if (!filled) continue;
    if (!first.empty()) fail("has values in two places, ", first, " and ", name);
    first = name;
    if (name.ends_with("_data") && name != "raw_data" && name != field_of(dtype))
      fail("has its values in ", name, ", those of ", name_of(dtype), " stand in ", field_of(dtype), " or raw_data");
  }
}

template <class T, class List>
void to_list(const Tensor& tensor, List* list) {
  const auto* in = reinterpret_cast<const T*>(tensor.bytes().data());
  list->Reserve(static_cast<int>(tensor.elements()));
  for (std::int64_t i = 0; i < tensor.elements(); ++i) list->Add(in[i]);
}

}  // namespace

std::int64_t bytes_in_file(const TensorType& type) {
  const std::int64_t bytes = bytes_of(type), bits = bits_of(type.dtype);
  return bits >= 8 ? bytes : bytes / 8 * bits + (bytes % 8 * bits + 7) / 8;
}

std::string packed(const Tensor& tensor) {
  const auto from = tensor.bytes();
  const int bits = bits_of(tensor.dtype());
  std::string bytes(static_cast<std::size_t>(bytes_in_file(tensor.type())), '\0');
  for (std::size_t i = 0, at = 0; i < from.size(); ++i, at += static_cast<std::size_t>(bits)) {
    const unsigned field = (std::to_integer<unsigned>(from[i]) & ((1U << bits) - 1U)) << (at % 8);
    bytes[at / 8] = static_cast<char>(bytes[at / 8] | static_cast<char>(field));
    if (field > 0xff) bytes[at / 8 + 1] = static_cast<char>(field >> 8);
  }
  return bytes;
}

Tensor unpacked(const TensorType& type, std::string_view bytes) {
  const auto wanted = static_cast<std::size_t>(bytes_in_file(type));
  if (bytes.size() != wanted) fail("has ", bytes.size(), " bytes, its type ", type, " takes ", wanted);
  Tensor tensor(type);
  const auto to = tensor.write();
  const int bits = bits_of(type.dtype);
  if (bits >= 8 && wanted > 0) std::memcpy(to.data(), bytes.data(), wanted);
  for (std::size_t i = 0, at = 0; bits < 8 && i < to.size(); ++i, at += static_cast<std::size_t>(bits)) {
    unsigned field = static_cast<unsigned char>(bytes[at / 8]) >> (at % 8);
    if (at % 8 + static_cast<std::size_t>(bits) > 8)
      field |= static_cast<unsigned>(static_cast<unsigned char>(bytes[at / 8 + 1])) << (8 - at % 8);
    to[i] = std::byte{is_small_integer(type.dtype) ? low_bits(field, type.dtype) : static_cast<std::uint8_t>(field & ((1U << bits) - 1U))};
  }
  if (type.dtype == DType::boolean)
    for (std::byte& b : to) b = std::byte{b != std::byte{0}};  // any other byte is no bool
  return tensor;
}

DataForm form_of(const onnx::TensorProto& p) {
  if (const std::string* own = own_location(p)) return *own == own_raw ? DataForm::raw : DataForm::typed;
  if (p.data_location() == onnx::TensorProto::EXTERNAL) return DataForm::external;
  if (!p.raw_data().empty()) return DataForm::raw;
  const bool typed = p.float_data_size() || p.double_data_size() || p.int32_data_size() || p.int64_data_size() || p.uint64_data_size() ||
                     p.string_data_size();
  return typed ? DataForm::typed : DataForm::none;
}

TensorType type_of(const onnx::TensorProto& proto) {
  TensorType type{static_cast<DType>(proto.data_type()), Shape(std::vector<std::int64_t>(proto.dims().begin(), proto.dims().end()))};
  const std::size_t size = size_of(type.dtype);
  if (size == 0) fail("has element type ", proto.data_type(), " (", name_of(type.dtype), "), which is not supported");
  for (const std::int64_t d : type.shape)
    if (d < 0) fail("has a negative dimension in its shape ", type.shape);
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(type.shape.elements(), static_cast<std::int64_t>(size), &bytes))
    fail("its shape ", type.shape, " takes more bytes than fit in 63 bits");
  return type;
}

std::optional<Tensor> tensor_of(const onnx::TensorProto& proto, ExternalData& external) {
  if (proto.has_segment()) fail("is stored in segments, which are not supported");
  const TensorType type = type_of(proto);
  check_fields(proto, type.dtype);
  if (own_location(proto)) return external.read(proto, type);
  switch (form_of(proto)) {
    case DataForm::external: return external.read(proto, type);
    case DataForm::raw: return unpacked(type, proto.raw_data());
    case DataForm::typed: return from_typed(type, proto);
    case DataForm::none: break;
  }
  if (type.shape.elements() == 0) return Tensor(type);
  return std::nullopt;
}

void store(const Tensor& tensor, DataForm form, onnx::TensorProto& proto) {
  clear_values(proto);
  if (form == DataForm::typed && tensor.dtype() == DType::float32) {
    to_list<float>(tensor, proto.mutable_float_data());
  } else if (form == DataForm::typed && tensor.dtype() == DType::float64) {
    to_list<double>(tensor, proto.mutable_double_data());
  } else if (form == DataForm::typed && (tensor.dtype() == DType::float16 || tensor.dtype() == DType::bfloat16)) {
    to_list<std::uint16_t>(tensor, proto.mutable_int32_data());
  } else if (form == DataForm::typed) {
    fail("tensor '", proto.name(), "' of ", tensor.type(), " is no weight");
  } else {
    if (bits_of(tensor.dtype()) < 8) proto.set_raw_data(packed(tensor));
    else
      proto.mutable_raw_data()->assign(reinterpret_cast<const char*>(tensor.bytes().data()),
                                       tensor.bytes().size());  // set_raw_data copies twice
  }
}

void clear_values(onnx::TensorProto& proto) {
  if (own_location(proto)) {
    proto.clear_external_data();
    proto.clear_data_location();
  }
  // Swapped with an empty one: Clear() would keep the memory.
  std::string().swap(*proto.mutable_raw_data());
  proto.clear_raw_data();
  google::protobuf::RepeatedField<float>().Swap(proto.mutable_float_data());
  google::protobuf::RepeatedField<double>().Swap(proto.mutable_double_data());
  google::protobuf::RepeatedField<std::int32_t>().Swap(proto.mutable_int32_data());
}

}  // namespace tandem
