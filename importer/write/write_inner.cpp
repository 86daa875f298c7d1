// The flat model knows the place of each tensor in the file's own message; the copy is walked beside that.
#include "importer/write/write_inner.h"

#include <map>

#include "importer/message/tensor_data.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Homes = std::map<const void*, std::string>;  // the weight that a tensor or node holds
using Given = std::function<std::optional<Tensor>(const std::string&)>;

void each_inner(const FlatBody& body, bool main, const std::function<void(const FlatInitializer&)>& f) {
  for (const FlatInitializer& i : body.initializers)
    if (!main || i.home) f(i);
  for (const FlatNode& node : body.nodes)
    for (const FlatBody& inner : node.bodies) each_inner(inner, false, f);
}

class Writer {
 public:
  Writer(const Homes& homes, const Given& given, ExternalExport& external) : homes_(homes), given_(given), external_(external) {}

  void nodes(const Nodes& original, Nodes& copy) {
    for (int i = 0; i < original.size(); ++i) {
      if (const std::optional<Tensor> value = at(&original[i])) set_constant(copy[i], *value);
      for (int a = 0; a < original[i].attribute_size(); ++a)
        if (original[i].attribute(a).has_g()) graph(original[i].attribute(a).g(), *copy[i].mutable_attribute(a)->mutable_g());
    }
  }

 private:
  std::optional<Tensor> at(const void* home) const {
    const auto found = homes_.find(home);
    return found == homes_.end() ? std::nullopt : given_(found->second);
  }

  void graph(const onnx::GraphProto& original, onnx::GraphProto& copy) {
    for (int i = 0; i < original.initializer_size(); ++i)
      if (const std::optional<Tensor> value = at(&original.initializer(i))) set(*copy.mutable_initializer(i), *value);
    nodes(original.node(), *copy.mutable_node());
  }

  void set(onnx::TensorProto& proto, const Tensor& value) {
    if (proto.data_location() == onnx::TensorProto::EXTERNAL)
      external_.store(proto, &value);
    else
      store(value, form_of(proto), proto);
  }

  void set_constant(onnx::NodeProto& node, const Tensor& value) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.name() == "value") return set(*attribute.mutable_t(), value);
      if (attribute.name() == "value_float") attribute.set_f(static_cast<float>(value.to_doubles()[0]));
      if (attribute.name() != "value_floats") continue;
      attribute.clear_floats();
      for (const double v : value.to_doubles()) attribute.add_floats(static_cast<float>(v));
    }
  }

  const Homes& homes_;
  const Given& given_;
  ExternalExport& external_;
};

}  // namespace

void each_inner(const FlatModel& flat, const std::function<void(const FlatInitializer&)>& f) {
  each_inner(flat.main, true, f);
}

void write_inner(const FlatModel& flat, const onnx::ModelProto& original, onnx::ModelProto& copy,
                 const std::function<std::optional<Tensor>(const std::string&)>& given, ExternalExport& external) {
  Homes homes;
  each_inner(flat, [&](const FlatInitializer& i) {
    if (i.home && is_float(i.type.dtype)) homes.emplace(i.home, flat.name(i.symbol));
  });
  if (homes.empty()) return;
  Writer writer(homes, given, external);
  writer.nodes(original.graph().node(), *copy.mutable_graph()->mutable_node());
  for (int i = 0; i < original.functions_size(); ++i)
    writer.nodes(original.functions(i).node(), *copy.mutable_functions(i)->mutable_node());
}

}  // namespace tandem
