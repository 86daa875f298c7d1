// Between ONNX's TensorProto and our Tensor.
#pragma once
#include <optional>

#include "graph/tensor.h"
#include "importer/message/external_data.h"
#include "importer/message/onnx_messages.h"

namespace tandem {

enum class DataForm { none, raw, typed, external };  // where a TensorProto keeps its values; none: dims only
DataForm form_of(const onnx::TensorProto& proto);

// Bytes of the values as raw or external data: elements of fewer than 8 bits stand one behind the other, the first in the lowest bits.
std::int64_t bytes_in_file(const TensorType& type);
std::string packed(const Tensor& tensor);  // of fewer than 8 bits
Tensor unpacked(const TensorType& type, std::string_view bytes);  // fails where they are not as many as the type takes

// Type and shape; fails for negative or overflowing dims and for element types without a fixed size.
TensorType type_of(const onnx::TensorProto& proto);
// The values, or nothing for dims only. Fails where they are not exactly as many as the dims say.
std::optional<Tensor> tensor_of(const onnx::TensorProto& proto, ExternalData& external);

// Puts values into a proto of the same type, in the form asked for (raw or typed); the rest of it stays.
void store(const Tensor& tensor, DataForm form, onnx::TensorProto& proto);
void clear_values(onnx::TensorProto& proto);

inline bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

}  // namespace tandem
