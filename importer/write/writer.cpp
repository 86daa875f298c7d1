// ModelFile::write: the template's own message with other weights in it.
#include <algorithm>
#include <map>
#include <set>

#include "base/atomic_file.h"
#include "base/option.h"
#include "importer/flat/constant_nodes.h"
#include "importer/flat/inference_mode.h"
#include "importer/lora/lora.h"
#include "importer/message/adapter_file.h"
#include "importer/message/device_configurations.h"
#include "importer/message/drop_orphans.h"
#include "importer/model_file_impl.h"
#include "importer/training/training_export.h"
#include "importer/write/export_external.h"
#include "importer/write/given_weights.h"
#include "importer/write/stream_model.h"
#include "importer/write/write_inner.h"

namespace tandem {
namespace {

class Exporter {
 public:
  Exporter(const ModelFile::Impl& impl, const GivenWeights& given, const std::filesystem::path& output, const SaveOptions& options)
      : impl_(impl), given_(given), model_(impl.proto), output_(output), options_(options), external_(impl.external, output, options) {}

  // Entries that stay keep their place; the first of equal keys counts, as for who reads them.
  void set_metadata(std::map<std::string, std::string> metadata) {
    if (metadata == impl_.metadata) return;
    auto& props = *model_.mutable_metadata_props();
    int kept = 0;
    for (int i = 0; i < props.size(); ++i) {
      const auto entry = metadata.find(props[i].key());
      if (entry == metadata.end()) continue;
      props[i].set_value(entry->second);
      metadata.erase(entry);
      props.SwapElements(kept++, i);
    }
    props.DeleteSubrange(kept, props.size() - kept);
    for (const auto& [key, value] : metadata) {
      onnx::StringStringEntryProto& entry = *props.Add();
      entry.set_key(key);
      entry.set_value(value);
    }
  }

  void run() {
    if (options_.configuration) annotate(model_, *options_.configuration, impl_.node_names());
    write_inner(impl_.flat, impl_.proto, model_, [this](const std::string& name) { return given_.read(name); }, external_);
    set_inference_mode(impl_.flat, impl_.proto, model_);
    initializers();
    attributes();
    constant_nodes();
    (options_.adapters_as_inputs ? adapters_to_inputs : remove_adapters)(model_, impl_.lora);
    remove_loss(model_, impl_.loss);
    if (options_.training) write_training_info(model_, *options_.training);
    else if (impl_.step && options_.training_steps > 0)
      set_variables(model_, *impl_.step, options_.training_states, options_.training_steps);
    external_.store_rest(model_);
    if (!fits()) move_out();
    external_.flush();
    AtomicFile file(output_);
    write_streamed(model_, streamed_, [this](const std::string& name) { return value_of(name); }, file);
    file.flush();
    external_.commit();
    file.commit();
    external_.finish();
  }

  // Returns about how many bytes run() would write.
  std::int64_t check(const Graph& parameters) {
    if (options_.training) check_training();
    const std::int64_t outside = external_.check(model_);
    std::map<std::string, std::int64_t> values;  // bytes of those that the messages here do not hold, and will
    for (const Value& v : parameters.values)
      if (v.kind == ValueKind::parameter) values[v.name] = bytes_of(v.type);
    for (const FlatInitializer& i : impl_.flat.main.initializers)
      if (i.data && !i.home) values[impl_.flat.name(i.symbol)] = bytes_of(i.type);
    for (const auto& [name, tensor] : impl_.unread) values[name] = tensor.byte_size();
    each_inner(impl_.flat, [&](const FlatInitializer& i) { values.erase(impl_.flat.name(i.symbol)); });
    for (int i = 0; i < model_.graph().initializer_size(); ++i) {
      const onnx::TensorProto& proto = model_.graph().initializer(i);
      const DataForm here = form_of(proto);
      if (here == DataForm::raw || here == DataForm::typed || here == DataForm::external) values.erase(proto.name());
    }
    auto inside = static_cast<std::int64_t>(model_.ByteSizeLong());
    for (const auto& [name, bytes] : values) inside += bytes;
    if (inside > options_.inline_bytes) external_.check_room();
    return inside + outside;
  }

 private:
  void check_training() const {
    if (!impl_.lora.adapters.empty() || !impl_.flat.ties.empty() || !impl_.flat.looked_up.empty())
      fail(ExitCode::usage, option("export_training_info"), ": a step of ", impl_.lora.adapters.empty() ? "tied weights" : "adapters",
           " is not written: the file has the weights that come of them");
    each_inner(impl_.flat, [&](const FlatInitializer& i) {
      if (impl_.flat.holding(i.symbol) == Holding::trained)
        fail(ExitCode::usage, option("export_training_info"), ": '", impl_.flat.name(i.symbol),
             "' stands in a subgraph or a function, and a training_info updates initializers of the model's own graph");
    });
    onnx::ModelProto trial = model_;
    remove_loss(trial, impl_.loss);
    for (const FlatNode& node : impl_.flat.main.nodes)  // what nodes made becomes initializers
      if (node.top_level && (node.op == "Constant" || node.op == "ConstantOfShape") && node.outputs.at(0).present()) {
        onnx::TensorProto& made = *trial.mutable_graph()->add_initializer();
        made.set_name(impl_.flat.name(node.outputs[0]));
        made.set_data_type(onnx::TensorProto::FLOAT);
      }
    write_training_info(trial, *options_.training);
  }

  void initializers() {
    std::map<std::string, const FlatInitializer*> flat;
    for (const FlatInitializer& i : impl_.flat.main.initializers) flat[impl_.flat.name(i.symbol)] = &i;
    for (int i = 0; i < model_.graph().initializer_size(); ++i) {
      onnx::TensorProto& proto = *model_.mutable_graph()->mutable_initializer(i);
      const auto kept = flat.find(proto.name());
      if (impl_.unread.contains(proto.name())) store_later(proto, impl_.forms[static_cast<std::size_t>(i)]);
      if (kept == flat.end() || impl_.unread.contains(proto.name())) continue;  // nothing reads it
      const DataForm form = impl_.forms[static_cast<std::size_t>(i)];
      if (!given_.has(proto.name()) && form == DataForm::none) {
        if (!kept->second->data) fail("weight '", proto.name(), "' has no value, neither in the template nor given");
        continue;  // the proto still holds it
      }
      held_[proto.name()] = kept->second;
      if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
        const Tensor value = value_of(proto.name());
        external_.store(proto, &value);
      } else {
        store_later(proto, form);
      }
    }
  }

  // What a weight is going to be in the file.
  Tensor value_of(const std::string& name) const {
    if (std::optional<Tensor> value = given_.read(name)) return *std::move(value);
    const auto held = held_.find(name);
    return held == held_.end() ? impl_.unread.at(name) : *held->second->data;
  }

  // Values are put in as the file is written, so that one weight at a time is in memory. Those whose length depends on them: at once.
  void store_later(onnx::TensorProto& proto, DataForm form) {
    const auto dtype = static_cast<DType>(proto.data_type());
    if (form == DataForm::typed && is_half(dtype)) return store(value_of(proto.name()), form, proto);
    clear_values(proto);
    streamed_[proto.name()] = {form == DataForm::typed ? form : DataForm::raw, type_of(proto)};
  }

  // Weights that the file holds as attributes go back into them.
  void attributes() {
    for (const AttributeWeight& weight : impl_.flat.attribute_weights) {
      const std::optional<Tensor> value = given_.read(impl_.flat.name(weight.symbol));
      if (!value) continue;
      for (int i = 0; i < model_.graph().node_size(); ++i) {
        if (&impl_.proto.graph().node(i) != weight.node) continue;
        for (onnx::AttributeProto& attribute : *model_.mutable_graph()->mutable_node(i)->mutable_attribute()) {
          if (attribute.name() != weight.attribute) continue;
          attribute.clear_floats();
          if (weight.mirrored)
            for (const double v : value->to_doubles()) attribute.add_floats(static_cast<float>(-v));
          for (const double v : value->to_doubles()) attribute.add_floats(static_cast<float>(v));
        }
      }
    }
  }

  // Weights that a node made become initializers; the node goes, and its shape where nothing else reads it.
  void constant_nodes() {
    std::set<const onnx::NodeProto*> replaced;
    std::set<std::string> shapes;  // that the replaced nodes read
    for (const FlatNode& node : impl_.flat.main.nodes) {
      if (!node.top_level || !node.domain.empty() || (node.op != "Constant" && node.op != "ConstantOfShape") ||
          !node.outputs.at(0).present())
        continue;
      const std::string name = impl_.flat.name(node.outputs[0]);
      if (!given_.has(name)) continue;
      replaced.insert(node.proto);
      shapes.insert(node.proto->input().begin(), node.proto->input().end());
      add_initializer(name, given_.type_of(name));
    }
    auto& nodes = *model_.mutable_graph()->mutable_node();
    int kept = 0;
    for (int i = 0; i < nodes.size(); ++i)
      if (!replaced.contains(&impl_.proto.graph().node(i))) nodes.SwapElements(kept++, i);
    nodes.DeleteSubrange(kept, nodes.size() - kept);
    drop_orphans(shapes, model_);
  }

  void add_initializer(const std::string& name, const TensorType& value) {
    onnx::TensorProto& proto = *model_.mutable_graph()->add_initializer();
    proto.set_name(name);
    proto.set_data_type(static_cast<int>(value.dtype));
    for (const std::int64_t d : value.shape) proto.add_dims(d);
    store_later(proto, DataForm::raw);
    if (model_.ir_version() >= 4) return;
    // Until IR version 4 every initializer is also an input.
    onnx::ValueInfoProto& input = *model_.mutable_graph()->add_input();
    input.set_name(name);
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(static_cast<int>(value.dtype));
    for (const std::int64_t d : value.shape) type.mutable_shape()->add_dim()->set_dim_value(d);
  }

  std::size_t bytes() const {
    std::size_t all = model_.ByteSizeLong();
    for (const auto& [name, tensor] : streamed_) all += streamed_bytes(tensor);
    return all;
  }
  bool fits() const { return bytes() <= static_cast<std::size_t>(options_.inline_bytes); }

  // Weights leave a model that is too large for one file.
  void move_out() {
    constexpr std::size_t small = 1024;  // bytes that stay: shapes and numbers are read by tools that skip external data
    ExternalData none;
    for (onnx::TensorProto& proto : *model_.mutable_graph()->mutable_initializer()) {
      if (form_of(proto) == DataForm::external || size_of(static_cast<DType>(proto.data_type())) == 0) continue;
      const auto streamed = form_of(proto) == DataForm::none ? streamed_.find(proto.name()) : streamed_.end();
      if (proto.ByteSizeLong() + (streamed == streamed_.end() ? 0 : streamed_bytes(streamed->second)) <= small) continue;
      const std::optional<Tensor> values = streamed == streamed_.end() ? tensor_of(proto, none) : value_of(proto.name());
      if (values) external_.store(proto, &*values);
      if (streamed != streamed_.end()) streamed_.erase(streamed);
    }
    if (!fits())
      fail("the model takes ", bytes(), " bytes without its weights, more than the ", options_.inline_bytes,
           " one ONNX file holds");
  }

  const ModelFile::Impl& impl_;
  const GivenWeights& given_;
  onnx::ModelProto model_;
  std::map<std::string, const FlatInitializer*> held_;  // by name
  std::map<std::string, StreamedTensor> streamed_;      // whose values stand nowhere yet
  const std::filesystem::path& output_;
  const SaveOptions& options_;
  ExternalExport external_;
};

void refuse_merging(const Lora& lora) {
  for (const LoraAdapter& a : lora.adapters)
    if (a.quantized)
      fail(ExitCode::usage, option("lora"), ": '", a.weight,
           "' is quantized, into which an adapter cannot be merged: ", option("lora_export"), " adapter writes the adapters alone, ",
           option("lora_export"), " inputs a model that takes them as inputs");
}

Graph parameters_of(const ModelFile::Impl& impl) {
  const BatchReading reading = batch_readings(impl.flat.inputs, {})[0];
  return build_graph(impl.flat, {}, reading, reading.samples, nullptr, true).graph;
}

}  // namespace

void ModelFile::write(const std::filesystem::path& path, std::vector<Weight> weights, const SaveOptions& options) const {
  WeightSource source;
  std::map<std::string_view, const Tensor*> tensors;
  for (const Weight& w : weights) {
    source.weights.emplace_back(w.name, w.tensor.type());
    tensors[w.name] = &w.tensor;
  }
  source.read = [&](const std::string& name) { return *tensors.at(name); };
  write_from(source, path, options);
}

void ModelFile::write_from(const WeightSource& weights, const std::filesystem::path& path, const SaveOptions& options) const {
  if (!options.adapters_as_inputs) refuse_merging(impl_->lora);
  const GivenWeights given(*impl_, weights, parameters_of(*impl_), !options.adapters_as_inputs);
  Exporter exporter(*impl_, given, path, options);
  if (options.metadata) exporter.set_metadata(*options.metadata);
  exporter.run();
}

void ModelFile::write_adapter(const std::filesystem::path& path, const std::vector<Weight>& weights) const {
  if (impl_->lora.adapters.empty()) fail(ExitCode::usage, "model '", name(), "' has no adapters to write: ", option("lora"), " adds them");
  std::vector<AdapterParameter> parameters;
  for (std::size_t i = 0; i < impl_->lora.adapters.size(); ++i)
    for (const std::string& wanted : {impl_->lora.adapters[i].a, impl_->lora.adapters[i].b}) {
      const auto it = std::find_if(weights.begin(), weights.end(), [&](const Weight& w) { return w.name == wanted; });
      if (it == weights.end()) fail("'", wanted, "' is not given");
      parameters.push_back({wanted, it->tensor.cast(impl_->lora.weights[i].type)});
    }
  parameters.push_back({lora_scale, Tensor::of<float>(Shape{1}, {static_cast<float>(impl_->lora.adapters[0].scale)})});
  write_atomically(path, adapter_bytes(parameters));
}

std::int64_t ModelFile::check_write(const std::filesystem::path& path, const SaveOptions& options) const {
  if (!options.adapters_as_inputs) refuse_merging(impl_->lora);
  if (std::filesystem::exists(path.has_parent_path() ? path.parent_path() : "."))
    const AtomicFile trial(path);  // goes again
  const Graph parameters = parameters_of(*impl_);
  const GivenWeights none(*impl_, {}, parameters, false);
  return Exporter(*impl_, none, path, options).check(parameters);
}

}  // namespace tandem
