// ModelFile::write: the template's own message with other weights in it.
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <exception>
#include <map>
#include <set>

#include "base/atomic_file.h"
#include "base/option.h"
#include "importer/batch/rebatch.h"
#include "importer/flat/constant_nodes.h"
#include "importer/flat/inference_mode.h"
#include "importer/lora/lora.h"
#include "importer/message/adapter_file.h"
#include "importer/message/device_configurations.h"
#include "importer/message/drop_orphans.h"
#include "importer/model_file_impl.h"
#include "importer/training/training_export.h"
#include "importer/weights/looked_up.h"
#include "importer/weights/tie_weights.h"
#include "importer/write/export_external.h"
#include "importer/write/write_inner.h"

namespace tandem {
namespace {

using Given = std::map<std::string, Tensor*>;

// A template may hold a weight once for each sample of its batch; it is trained as one. Gives it in the template's shape
// again: along the only axis in which `one` differs the template holds it several times (what is computed from a weight may have
// several rows for each sample: one for each head).
std::optional<Tensor> in_template_shape(const Tensor& one, const Value& parameter) {
  const Shape& shape = parameter.type.shape;
  if (one.dtype() != parameter.type.dtype || one.shape().rank() != shape.rank()) return std::nullopt;
  const auto [mine, theirs] = std::mismatch(one.shape().begin(), one.shape().end(), shape.begin());
  if (mine == one.shape().end() || *mine == 0 || *theirs % *mine != 0 || (*mine != 1 && !parameter.data)) return std::nullopt;
  const BatchPlace place{.axis = static_cast<int>(theirs - shape.begin())};
  const std::int64_t samples = *theirs / *mine;
  Shape repeated = one.shape();
  repeated[place.axis] = *theirs;
  if (repeated != shape || (parameter.data && !holds_copies(*parameter.data, place, samples))) return std::nullopt;
  return repeat_samples(one, place, 1, samples);
}

// The weights given, each checked against the parameter it names.
Given check_weights(std::vector<ModelFile::Weight>& weights, const Graph& parameters) {
  std::map<std::string_view, const Value*> known;
  for (const Value& v : parameters.values)
    if (v.kind == ValueKind::parameter) known[v.name] = &v;
  Given given;
  for (ModelFile::Weight& w : weights) {
    const auto it = known.find(w.name);
    if (it == known.end()) fail("weight '", w.name, "' is none of the template's");
    const TensorType& wanted = it->second->type;
    if (wanted != w.tensor.type())
      if (std::optional<Tensor> whole = in_template_shape(w.tensor, *it->second)) w.tensor = std::move(*whole);
    if (wanted != w.tensor.type()) fail("weight '", w.name, "' is ", w.tensor.type(), ", the template's is ", wanted);
    if (!given.emplace(w.name, &w.tensor).second) fail("weight '", w.name, "' is given twice");
  }
  return given;
}

// Weights are trained in float32 or double, whatever the file holds them in.
void to_types_of_file(std::vector<ModelFile::Weight>& weights, const FlatModel& flat) {
  std::map<std::string_view, DType> types;
  for (const TemplateTensor& t : flat.tensors) types[t.name] = t.type.dtype;
  for (ModelFile::Weight& w : weights)
    if (const auto it = types.find(w.name); it != types.end()) w.tensor = w.tensor.cast(it->second);
}

// Serialized piece by piece: the file's bytes never lie in memory as a whole. A failure waits for finish(), as nothing
// may be thrown through the serializer.
class FileStream final : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit FileStream(AtomicFile& file) : file_(file) {}
  bool Write(const void* bytes, int size) override {
    if (failure_) return false;
    try {
      file_.append({static_cast<const char*>(bytes), static_cast<std::size_t>(size)});
    } catch (...) {
      failure_ = std::current_exception();
      return false;
    }
    return true;
  }
  void finish() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  AtomicFile& file_;
  std::exception_ptr failure_;
};

class Exporter {
 public:
  Exporter(const ModelFile::Impl& impl, const Given& given, const std::filesystem::path& output, const SaveOptions& options)
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
    tied();
    write_inner(impl_.flat, impl_.proto, model_, [this](const std::string& name) { return given(name); }, external_);
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
    FileStream stream(file);
    {
      google::protobuf::io::CopyingOutputStreamAdaptor buffered(&stream, 1 << 20);
      model_.SerializeToZeroCopyStream(&buffered);
    }
    stream.finish();
    file.flush();
    external_.commit();
    file.commit();
    external_.finish();
  }

  // Returns about how many bytes run() would write.
  std::int64_t check(const Graph& parameters) {
    const auto bytes_of = [](const TensorType& t) { return t.shape.elements() * static_cast<std::int64_t>(size_of(t.dtype)); };
    if (options_.training) check_training();
    const std::int64_t outside = external_.check(model_);
    std::map<std::string, std::int64_t> values;  // bytes of those that the messages here do not hold, and will
    for (const Value& v : parameters.values)
      if (v.kind == ValueKind::parameter) values[v.name] = bytes_of(v.type);
    for (const FlatInitializer& i : impl_.flat.main.initializers)
      if (i.data && !i.home) values[impl_.flat.name(i.symbol)] = bytes_of(i.type);
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

  // A tensor that follows another has that one's new values, one that was looked up its rows' at every place.
  void tied() {
    for (const LookedUp& l : impl_.flat.looked_up)
      if (const Tensor* rows = given(impl_.flat.name(l.symbol)))
        tied_[impl_.flat.name(l.symbol)] = whole_of(l, *rows);
    for (const Tie& tie : impl_.flat.ties)
      if (const Tensor* leader = given(impl_.flat.name(tie.leader)))
        tied_[impl_.flat.name(tie.follower)] = followed(tie, *leader);
  }

  Tensor* given(const std::string& name) {
    if (const auto it = tied_.find(name); it != tied_.end()) return &it->second;
    const auto it = given_.find(name);
    return it == given_.end() ? nullptr : it->second;
  }

  void initializers() {
    std::map<std::string, const FlatInitializer*> flat;
    for (const FlatInitializer& i : impl_.flat.main.initializers) flat[impl_.flat.name(i.symbol)] = &i;
    for (int i = 0; i < model_.graph().initializer_size(); ++i) {
      onnx::TensorProto& proto = *model_.mutable_graph()->mutable_initializer(i);
      const auto kept = flat.find(proto.name());
      if (kept == flat.end()) continue;  // nothing reads it
      Tensor* const mine = given(proto.name());
      const Tensor* value = mine;
      const DataForm form = impl_.forms[static_cast<std::size_t>(i)];
      if (!value && form == DataForm::none) {
        if (!kept->second->data) fail("weight '", proto.name(), "' has no value, neither in the template nor given");
        continue;  // the proto still holds it
      }
      if (!value) value = &*kept->second->data;
      if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
        external_.store(proto, value);
        if (mine) *mine = {};
      } else {
        store(*value, form, proto);
        if (mine) *mine = {};  // one copy of the weights at a time is enough
      }
    }
  }

  // Weights that the file holds as attributes go back into them.
  void attributes() {
    for (const AttributeWeight& weight : impl_.flat.attribute_weights) {
      Tensor* const value = given(impl_.flat.name(weight.symbol));
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
      *value = {};
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
      if (Tensor* const value = given(impl_.flat.name(node.outputs[0]))) {
        replaced.insert(node.proto);
        shapes.insert(node.proto->input().begin(), node.proto->input().end());
        add_initializer(impl_.flat.name(node.outputs[0]), *value);
        *value = {};
      }
    }
    auto& nodes = *model_.mutable_graph()->mutable_node();
    int kept = 0;
    for (int i = 0; i < nodes.size(); ++i)
      if (!replaced.contains(&impl_.proto.graph().node(i))) nodes.SwapElements(kept++, i);
    nodes.DeleteSubrange(kept, nodes.size() - kept);
    drop_orphans(shapes, model_);
  }

  void add_initializer(const std::string& name, const Tensor& value) {
    onnx::TensorProto& proto = *model_.mutable_graph()->add_initializer();
    proto.set_name(name);
    proto.set_data_type(static_cast<int>(value.dtype()));
    for (const std::int64_t d : value.shape()) proto.add_dims(d);
    store(value, DataForm::raw, proto);
    if (model_.ir_version() >= 4) return;
    // Until IR version 4 every initializer is also an input.
    onnx::ValueInfoProto& input = *model_.mutable_graph()->add_input();
    input.set_name(name);
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(static_cast<int>(value.dtype()));
    for (const std::int64_t d : value.shape()) type.mutable_shape()->add_dim()->set_dim_value(d);
  }

  bool fits() const { return model_.ByteSizeLong() <= static_cast<std::size_t>(options_.inline_bytes); }

  // Weights leave a model that is too large for one file.
  void move_out() {
    constexpr std::size_t small = 1024;  // bytes that stay: shapes and numbers are read by tools that skip external data
    ExternalData none;
    for (onnx::TensorProto& proto : *model_.mutable_graph()->mutable_initializer())
      if (form_of(proto) != DataForm::external && size_of(static_cast<DType>(proto.data_type())) > 0 && proto.ByteSizeLong() > small)
        if (const std::optional<Tensor> values = tensor_of(proto, none)) external_.store(proto, &*values);
    if (!fits())
      fail("the model takes ", model_.ByteSizeLong(), " bytes without its weights, more than the ", options_.inline_bytes,
           " one ONNX file holds");
  }

  const ModelFile::Impl& impl_;
  const Given& given_;
  std::map<std::string, Tensor> tied_;
  onnx::ModelProto model_;
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

// What the model holds where nothing else is given: constants too may have adapters.
Tensor held_by_template(const FlatModel& flat, const std::string& name) {
  for (const FlatInitializer& i : flat.main.initializers)
    if (flat.name(i.symbol) == name && i.data) return *i.data;
  for (const FlatNode& n : flat.main.nodes)
    if (n.op == "Constant" && n.outputs.size() == 1 && n.outputs[0].present() && flat.name(n.outputs[0]) == name)
      return constant_value(n.attributes);
  fail("weight '", name, "' has no value, neither in the template nor given");
}

// The adapted weights with their adapters added; those that are constants are returned.
std::vector<ModelFile::Weight> merge_all(const ModelFile::Impl& impl, const Given& given) {
  std::vector<ModelFile::Weight> constants;
  for (std::size_t i = 0; i < impl.lora.adapters.size(); ++i) {
    const LoraAdapter& adapter = impl.lora.adapters[i];
    const auto a = given.find(adapter.a), b = given.find(adapter.b), w = given.find(adapter.weight);
    if (a == given.end() || b == given.end()) fail("the adapter of '", adapter.weight, "' is not given");
    if (w == given.end()) constants.push_back({adapter.weight, held_by_template(impl.flat, adapter.weight).cast(a->second->dtype())});
    merge(adapter, impl.lora.weights[i], *a->second, *b->second, w == given.end() ? constants.back().tensor : *w->second);
  }
  return constants;
}

Graph parameters_of(const ModelFile::Impl& impl) {
  const BatchReading reading = batch_readings(impl.flat.inputs, {})[0];
  return build_graph(impl.flat, {}, reading, reading.samples, nullptr, true).graph;
}

}  // namespace

void ModelFile::write(const std::filesystem::path& path, std::vector<Weight> weights, const SaveOptions& options) const {
  Given given = check_weights(weights, parameters_of(*impl_));
  std::vector<ModelFile::Weight> merged;
  if (!options.adapters_as_inputs) {
    refuse_merging(impl_->lora);
    merged = merge_all(*impl_, given);
  }
  to_types_of_file(weights, impl_->flat);
  to_types_of_file(merged, impl_->flat);
  for (ModelFile::Weight& w : merged) given[w.name] = &w.tensor;
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
  const Given none;
  return Exporter(*impl_, none, path, options).check(parameters_of(*impl_));
}

}  // namespace tandem
