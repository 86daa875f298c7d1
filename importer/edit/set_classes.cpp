#include "importer/edit/set_classes.h"

#include <algorithm>

namespace tandem {

void resize(onnx::GraphProto& graph, onnx::TensorProto& tensor, int axis, std::int64_t size) {
  onnx::TensorProto fresh;
  fresh.set_name(tensor.name());
  fresh.set_data_type(tensor.data_type());
  fresh.set_doc_string(tensor.doc_string());
  *fresh.mutable_metadata_props() = tensor.metadata_props();
  *fresh.mutable_dims() = tensor.dims();
  fresh.set_dims(axis, size);
  tensor = fresh;
  for (auto* list : {graph.mutable_value_info(), graph.mutable_input()})  // until IR version 4 an initializer is an input, too
    for (auto& info : *list)
      if (info.name() == tensor.name() && info.type().tensor_type().shape().dim_size() > axis)
        info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(axis)->set_dim_value(size);
}

void declare(onnx::GraphProto& graph, const std::string& value, ClassCount classes, bool second) {
  for (auto* list : {graph.mutable_value_info(), graph.mutable_output()})
    for (auto& info : *list) {
      if (info.name() != value || !info.type().has_tensor_type() || !info.type().tensor_type().has_shape()) continue;
      auto& shape = *info.mutable_type()->mutable_tensor_type()->mutable_shape();
      std::vector<int> places;
      for (int i = 0; i < shape.dim_size(); ++i)
        if (shape.dim(i).dim_value() == classes.before) places.push_back(i);
      if (places.empty()) continue;
      const bool at_second = second && std::find(places.begin(), places.end(), 1) != places.end();
      shape.mutable_dim(at_second ? 1 : places.back())->set_dim_value(classes.now);
    }
}

std::string set_shape(MessageValues& values, onnx::NodeProto& reshape, int first, ClassCount classes) {
  const std::string name = reshape.input(1);
  std::vector<std::int64_t> shape = *values.integers_of(reshape)(1, "shape");
  *std::find(shape.begin() + first, shape.end(), classes.before) = classes.now;
  onnx::TensorProto fresh;
  fresh.set_name(name + "@head");
  fresh.set_data_type(onnx::TensorProto::INT64);
  fresh.add_dims(static_cast<std::int64_t>(shape.size()));
  for (const std::int64_t d : shape) fresh.add_int64_data(d);
  if (values.is_initializer(name) && values.readers(name).size() == 1) {
    fresh.set_name(name);
    values.initializer(name) = std::move(fresh);
  } else {
    values.add(std::move(fresh));
    reshape.set_input(1, name + "@head");
  }
  return name;
}

}  // namespace tandem
