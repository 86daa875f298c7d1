#include "trainer/template/graph_file.h"

#include <algorithm>
#include <cctype>

#include "graph/operator.h"
#include "planner/rewrite/append_graph.h"

namespace tandem {
namespace {

constexpr std::string_view label_words[] = {"label", "labels", "target", "targets", "y", "ytrue", "t", "truth", "groundtruth"};
constexpr std::string_view weight_words[] = {"weight", "weights", "sampleweight", "sampleweights"};

std::string plain(std::string_view word) {
  std::string text;
  for (const unsigned char c : word)
    if (std::isalnum(c)) text += static_cast<char>(std::tolower(c));
  return text;
}

template <class Words>
bool is_one_of(std::string_view name, const Words& words) {
  return std::find(std::begin(words), std::end(words), plain(name)) != std::end(words);
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += concat(text.empty() ? "'" : ", '", name, '\'');
  return text;
}

bool is_output(const Graph& model, std::string_view name) {
  return std::any_of(model.outputs.begin(), model.outputs.end(), [&](const GraphOutput& out) { return model[out].name == name; });
}

}  // namespace

bool is_graph_file(std::string_view name) { return name.ends_with(".onnx"); }

GraphFile::GraphFile(std::string path, const ModelFile& file, const Graph& model, const std::string& on)
    : path_(std::move(path)), file_(file) {
  std::vector<FileInput*> open;
  bool taken = false;  // what the loss stands on
  for (const ModelInput& input : file.inputs()) inputs_.push_back({.name = input.name, .of = FileInput::Of::value, .value = {}});
  for (FileInput& input : inputs_) {
    if (is_output(model, input.name))
      input.value = input.name;
    else if (is_one_of(input.name, label_words))
      input.of = FileInput::Of::labels;
    else if (is_one_of(input.name, weight_words))
      input.of = FileInput::Of::weights;
    else
      open.push_back(&input);
    taken = taken || input.value == on;
  }
  if (open.size() == 1 && !taken) {
    open[0]->value = on;
    open.clear();
  }
  for (FileInput* const input : open)
    if (model.find(input->name)) input->value = input->name;
  std::erase_if(open, [](const FileInput* input) { return !input->value.empty(); });
  for (const FileInput::Of kind : {FileInput::Of::labels, FileInput::Of::weights})
    if (std::count_if(inputs_.begin(), inputs_.end(), [&](const FileInput& i) { return i.of == kind; }) > 1)
      fail(ExitCode::usage, path_, ": several of its inputs go by names of ", kind == FileInput::Of::labels ? "labels" : "samples' weights",
           ", expected one");
  if (open.empty()) return;
  std::vector<std::string> names, outputs;
  for (const FileInput* input : open) names.push_back(input->name);
  for (const GraphOutput& out : model.outputs) outputs.push_back(model[out].name);
  fail(ExitCode::usage, path_, ": nothing of model '", model.name, "' goes by the name of its ", names.size() == 1 ? "input " : "inputs ",
       list(names), "; expected an output (", list(outputs),
       ") or another value of the model, labels (called label, labels, target, y_true, ...) or weights of samples (sample_weights)");
}

const FileInput* GraphFile::of(FileInput::Of kind) const {
  const auto it = std::find_if(inputs_.begin(), inputs_.end(), [&](const FileInput& i) { return i.of == kind; });
  return it == inputs_.end() ? nullptr : &*it;
}

Graph GraphFile::graph(const Graph& model, std::int64_t samples, const std::map<std::string, std::int64_t>& dims) const {
  ImportOptions options{.batch = samples, .training = false};
  for (const ModelInput& input : file_.inputs())
    for (std::size_t axis = 1; axis < input.dims.size(); ++axis)
      for (const std::string& name : {input.dims[axis].symbol, concat(input.name, ':', axis)})
        if (const auto given = dims.find(name); !name.empty() && given != dims.end()) options.dims[name] = given->second;
  for (const InputForm& form : file_.input_forms(options)) {
    const auto input = std::find_if(inputs_.begin(), inputs_.end(), [&](const FileInput& i) { return i.name == form.name; });
    const std::optional<ValueId> value = input->of == FileInput::Of::value ? model.find(input->value) : std::nullopt;
    if (value) form.take_sizes(model[*value].type.shape, options.dims);
  }
  Graph graph;
  try {
    graph = file_.graph(options);
  } catch (const Error& e) {
    fail(e.code(), path_, ", read beside model '", model.name, "': ", e.what());
  }
  for (const FileInput& input : inputs_) {
    const auto in = graph.find(input.name);
    if (!in) continue;  // nothing reads it
    const Value& wants = graph[*in];
    if (input.of != FileInput::Of::value) {
      if (wants.type.shape.rank() == 0 || wants.type.shape[0] != samples)
        fail(ExitCode::usage, path_, ": its input '", input.name, "' is ", wants.type, " for ", samples,
             " samples, expected a row for each");
      continue;
    }
    const Value& value = model[*model.find(input.value)];
    const bool casts = is_float(value.type.dtype) && is_float(wants.type.dtype);
    if (value.type.shape != wants.type.shape || (value.type.dtype != wants.type.dtype && !casts))
      fail(ExitCode::usage, path_, ": its input '", input.name, "' is ", wants.type, " for ", samples, " samples, the model's '",
           input.value, "' is ", value.type);
  }
  if (graph.outputs.empty() || !is_float(graph[graph.outputs[0]].type.dtype))
    fail(ExitCode::usage, path_, ": its first output is not floating point");
  return graph;
}

ValueId GraphFile::attach(Graph& model, std::int64_t samples, const std::map<std::string, std::int64_t>& dims, const std::string& output,
                          const std::string& prefix, bool in_steps) const {
  const Graph part = graph(model, samples, dims);
  GraphBuilder b(model, prefix, {});
  const auto row_input = [&](const std::string& name, const TensorType& type, ValueRole role, const std::string& of = {}) {
    const ValueId in = b.input(name, type, role, of);
    model[in].batch = {.axis = 0};
    return in;
  };
  const auto as = [&](ValueId v, const TensorType& type) {
    if (b.type(v).dtype != type.dtype) v = b.emit("Cast", {v}, {{"to", static_cast<std::int64_t>(type.dtype)}});
    return b.reshape(v, type.shape);
  };
  const bool one_number = !part[part.outputs[0]].batch.present();
  const auto weights = [&] {
    const ValueId given = row_input("sample_weights", {DType::float32, Shape{samples}}, ValueRole::sample_weight);
    if (!in_steps || !one_number) return given;
    const ValueId none = b.emit("Equal", {b.reduce_sum(given, {0}, false), b.scalar(0, DType::float32)});
    return b.add(given, as(none, {DType::float32, Shape{}}));
  };
  std::map<std::string, ValueId> bound;
  DType dtype = DType::float32;
  for (const FileInput& input : inputs_) {
    const auto in = part.find(input.name);
    if (!in) continue;
    const TensorType& type = part[*in].type;
    if (input.of == FileInput::Of::labels) {
      bound[input.name] = row_input(output.empty() ? "labels" : concat("labels/", output), type, ValueRole::label, output);
    } else if (input.of == FileInput::Of::weights) {
      bound[input.name] = as(weights(), type);
    } else {
      const ValueId value = *model.find(input.value);
      if (is_float(b.type(value).dtype)) dtype = b.type(value).dtype;
      bound[input.name] = as(value, type);
    }
  }
  const BatchPlace place = part[part.outputs[0]].batch;
  const ValueId given = append_graph(model, part, bound, prefix, true)[0];
  const ValueId result = as(given, {dtype, model[given].type.shape});
  model[result].batch = place;
  model.warnings.insert(model.warnings.end(), part.warnings.begin(), part.warnings.end());
  return result;
}

std::string GraphFile::text() const {
  std::string text;
  for (const FileInput& input : inputs_) {
    text += concat(text.empty() ? ": its input '" : ", '", input.name, text.empty() ? "' is " : "' ");
    text += input.of == FileInput::Of::labels    ? "the labels"
            : input.of == FileInput::Of::weights ? "the samples' weights"
                                                 : concat("the model's '", input.value, '\'');
  }
  return path_ + text;
}

}  // namespace tandem
