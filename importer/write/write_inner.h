// Weights that stand in a subgraph or a local function go back to their place in the file's message.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "importer/flat/flat_model.h"
#include "importer/write/export_external.h"

namespace tandem {

// `given`: the new value of a tensor by its name, or nothing.
void write_inner(const FlatModel& flat, const onnx::ModelProto& original, onnx::ModelProto& copy,
                 const std::function<std::optional<Tensor>(const std::string&)>& given, ExternalExport& external);
// Calls `f` with each tensor that a subgraph or a function holds: several times where several bodies call the function.
void each_inner(const FlatModel& flat, const std::function<void(const FlatInitializer&)>& f);

}  // namespace tandem
