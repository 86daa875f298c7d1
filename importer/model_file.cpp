// Reads the message, flattens it (inline_functions.cpp) and keeps both: graphs are built from the flat model, and the message is what
// goes out again with other weights (writer.cpp).
#include "importer/model_file.h"

#include <algorithm>

#include "base/hash.h"
#include "base/memory.h"
#include "base/option.h"
#include "importer/batch/bind_inputs.h"
#include "importer/batch/samples_first.h"
#include "importer/build/build_graph.h"
#include "importer/build/drop_unread.h"
#include "importer/build/recognise_batch_normalization.h"
#include "importer/build/report.h"
#include "importer/build/settle_batch_normalization.h"
#include "importer/edit/cut_model.h"
#include "importer/edit/replace_head.h"
#include "importer/lora/lora.h"
#include "importer/message/device_configurations.h"
#include "importer/message/reader.h"
#include "importer/message/skeleton.h"
#include "importer/message/signature.h"
#include "importer/message/tensor_data.h"
#include "importer/model_file_impl.h"
#include "importer/weights/flatten.h"
#include "importer/weights/tie_weights.h"
#include "importer/weights/untie.h"

namespace tandem {
namespace {

// Values that the flat model holds need not be held twice: the writer puts them back.
std::vector<DataForm> take_values(onnx::GraphProto& graph, const FlatModel& flat, ExternalData& external,
                                  std::map<std::string, Tensor>& unread) {
  std::map<std::string, const FlatInitializer*> kept;
  for (const FlatInitializer& i : flat.main.initializers)
    if (i.data && !i.home && is_float(i.type.dtype)) kept[flat.name(i.symbol)] = &i;
  std::vector<DataForm> forms;
  for (auto& tensor : *graph.mutable_initializer()) {
    const DataForm form = form_of(tensor);
    const bool held = kept.contains(tensor.name()), own = own_location(tensor);
    const bool taken = own || (held && (form == DataForm::raw || form == DataForm::typed));
    if (own && !held) unread[tensor.name()] = external.read(tensor, type_of(tensor));
    forms.push_back(taken ? form : DataForm::none);
    if (taken) clear_values(tensor);
  }
  return forms;
}

// With the tensors told apart that the user, or the file's own values, say were merged.
FlatModel flatten_untied(onnx::ModelProto& proto, std::int64_t bytes, ExternalData& external, const WeightOptions& weights) {
  const auto count = [](int added) { return concat(added, added == 1 ? " initializer" : " initializers"); };
  const bool as_in_file = weights.untie == std::vector<std::string>{"none"};
  const int asked = as_in_file ? 0 : untie(proto, external, weights.untie);
  FlatModel flat = flatten(proto, bytes, external, weights);
  if (asked > 0) flat.warnings.push_back(concat(option("untie"), ": the trained model has ", count(asked), " besides the template's"));
  if (!weights.untie.empty()) return flat;
  if (const std::vector<Merged> merged = merged_by_calls(flat); !merged.empty()) {
    const int added = untie(proto, external, merged, flat.signature);
    flat = flatten(proto, bytes, external, weights);
    std::vector<std::string> names;
    for (const Merged& m : merged)
      if (const std::string name = concat('\'', m.tensor, '\''); std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
    flat.warnings.push_back(concat("the exporter kept one of several parameters that are equal, by the notes of the calls that read ",
                                   listed(names), ": each trains its own (", count(added), " more in the trained model); ", option("untie"),
                                   " none trains them as one"));
  }
  const std::vector<std::string> merged = merged_by_exporter(flat);
  if (merged.empty()) return flat;
  const int added = untie(proto, external, merged);
  flat = flatten(proto, bytes, external, weights);
  flat.warnings.push_back(concat("read by several nodes, all values alike: ", listed(merged),
                                 "; taken for merged by the exporter, since no matrix is shared: each reader trains its own (",
                                 count(added), " more in the trained model); ", option("untie"), " none trains them as one"));
  return flat;
}

// Types of outputs that the file does not declare, where the graph tells them.
void declare_outputs(onnx::GraphProto& graph, const FlatModel& flat) {
  const BatchReading reading = batch_readings(flat.inputs, {})[0];
  std::string batch_name;
  for (std::size_t i = 0; i < flat.inputs.size() && batch_name.empty(); ++i)
    if (reading.axes[i] >= 0) batch_name = flat.inputs[i].dims[static_cast<std::size_t>(reading.axes[i])].symbol;
  std::vector<BuiltGraph> built;
  for (const std::int64_t batch : reading.symbolic ? std::vector<std::int64_t>{2, 3} : std::vector<std::int64_t>{0}) {
    built.push_back(build_followed(flat, {.batch = batch, .training = false, .keep_halves = true}));
    if (!built.back().problems.empty()) return;
  }
  for (int i = 0; i < graph.output_size(); ++i) {
    if (graph.output(i).has_type()) continue;
    const auto symbol = static_cast<std::size_t>(flat.main.outputs[static_cast<std::size_t>(i)].index);
    auto& type = *graph.mutable_output(i)->mutable_type()->mutable_tensor_type();
    const TensorType &first = built.front().graph[built.front().values[symbol]].type,
                     &last = built.back().graph[built.back().values[symbol]].type;
    type.set_elem_type(static_cast<int>(first.dtype));
    for (int d = 0; d < first.shape.rank(); ++d) {
      auto& dim = *type.mutable_shape()->add_dim();
      if (first.shape[d] == last.shape[d])
        dim.set_dim_value(first.shape[d]);
      else if (first.shape[d] == 2 && !batch_name.empty())
        dim.set_dim_param(batch_name);
    }
  }
}

}  // namespace

ModelFile::ModelFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelFile::~ModelFile() = default;
ModelFile::ModelFile(ModelFile&&) noexcept = default;
ModelFile& ModelFile::operator=(ModelFile&&) noexcept = default;

ModelFile ModelFile::read(const std::filesystem::path& path, const WeightOptions& weights) {
  auto file = std::make_shared<InputFile>(path, ExitCode::model);
  try {
    return within_memory(
        [&] {
          ExternalData external(path);
          onnx::ModelProto message = read_model(file, external);
          return ModelFile(std::make_unique<Impl>(std::move(message), file->size(), std::move(external), path, weights));
        },
        "reading it");
  } catch (const Error& error) {
    if (error.code() != ExitCode::model && error.code() != ExitCode::device) throw;
    fail(error.code(), "'", path.string(), "': ", error.what());
  }
}

ModelFile ModelFile::parse(const std::string& bytes, const std::filesystem::path& folder, const WeightOptions& weights) {
  return ModelFile(std::make_unique<Impl>(parse_model(bytes), std::ssize(bytes), ExternalData::beside(folder), "", weights));
}

ModelFile::Impl::Impl(onnx::ModelProto message, std::int64_t bytes, ExternalData data, std::filesystem::path file,
                      const WeightOptions& weights)
    : path(std::move(file)), external(std::move(data)), proto(std::move(message)) {
  try {
    step = training_step_of(proto, external);
    if (step && step->loss == "output" && weights.own_loss) loss = add_loss(proto, *step);
  } catch (const Error& e) {
    step_problem = e.what();
  }
  std::string cut, changed;
  if (!weights.outputs.empty()) cut = cut_model(proto, weights.outputs);
  WeightOptions rules = weights;
  if (weights.head) {
    NewHead made = replace_head(proto, *weights.head, weights.replace_head);
    head = std::move(made.names);
    rules.trainable.insert(rules.trainable.end(), head.begin(), head.end());  // where all others are Constant nodes, too
    changed = std::move(made.line);
  } else if (!weights.replace_head.empty()) {
    fail(ExitCode::usage, option("replace_head"), " needs ", option("head"), ", the number of classes");
  }
  std::string adapted;
  if (weights.lora && !(weights.tie.empty() && weights.untie.empty()))
    fail(ExitCode::usage, option("lora"), " does not go with ", option("tie"), " or ", option("untie"),
         ": train with those first, and with adapters after that");
  if (weights.lora) lora = add_adapters(proto, *weights.lora, head, adapted);
  WeightOptions with_adapters = rules;
  for (const LoraAdapter& adapter : lora.adapters) with_adapters.trainable.insert(with_adapters.trainable.end(), {adapter.a, adapter.b});
  flat = flatten_untied(proto, bytes, external, with_adapters);
  for (TemplateTensor& t : flat.tensors)
    for (const LoraAdapter& adapter : lora.adapters)
      if (t.name == adapter.a || t.name == adapter.b) t.reason = concat("an adapter of '", adapter.weight, "'");
  if (!cut.empty()) declare_outputs(*proto.mutable_graph(), flat);
  if (!cut.empty()) flat.warnings.push_back(cut);
  if (!changed.empty()) flat.warnings.push_back(changed);
  if (!adapted.empty()) flat.warnings.push_back(adapted);
  forms = take_values(*proto.mutable_graph(), flat, external, unread);
  for (const auto& entry : proto.metadata_props()) metadata.emplace(entry.key(), entry.value());
  std::set<const void*> held;
  for (const FlatInitializer& i : flat.main.initializers)
    if (i.data) held.insert(i.data->identity());
  graphs.hold(std::move(held));
  external.release();
}

const std::string& ModelFile::name() const {
  return impl_->proto.graph().name();
}
std::int64_t ModelFile::ir_version() const {
  return impl_->proto.ir_version();
}
const std::map<std::string, std::string>& ModelFile::metadata() const {
  return impl_->metadata;
}
std::vector<ModelInput> ModelFile::inputs() const {
  return impl_->flat.inputs;
}

std::int64_t ModelFile::opset() const {
  for (const auto& import : impl_->proto.opset_import())
    if (import.domain().empty() || import.domain() == "ai.onnx") return import.version();
  return 0;
}

std::string ModelFile::producer() const {
  const auto& proto = impl_->proto;
  return proto.producer_version().empty() ? proto.producer_name() : concat(proto.producer_name(), ' ', proto.producer_version());
}

std::vector<std::string> ModelFile::outputs() const {
  return impl_->flat.output_names;
}

const std::vector<std::string>& ModelFile::head() const {
  return impl_->head;
}

const std::vector<LoraAdapter>& ModelFile::adapters() const {
  return impl_->lora.adapters;
}

const std::vector<TemplateTensor>& ModelFile::tensors() const {
  return impl_->flat.tensors;
}

std::vector<OutlineNode> ModelFile::outline(const ImportOptions& options) const {
  const FlatModel& flat = impl_->flat;
  const BuiltGraph built = build_followed(impl_->flat, options);
  std::vector<OutlineNode> rows;
  for (const FlatNode& node : flat.main.nodes) {
    OutlineNode row{.name = node.name, .op = node.op, .output = {}, .reads = {}};
    for (const Symbol out : node.outputs) {
      const ValueId id = out.present() ? built.values[static_cast<std::size_t>(out.index)] : ValueId{};
      if (id.present()) row.output = built.graph[id].type;
      if (out.present()) break;
    }
    for (const Symbol in : node.inputs)
      if (in.present() && flat.held[static_cast<std::size_t>(in.index)] >= 0) row.reads.push_back(flat.name(in));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::optional<TrainingStep> ModelFile::training_step() const {
  if (!impl_->step_problem.empty()) fail(impl_->step_problem);
  return impl_->step;
}

std::optional<ModelFile> ModelFile::initialization() const {
  const std::unique_ptr<onnx::ModelProto> made = initialization_of(impl_->proto);
  if (!made) return std::nullopt;
  const std::string bytes = made->SerializeAsString();
  return ModelFile(std::make_unique<Impl>(parse_model(bytes), std::ssize(bytes),
                                          impl_->path.empty() ? ExternalData() : ExternalData(impl_->path), impl_->path, WeightOptions{}));
}

namespace {

void note_nodes(const std::vector<FlatNode>& nodes, std::map<std::string, NodeNotes>& notes) {
  for (const FlatNode& node : nodes) {
    if (node.proto) {
      NodeNotes note{.modules = modules_of(*node.proto), .device = std::string(device_of(*node.proto))};
      if (!note.modules.empty() || !note.device.empty()) notes.emplace(node.name, std::move(note));
    }
    for (const FlatBody& body : node.bodies) note_nodes(body.nodes, notes);
  }
}

}  // namespace

std::map<std::string, NodeNotes> ModelFile::node_notes() const {
  std::map<std::string, NodeNotes> notes;
  note_nodes(impl_->flat.main.nodes, notes);
  return notes;
}

std::vector<DeviceConfiguration> ModelFile::configurations() const {
  return device_configurations(impl_->proto, impl_->node_names());
}

std::vector<std::string> ModelFile::Impl::node_names() const {
  std::map<const onnx::NodeProto*, std::string> known;
  for (const FlatNode& node : flat.main.nodes)
    if (node.proto) known.emplace(node.proto, node.name);
  std::vector<std::string> names;
  for (const onnx::NodeProto& node : proto.graph().node()) {
    const auto it = known.find(&node);
    names.push_back(it == known.end() ? node.name() : it->second);
  }
  return names;
}

std::string ModelFile::fingerprint() const {
  onnx::ModelProto skeleton = impl_->proto;
  for (auto& tensor : *skeleton.mutable_graph()->mutable_initializer())
    if (is_float(static_cast<DType>(tensor.data_type()))) {
      clear_values(tensor);
      tensor.clear_external_data();
      tensor.clear_data_location();
    }
  for (const AttributeWeight& weight : impl_->flat.attribute_weights)
    for (int i = 0; i < skeleton.graph().node_size(); ++i)
      if (&impl_->proto.graph().node(i) == weight.node)
        for (auto& attribute : *skeleton.mutable_graph()->mutable_node(i)->mutable_attribute())
          if (attribute.name() == weight.attribute) attribute.clear_floats();
  Hash hash;
  hash.add(skeleton.SerializeAsString());
  return hash.text();
}

void InputForm::take_sizes(const Shape& samples_first, std::map<std::string, std::int64_t>& dims) const {
  if (samples_first.rank() != rank) return;
  for (const auto& [axis, name] : open) dims.emplace(name, samples_first[axis < batch_axis ? axis + 1 : axis]);
}

std::vector<InputForm> ModelFile::input_forms(const ImportOptions& options) const {
  const auto [reading, known] = chosen_reading(impl_->flat, options);
  std::vector<InputForm> forms;
  for (std::size_t i = 0; i < impl_->flat.inputs.size(); ++i) {
    const ModelInput& input = impl_->flat.inputs[i];
    InputForm form{.name = input.name, .rank = static_cast<int>(input.dims.size()), .batch_axis = reading.axes[i], .open = {}};
    const std::vector<std::string> open = dims_without_size(impl_->flat.inputs, known, reading);
    for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
      const std::string name = size_name(input, axis);
      const bool sized = static_cast<int>(axis) == form.batch_axis || input.dims[axis].size >= 0 || std::ranges::count(open, name) == 0;
      if (!sized) form.open[static_cast<int>(axis)] = name;
    }
    if (!options.constants.contains(input.name)) forms.push_back(std::move(form));
  }
  return forms;
}

std::vector<Problem> ModelFile::problems(const ImportOptions& options) const {
  return build_followed(impl_->flat, options).problems;
}

Graph ModelFile::graph(const ImportOptions& options) const {
  return impl_->graphs.get(options, [&] { return impl_->graph(options); });
}

void ModelFile::release_graphs() const {
  impl_->graphs.release();
}

void ModelFile::release_values() const {
  impl_->external.release();
}

std::int64_t ModelFile::graphs_built() const {
  return impl_->graphs.made();
}

Graph ModelFile::Impl::graph(const ImportOptions& options) const {
  BuiltGraph built = build_followed(flat, options);
  if (!built.problems.empty()) fail(report_of(path.empty() ? proto.graph().name() : path.string(), built.problems));
  for (std::size_t i = 0; i < built.graph.outputs.size() && options.batch > 0; ++i) {
    const ValueId out = built.graph.outputs[i];
    if (!built.one_sample)
      samples_first(built.graph, out);
    else if (!built.graph[out].batch.present())
      samples_first(built.graph, out, new_axis);
  }
  recognise_batch_normalization(built.graph);
  settle_batch_normalization(built.graph, options.training, options.unbiased_variance.value_or(proto.producer_name() == "pytorch"));
  drop_unread(built.graph);
  verify(built.graph);
  return std::move(built.graph);
}

}  // namespace tandem
