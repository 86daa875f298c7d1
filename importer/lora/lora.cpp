#include "importer/lora/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "base/error.h"
#include "base/option.h"
#include "base/pattern.h"
#include "importer/message/adapter_file.h"
#include "importer/message/tensor_data.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

// The same on every machine, unlike the standard library's distributions.
Tensor uniform(Shape shape, double limit, std::uint64_t seed, const std::string& name) {
  std::uint64_t mixed = seed * 0x9E3779B97F4A7C15ULL;
  for (const char c : name) mixed = (mixed ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  std::mt19937_64 random(mixed);
  Tensor tensor(TensorType{DType::float32, std::move(shape)});
  for (float& v : tensor.write<float>()) v = static_cast<float>(limit * (static_cast<double>(random() >> 11) * 0x1p-52 - 1));
  return tensor;
}

onnx::AttributeProto& add_attribute(onnx::NodeProto& node, const char* name, onnx::AttributeProto::AttributeType type) {
  auto& a = *node.add_attribute();
  a.set_name(name);
  a.set_type(type);
  return a;
}

class Adding {
 public:
  Adding(onnx::ModelProto& model, const LoraOptions& options, const std::vector<std::string>& except)
      : graph_(*model.mutable_graph()), options_(options), except_(except), weights_(adaptable_weights(graph_)) {
    for (const auto& import : model.opset_import())
      if (import.domain().empty() || import.domain() == "ai.onnx") opset_ = import.version();
    for (const auto& t : graph_.initializer()) taken_.insert(t.name());
    for (const auto& n : graph_.node()) taken_.insert(n.output().begin(), n.output().end());
    for (const auto& i : graph_.input()) taken_.insert(i.name());
  }

  Lora run(std::string& line) {
    if (options_.from.empty()) choose();
    else choose_as_in_file();
    std::int64_t all = 0, trained = 0;
    for (const auto& t : graph_.initializer()) {
      std::int64_t elements = 1;
      for (const auto d : t.dims()) elements *= d;
      if (is_float(static_cast<DType>(t.data_type()))) all += elements;
    }
    behind_.resize(static_cast<std::size_t>(graph_.node_size()));
    take(lora_scale);
    for (std::size_t i = 0; i < lora_.adapters.size(); ++i) {
      const LoraAdapter& adapter = lora_.adapters[i];
      const AdaptableWeight& weight = lora_.weights[i];
      take(adapter.a);
      take(adapter.b);
      add_initializer(graph_, adapter.a, values_[i].first.cast(weight.type));
      add_initializer(graph_, adapter.b, values_[i].second.cast(weight.type));
      trained += values_[i].first.elements() + values_[i].second.elements();
      for (const int reader : weight.readers) beside(reader, adapter, weight);
    }
    rewrite();
    line = concat("lora: ", lora_.adapters.size(), lora_.adapters.size() == 1 ? " weight has an adapter" : " weights have adapters", text_,
                  ": ", trained, " numbers are trained beside the template's ", all,
                  ", which stay but for a new head and what unfreeze names");
    return std::move(lora_);
  }

 private:
  bool kept(const AdaptableWeight& w) const {
    return std::find(except_.begin(), except_.end(), w.name) != except_.end() || matches_any(w.name, options_.except);
  }

  void choose() {
    const std::int64_t r = options_.rank;
    if (r < 1) fail(ExitCode::usage, option("lora"), ": r is ", r, ", expected at least 1");
    if (!(options_.alpha > 0 && std::isfinite(options_.alpha)))
      fail(ExitCode::usage, option("lora"), ": alpha is ", options_.alpha, ", expected a positive number");
    const double scale = options_.alpha / static_cast<double>(r);
    std::set<std::string> met;
    std::string small;
    int left = 0;
    for (AdaptableWeight& w : weights_) {
      if (kept(w)) continue;
      const AdapterShapes sizes = adapter_shapes(w, r);
      if (options_.targets.empty()) {
        if (w.form != LoraForm::matrix) continue;
        if (r > std::min(sizes.in, sizes.out)) {
          if (left++ == 0) small = too_small(w, sizes);
          continue;
        }
      } else {
        bool wanted = false;
        for (const std::string& pattern : options_.targets)
          if (matches_any(w.name, {pattern}) ||
              std::any_of(w.names.begin(), w.names.end(), [&](const std::string& name) { return matches_any(name, {pattern}); })) {
            met.insert(pattern);
            wanted = true;
          }
        if (!wanted) continue;
        if (r > std::min(sizes.in, sizes.out)) fail(ExitCode::usage, too_small(w, sizes));
      }
      const double within = 1 / std::sqrt(static_cast<double>(sizes.in));
      const bool table = w.form == LoraForm::embedding;
      values_.emplace_back(table ? Tensor(TensorType{DType::float32, sizes.a}) : uniform(sizes.a, within, options_.seed, w.name),
                           table ? uniform(sizes.b, std::sqrt(3.0), options_.seed, w.name) : Tensor(TensorType{DType::float32, sizes.b}));
      add(w, r, scale);
    }
    for (const std::string& pattern : options_.targets)
      if (!met.contains(pattern))
        fail(ExitCode::usage, option("lora"), ": targets '", pattern,
             "': no weight goes by that name, nor does a node that reads one, that can have an adapter: a float or quantized tensor ",
             "that MatMul, Gemm, MatMulNBits, Gather or Conv (of one group) alone read");
    if (lora_.adapters.empty() && left > 0) fail(ExitCode::usage, small);
    if (lora_.adapters.empty())
      fail(ExitCode::usage, option("lora"),
           ": the model has no matrix that MatMul, Gemm or MatMulNBits alone read; targets names other weights ('*': all)");
    text_ = concat(options_.targets.empty() ? " (all matrices of products)" : "", ", r ", r, ", alpha ", options_.alpha,
                   left > 0 ? concat(" (", left,
                                     left == 1 ? " matrix of fewer rows or columns than r has none)"
                                               : " matrices of fewer rows or columns than r have none)")
                            : "");
  }

  std::string too_small(const AdaptableWeight& w, const AdapterShapes& sizes) const {
    return concat(option("lora"), ": r is ", options_.rank, ", and '", w.name, "' has ", sizes.in, " inputs and ", sizes.out,
                  " outputs: expected at most the smaller of these");
  }

  void choose_as_in_file() {
    const std::string file = concat("'", options_.from.string(), "'");
    std::map<std::string, Tensor> given;
    for (AdapterParameter& p : read_adapter(options_.from))
      if (std::string name = p.name; !given.emplace(std::move(name), std::move(p.tensor)).second)
        fail(ExitCode::model, file, " holds '", p.name, "' twice");
    double scale = 1;
    if (const auto it = given.find(lora_scale); it != given.end()) {
      if (it->second.elements() != 1 || !is_float(it->second.dtype()))
        fail(ExitCode::model, file, ": ", lora_scale, " is ", it->second.type(), ", expected one number");
      scale = it->second.to_doubles()[0];
      given.erase(it);
    }
    for (AdaptableWeight& w : weights_) {
      const auto a = given.find(w.name + ".lora_A"), b = given.find(w.name + ".lora_B");
      if (a == given.end() || b == given.end()) continue;
      if (!is_float(a->second.dtype()) || !is_float(b->second.dtype()))
        fail(ExitCode::model, file, ": the adapter of '", w.name, "' is not of floats");
      const Shape& first = a->second.shape();
      const int axis = w.form == LoraForm::filter ? 0 : 1;
      const std::int64_t r = first.rank() > axis ? first[axis] : 0;
      const AdapterShapes sizes = adapter_shapes(w, r);
      if (r < 1 || first != sizes.a || b->second.shape() != sizes.b)
        fail(ExitCode::model, file, ": the adapter of '", w.name, "' is ", first, " and ", b->second.shape(),
             ", which is none of a weight that is read as ", w.shape);
      values_.emplace_back(a->second, b->second);
      given.erase(a);
      given.erase(b);
      add(w, r, scale);
    }
    if (!given.empty())
      fail(ExitCode::usage, file, " holds '", given.begin()->first,
           "', which belongs to no weight of the model that can have an adapter: it was made for another model");
    if (lora_.adapters.empty()) fail(ExitCode::usage, file, " holds no adapter");
    text_ = concat(" from ", file, ", alpha / r ", scale);
  }

  void add(const AdaptableWeight& w, std::int64_t r, double scale) {
    lora_.adapters.push_back(
        {.weight = w.name, .a = w.name + ".lora_A", .b = w.name + ".lora_B", .rank = r, .scale = scale, .quantized = w.quantized});
    lora_.weights.push_back(w);
    scale_ = scale;
  }

  void take(const std::string& fresh) {
    if (!taken_.insert(fresh).second)
      fail(ExitCode::usage, option("lora"), ": the model has a '", fresh,
           "' already: adapters go beside the weights of a model without any");
  }

  std::string fresh(const std::string& name) {
    take(name);
    lora_.added.insert(name);
    return name;
  }

  // One number a type: operators take operands of one type only.
  std::string scale_of(DType type) {
    const std::string name = type == DType::float32 ? lora_scale : concat(lora_scale, '.', name_of(type));
    if (lora_.added.contains(name)) return name;
    if (type == DType::float32) {
      lora_.added.insert(name);
      onnx::NodeProto& node = front_.emplace_back();
      node.set_op_type("Constant");
      node.set_name(name);
      node.add_output(name);
      auto& value = *add_attribute(node, "value", onnx::AttributeProto::TENSOR).mutable_t();
      value.set_data_type(onnx::TensorProto::FLOAT);
      value.add_dims(1);
      store(Tensor::of<float>(Shape{1}, {static_cast<float>(scale_)}), DataForm::raw, value);
      return name;
    }
    scale_of(DType::float32);
    add_attribute(node_of(front_, "Cast", {lora_scale}, fresh(name)), "to", onnx::AttributeProto::INT).set_i(static_cast<int>(type));
    return name;
  }

  static onnx::NodeProto& node_of(std::vector<onnx::NodeProto>& list, const char* op, const std::vector<std::string>& inputs,
                                  const std::string& output) {
    onnx::NodeProto& node = list.emplace_back();
    node.set_op_type(op);
    node.set_name(output);
    for (const std::string& in : inputs) node.add_input(in);
    node.add_output(output);
    return node;
  }

  // result = reader + scale · (x A) B
  void beside(int index, const LoraAdapter& adapter, const AdaptableWeight& weight) {
    onnx::NodeProto& reader = *graph_.mutable_node(index);
    std::vector<onnx::NodeProto>& list = behind_[static_cast<std::size_t>(index)];
    const std::string result = reader.output(0), base = result + ".lora_base", down = fresh(result + ".lora_down"),
                      scaled = fresh(result + ".lora_scaled");
    const bool gemm = reader.op_type() == "Gemm", table = weight.form == LoraForm::embedding, filter = weight.form == LoraForm::filter;
    take(base);
    reader.set_output(0, base);
    lora_.sites.push_back({base, result});
    const std::vector<std::string> operands = table ? std::vector{adapter.a, reader.input(1)} : std::vector{reader.input(0), adapter.a};
    onnx::NodeProto& first = node_of(list, table ? "Gather" : filter ? "Conv" : gemm ? "Gemm" : "MatMul", operands, down);
    for (const auto& a : reader.attribute())
      if (filter || (gemm && a.name() == "transA")) *first.add_attribute() = a;
    old_broadcast(node_of(list, "Mul", {down, scale_of(weight.type)}, scaled));
    if (gemm) {
      onnx::NodeProto& second = node_of(list, "Gemm", {scaled, adapter.b, base}, result);
      for (const auto& a : reader.attribute())
        if (a.name() == "alpha") *second.add_attribute() = a;
      return;
    }
    const std::string up = fresh(result + ".lora_up");
    onnx::NodeProto& second = node_of(list, filter ? "Conv" : "MatMul", {scaled, adapter.b}, up);
    if (filter) {
      auto& kernel = add_attribute(second, "kernel_shape", onnx::AttributeProto::INTS);
      for (int i = 2; i < weight.shape.rank(); ++i) kernel.add_ints(1);
    }
    node_of(list, "Add", {base, up}, result);
  }

  void old_broadcast(onnx::NodeProto& node) const {
    if (opset_ < 7) add_attribute(node, "broadcast", onnx::AttributeProto::INT).set_i(1);
  }

  void rewrite() {
    onnx::GraphProto ordered;
    for (auto& node : front_) *ordered.add_node() = std::move(node);
    for (int i = 0; i < static_cast<int>(behind_.size()); ++i) {
      *ordered.add_node() = std::move(*graph_.mutable_node(i));
      for (auto& node : behind_[static_cast<std::size_t>(i)]) *ordered.add_node() = std::move(node);
    }
    graph_.mutable_node()->Swap(ordered.mutable_node());
  }

  onnx::GraphProto& graph_;
  const LoraOptions& options_;
  const std::vector<std::string>& except_;
  std::vector<AdaptableWeight> weights_;
  std::int64_t opset_ = 0;
  std::set<std::string> taken_;
  Lora lora_;
  std::vector<std::pair<Tensor, Tensor>> values_;  // A and B of each adapter
  double scale_ = 1;
  std::string text_;
  std::vector<onnx::NodeProto> front_;
  std::vector<std::vector<onnx::NodeProto>> behind_;  // by node of the template
};

}  // namespace

Lora add_adapters(onnx::ModelProto& model, const LoraOptions& options, const std::vector<std::string>& except, std::string& line) {
  take_off_inputs(model);
  return Adding(model, options, except).run(line);
}

}  // namespace tandem
