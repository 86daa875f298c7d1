// From bytes to ONNX's own message, within the limits of limits.h.
#pragma once
#include <filesystem>
#include <string>

#include "importer/message/onnx_messages.h"

namespace tandem {

// Fails (model) where the bytes are no ONNX model of a known kind, or nest or rank beyond the limits.
onnx::ModelProto parse_model(const std::string& bytes);

}  // namespace tandem
