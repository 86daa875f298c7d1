// Adapters on their way out: taken off, made inputs, or added to their weights.
#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "importer/lora/lora.h"
#include "importer/message/tensor_data.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

void remove_initializers(onnx::GraphProto& graph, const std::set<std::string>& names) {
  auto& held = *graph.mutable_initializer();
  int kept = 0;
  for (int i = 0; i < held.size(); ++i)
    if (!names.contains(held[i].name())) held.SwapElements(kept++, i);
  held.DeleteSubrange(kept, held.size() - kept);
}

template <class F>
void remove_nodes(onnx::GraphProto& graph, const F& goes) {
  auto& nodes = *graph.mutable_node();
  int kept = 0;
  for (int i = 0; i < nodes.size(); ++i)
    if (!goes(nodes[i])) nodes.SwapElements(kept++, i);
  nodes.DeleteSubrange(kept, nodes.size() - kept);
}

// The other way along a step.
template <class T>
Tensor back(const Tensor& from, const LayoutStep& step) {
  if (step.permutation.empty()) return from.reshaped(step.before);
  const std::size_t rank = step.permutation.size();
  std::vector<std::int64_t> stride(rank);  // in `before`, of each axis of `from`
  for (std::size_t i = 0; i < rank; ++i) {
    stride[i] = 1;
    for (std::size_t k = static_cast<std::size_t>(step.permutation[i]) + 1; k < rank; ++k) stride[i] *= step.before.dims[k];
  }
  Tensor to(TensorType{from.dtype(), step.before});
  const auto x = from.values<T>();
  const auto y = to.write<T>();
  std::vector<std::int64_t> at(rank);
  std::int64_t place = 0;
  for (const T v : x) {
    y[static_cast<std::size_t>(place)] = v;
    for (std::size_t i = rank; i-- > 0;) {
      place += stride[i];
      if (++at[i] < from.shape().dims[i]) break;
      place -= stride[i] * at[i];
      at[i] = 0;
    }
  }
  return to;
}

}  // namespace

void add_initializer(onnx::GraphProto& graph, const std::string& name, const Tensor& value) {
  onnx::TensorProto& t = *graph.add_initializer();
  t.set_name(name);
  t.set_data_type(static_cast<int>(value.dtype()));
  for (const auto d : value.shape()) t.add_dims(d);
  store(value, DataForm::raw, t);
}

void take_off_inputs(onnx::ModelProto& model) {
  onnx::GraphProto& graph = *model.mutable_graph();
  const auto named = [](const std::string& name, std::initializer_list<const char*> ends) {
    return std::any_of(ends.begin(), ends.end(), [&](const char* end) { return name.ends_with(end); });
  };
  const auto& held = graph.initializer();
  if (std::none_of(held.begin(), held.end(), [](const onnx::TensorProto& t) { return t.name() == lora_scale; })) return;
  constexpr std::string_view base = ".lora_base";
  std::set<std::string> sums, values;
  for (const auto& n : graph.node())
    if (n.output_size() > 0 && n.output(0).ends_with(base)) sums.insert(n.output(0).substr(0, n.output(0).size() - base.size()));
  remove_nodes(graph, [&](const onnx::NodeProto& n) {
    const std::string& out = n.output_size() > 0 ? n.output(0) : n.name();
    return sums.contains(out) || out.starts_with(concat(lora_scale, '.')) || named(out, {".lora_down", ".lora_scaled", ".lora_up"});
  });
  for (auto& n : *graph.mutable_node())
    for (auto& out : *n.mutable_output())
      if (out.ends_with(base)) out.resize(out.size() - base.size());
  for (const auto& t : held)
    if (t.name() == lora_scale || named(t.name(), {".lora_A", ".lora_B"})) values.insert(t.name());
  remove_initializers(graph, values);
  auto& inputs = *graph.mutable_input();
  for (int i = inputs.size(); i-- > 0;)
    if (values.contains(inputs[i].name())) inputs.DeleteSubrange(i, 1);
}

void remove_adapters(onnx::ModelProto& model, const Lora& lora) {
  if (lora.adapters.empty()) return;
  onnx::GraphProto& graph = *model.mutable_graph();
  std::map<std::string, std::string> result_of;
  std::set<std::string> sums, values;
  for (const Lora::Site& site : lora.sites) {
    result_of[site.base] = site.result;
    sums.insert(site.result);
  }
  for (const LoraAdapter& a : lora.adapters) values.insert({a.a, a.b});
  remove_nodes(graph, [&](const onnx::NodeProto& n) {
    return n.output_size() > 0 && (lora.added.contains(n.output(0)) || sums.contains(n.output(0)));
  });
  for (auto& node : *graph.mutable_node())
    for (auto& out : *node.mutable_output())
      if (const auto it = result_of.find(out); it != result_of.end()) out = it->second;
  remove_initializers(graph, values);
}

void adapters_to_inputs(onnx::ModelProto& model, const Lora& lora) {
  if (lora.adapters.empty()) return;
  onnx::GraphProto& graph = *model.mutable_graph();
  remove_nodes(graph, [&](const onnx::NodeProto& n) { return n.output_size() > 0 && n.output(0) == lora_scale; });
  std::set<std::string> values;
  for (const LoraAdapter& a : lora.adapters) values.insert({a.a, a.b});
  remove_initializers(graph, values);
  const auto add = [&](const std::string& name, const Tensor& value, int symbolic) {
    add_initializer(graph, name, value);
    onnx::ValueInfoProto& input = *graph.add_input();
    input.set_name(name);
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(static_cast<int>(value.dtype()));
    for (int i = 0; i < value.shape().rank(); ++i) {
      auto& dim = *type.mutable_shape()->add_dim();
      if (i == symbolic) dim.set_dim_param("lora_r");
      else dim.set_dim_value(value.shape()[i]);
    }
  };
  for (std::size_t i = 0; i < lora.adapters.size(); ++i) {
    const AdapterShapes sizes = adapter_shapes(lora.weights[i], lora.adapters[i].rank);
    const bool filter = lora.weights[i].form == LoraForm::filter;
    add(lora.adapters[i].a, Tensor(TensorType{lora.weights[i].type, sizes.a}), filter ? 0 : 1);
    add(lora.adapters[i].b, Tensor(TensorType{lora.weights[i].type, sizes.b}), filter ? 1 : 0);
  }
  add(lora_scale, Tensor::of<float>(Shape{1}, {static_cast<float>(lora.adapters[0].scale)}), -1);
}

void merge(const LoraAdapter& adapter, const AdaptableWeight& place, const Tensor& a, const Tensor& b, Tensor& weight) {
  visit_float(weight.dtype(), [&]<class T>() {
    const bool filter = place.form == LoraForm::filter;
    const auto left = (filter ? b : a).values<T>(), right = (filter ? a : b).values<T>();
    const std::int64_t r = adapter.rank, columns = static_cast<std::int64_t>(right.size()) / r,
                       rows = static_cast<std::int64_t>(left.size()) / r;
    Tensor delta(TensorType{weight.dtype(), place.shape});
    const auto d = delta.write<T>();
    std::vector<double> row(static_cast<std::size_t>(columns));
    for (std::int64_t i = 0; i < rows; ++i) {
      std::fill(row.begin(), row.end(), 0.0);
      for (std::int64_t k = 0; k < r; ++k) {
        const double factor = static_cast<double>(left[static_cast<std::size_t>(i * r + k)]);
        for (std::int64_t c = 0; c < columns; ++c)
          row[static_cast<std::size_t>(c)] += factor * static_cast<double>(right[static_cast<std::size_t>(k * columns + c)]);
      }
      for (std::int64_t c = 0; c < columns; ++c)
        d[static_cast<std::size_t>(i * columns + c)] = static_cast<T>(adapter.scale * row[static_cast<std::size_t>(c)]);
    }
    for (auto step = place.steps.rbegin(); step != place.steps.rend(); ++step) delta = back<T>(delta, *step);
    const auto change = std::as_const(delta).values<T>();
    auto w = weight.write<T>();
    for (std::size_t i = 0; i < w.size(); ++i) w[i] += change[i];
  });
}

}  // namespace tandem
