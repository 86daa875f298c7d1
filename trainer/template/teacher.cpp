#include "trainer/template/teacher.h"

#include <algorithm>

#include "base/option.h"
#include "planner/loss/labels.h"
#include "planner/rewrite/append_graph.h"

namespace tandem {

Teacher::Teacher(std::string path, const ModelFile& file, const Graph& model) : path_(std::move(path)), file_(file) {
  std::vector<std::string> own, given;
  for (const ModelInput& input : file.inputs()) own.push_back(input.name);
  for (const ValueId in : model.inputs)
    if (model[in].role == ValueRole::plain) given.push_back(model[in].name);
  const auto there = [&](const std::string& name) { return std::find(given.begin(), given.end(), name) != given.end(); };
  by_place_ = !std::all_of(own.begin(), own.end(), there);
  if (by_place_ && own.size() != given.size())
    fail(ExitCode::usage, option("teacher"), " ", path_, ": it takes ", own.size(), own.size() == 1 ? " input" : " inputs", ", model '",
         model.name, "' ", given.size(), ", and their names differ: expected inputs of the model's names");
  for (std::size_t i = 0; i < own.size(); ++i) inputs_[own[i]] = by_place_ ? given[i] : own[i];
}

void Teacher::attach(Graph& model, ValueId student, std::int64_t samples, const std::map<std::string, std::int64_t>& dims,
                     const std::string& prefix) const {
  ImportOptions options{.batch = samples, .training = false};
  for (const ModelInput& input : file_.inputs())
    for (const ModelDim& dim : input.dims)
      if (const auto known = dims.find(dim.symbol); dim.size < 0 && known != dims.end()) options.dims[dim.symbol] = known->second;
  for (const InputForm& form : file_.input_forms(options))
    form.take_sizes(model[*model.find(inputs_.at(form.name))].type.shape, options.dims);
  Graph part;
  try {
    part = file_.graph(options);
  } catch (const Error& e) {
    fail(e.code(), option("teacher"), " ", path_, ": ", e.what());
  }
  std::map<std::string, ValueId> bound;
  for (const auto& [own, given] : inputs_) {
    const auto in = part.find(own);
    if (!in) continue;
    const ValueId value = *model.find(given);
    if (part[*in].type != model[value].type)
      fail(ExitCode::usage, option("teacher"), " ", path_, ": its input '", own, "' is ", part[*in].type, ", the model's '", given, "' is ",
           model[value].type);
    bound[own] = value;
  }
  const auto output = [&](const auto& fits) { return std::find_if(part.outputs.begin(), part.outputs.end(), fits); };
  auto out = output([&](const GraphOutput& o) { return part[o].name == model[student].name; });
  if (out == part.outputs.end()) out = output([&](const GraphOutput& o) { return is_float(part[o].type.dtype); });
  if (out == part.outputs.end()) fail(ExitCode::usage, option("teacher"), " ", path_, ": it has no output of floats");
  const ValueId scores = scores_behind(part, *out), own = scores_behind(model, student);
  if (part[scores].type.shape != model[own].type.shape)
    fail(ExitCode::usage, option("teacher"), " ", path_, ": its '", part[scores].name, "' is ", part[scores].type, ", the model's '",
         model[own].name, "' is ", model[own].type);
  part.outputs.assign(1, scores);
  const ValueId appended = append_graph(model, part, bound, prefix, false)[0];
  model[appended].role = ValueRole::teacher;
}

std::string Teacher::text(const std::string& student) const {
  std::string inputs, outputs;
  if (by_place_)
    for (const auto& [own, given] : inputs_)
      inputs += concat(inputs.empty() ? ": its inputs are the model's by their places, as their names differ: '" : ", '", own, "' is '",
                       given, '\'');
  const std::vector<std::string> names = file_.outputs();
  if (names.size() > 1 && std::find(names.begin(), names.end(), student) == names.end()) {
    for (const std::string& name : names) outputs += concat(outputs.empty() ? "'" : ", '", name, '\'');
    outputs = concat(inputs.empty() ? ": " : "; ", "its scores are its first output of floats, as none is called '", student, "' (it has ",
                     outputs, "; one that is cut at another takes that)");
  }
  return inputs.empty() && outputs.empty() ? "" : concat(path_, inputs, outputs);
}

}  // namespace tandem
