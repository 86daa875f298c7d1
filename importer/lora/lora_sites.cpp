// From each tensor that the file holds forward to all that read it.
#include "importer/lora/lora_sites.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "importer/message/tensor_data.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

const onnx::AttributeProto* attribute(const onnx::NodeProto& node, const char* name) {
  for (const auto& a : node.attribute())
    if (a.name() == name) return &a;
  return nullptr;
}

std::int64_t integer(const onnx::NodeProto& node, const char* name, std::int64_t otherwise) {
  const auto* a = attribute(node, name);
  return a ? a->i() : otherwise;
}

class Finder {
 public:
  explicit Finder(const onnx::GraphProto& graph) : graph_(graph) {
    for (const auto& output : graph.output()) elsewhere_.insert(output.name());
    for (int i = 0; i < graph.node_size(); ++i) {
      for (int k = 0; k < graph.node(i).input_size(); ++k) readers_[graph.node(i).input(k)].emplace_back(i, k);
      for (const auto& a : graph.node(i).attribute()) {
        if (a.has_g()) read_inside(a.g());
        for (const auto& g : a.graphs()) read_inside(g);
      }
    }
    for (const auto& t : graph.initializer()) held_[t.name()] = &t;
    for (const auto& n : graph.node())
      if (n.op_type() == "Constant" && n.domain().empty() && n.output_size() == 1)
        if (const auto* value = attribute(n, "value"); value && value->has_t()) held_[n.output(0)] = &value->t();
  }

  std::vector<AdaptableWeight> run() {
    std::vector<AdaptableWeight> list;
    for (const auto& t : graph_.initializer()) begin(t.name(), t, list);
    for (const auto& n : graph_.node())
      if (n.op_type() == "Constant" && n.output_size() == 1 && held_.contains(n.output(0))) begin(n.output(0), *held_[n.output(0)], list);
    return list;
  }

 private:
  void read_inside(const onnx::GraphProto& graph) {
    for (const auto& output : graph.output()) elsewhere_.insert(output.name());
    for (const auto& n : graph.node()) {
      elsewhere_.insert(n.input().begin(), n.input().end());
      for (const auto& a : n.attribute()) {
        if (a.has_g()) read_inside(a.g());
        for (const auto& g : a.graphs()) read_inside(g);
      }
    }
  }

  void begin(const std::string& name, const onnx::TensorProto& tensor, std::vector<AdaptableWeight>& list) {
    AdaptableWeight w{.name = name, .type = static_cast<DType>(tensor.data_type())};
    for (const auto d : tensor.dims()) {
      if (d < 1) return;
      w.shape.dims.push_back(d);
    }
    w.quantized = !is_float(w.type);
    found_.reset();
    if (follow(name, w, 0) && found_) list.push_back(std::move(*found_));
  }

  // False where something reads it that leaves no room for an adapter.
  bool follow(const std::string& value, const AdaptableWeight& at, int depth) {
    constexpr int deepest = 32;
    if (depth > deepest || elsewhere_.contains(value)) return false;
    for (const auto& [index, input] : readers_[value]) {
      const onnx::NodeProto& node = graph_.node(index);
      if (node.output_size() < 1) return false;
      if (std::optional<AdaptableWeight> here = site(node, input, at)) {
        if (!meet(std::move(*here), index)) return false;
      } else if (std::optional<AdaptableWeight> behind = passed(node, input, at); !behind || !follow(node.output(0), *behind, depth + 1)) {
        return false;
      }
    }
    return true;
  }

  bool meet(AdaptableWeight here, int index) {
    const auto& node = graph_.node(index);
    if (!found_) found_ = std::move(here);
    else if (found_->form != here.form || found_->shape != here.shape || found_->type != here.type || found_->steps != here.steps)
      return false;
    found_->readers.push_back(index);
    found_->names.push_back(node.name());
    for (const auto& entry : node.metadata_props())
      if (entry.key() == "pkg.torch.onnx.name_scopes") found_->names.push_back(entry.value());
    return true;
  }

  std::optional<AdaptableWeight> site(const onnx::NodeProto& node, int input, AdaptableWeight at) const {
    const std::string& op = node.op_type();
    if (op == "MatMulNBits" && node.domain() == "com.microsoft" && input == 1 && node.input_size() > 2) {
      const auto scales = held_.find(node.input(2));
      const std::int64_t k = integer(node, "K", 0), n = integer(node, "N", 0);
      if (scales == held_.end() || k < 1 || n < 1) return std::nullopt;
      at.shape = Shape{k, n};
      at.type = static_cast<DType>(scales->second->data_type());
      return is_float(at.type) ? std::optional(at) : std::nullopt;
    }
    if (!node.domain().empty() || !is_float(at.type)) return std::nullopt;
    if (input == 1 && at.shape.rank() == 2 && (op == "MatMul" || op == "Gemm")) {
      if (op == "Gemm" && integer(node, "transB", 0) != 0) transpose(at, {1, 0});
      return at;
    }
    if (op == "Gather" && input == 0 && at.shape.rank() == 2 && (integer(node, "axis", 0) == 0 || integer(node, "axis", 0) == -2)) {
      at.form = LoraForm::embedding;
      return at;
    }
    if (op == "Conv" && input == 1 && at.shape.rank() > 2 && integer(node, "group", 1) == 1) {
      at.form = LoraForm::filter;
      return at;
    }
    return std::nullopt;
  }

  static void transpose(AdaptableWeight& at, std::vector<int> permutation) {
    Shape to = at.shape;
    for (std::size_t i = 0; i < permutation.size(); ++i) to.dims[i] = at.shape.dims[static_cast<std::size_t>(permutation[i])];
    at.steps.push_back({.permutation = std::move(permutation), .before = at.shape});
    at.shape = to;
  }

  // Behind an operator that leaves the values, or their number for each, as they are.
  std::optional<AdaptableWeight> passed(const onnx::NodeProto& node, int input, AdaptableWeight at) const {
    const std::string& op = node.op_type();
    if (input != 0) return std::nullopt;
    if ((op == "DequantizeLinear" || op == "QuantizeLinear") && (node.domain().empty() || node.domain() == "com.microsoft") &&
        node.input_size() > 1) {
      const auto scale = held_.find(node.input(1));
      if (scale == held_.end()) return std::nullopt;
      at.quantized = true;
      const DType scales = static_cast<DType>(scale->second->data_type());
      at.type = op == "QuantizeLinear" ? DType::int8 : static_cast<DType>(integer(node, "output_dtype", 0));
      if (at.type == DType::undefined) at.type = scales;
      return at;
    }
    if (!node.domain().empty()) return std::nullopt;
    if (op == "Identity") return at;
    if (op == "Cast") {
      at.type = static_cast<DType>(integer(node, "to", 0));
      at.quantized = at.quantized || is_small_float(at.type);
      return is_float(at.type) || is_small_float(at.type) ? std::optional(at) : std::nullopt;
    }
    if (op == "Transpose") {
      const auto rank = static_cast<std::size_t>(at.shape.rank());
      std::vector<int> permutation(rank);
      std::iota(permutation.rbegin(), permutation.rend(), 0);
      if (const auto* perm = attribute(node, "perm")) permutation.assign(perm->ints().begin(), perm->ints().end());
      std::vector<int> sorted = permutation;
      std::sort(sorted.begin(), sorted.end());
      for (std::size_t i = 0; i < sorted.size(); ++i)
        if (sorted[i] != static_cast<int>(i)) return std::nullopt;
      if (permutation.size() != rank) return std::nullopt;
      transpose(at, std::move(permutation));
      return at;
    }
    if (op == "Reshape" && node.input_size() == 2) {
      const auto shape = held_.find(node.input(1));
      if (shape == held_.end() || shape->second->data_type() != onnx::TensorProto::INT64) return std::nullopt;
      ExternalData none;
      if (form_of(*shape->second) == DataForm::external) return std::nullopt;
      const std::optional<Tensor> sizes = tensor_of(*shape->second, none);
      if (!sizes) return std::nullopt;
      Shape to(sizes->to_int64s());
      std::int64_t known = 1, open = -1;
      for (int i = 0; i < to.rank(); ++i) {
        if (to[i] == 0 && i < at.shape.rank()) to[i] = at.shape[i];
        if (to[i] < 0) open = open < 0 ? i : to.rank();
        else if (__builtin_mul_overflow(known, to[i], &known)) return std::nullopt;
      }
      if (open >= to.rank() || known < 1) return std::nullopt;
      if (open >= 0) to[static_cast<int>(open)] = at.shape.elements() / known;
      if (to.elements() != at.shape.elements()) return std::nullopt;
      at.steps.push_back({.permutation = {}, .before = at.shape});
      at.shape = to;
      return at;
    }
    return std::nullopt;
  }

  const onnx::GraphProto& graph_;
  std::map<std::string, std::vector<std::pair<int, int>>> readers_;
  std::map<std::string, const onnx::TensorProto*> held_;
  std::set<std::string> elsewhere_;  // read by subgraphs, or results
  std::optional<AdaptableWeight> found_;
};

}  // namespace

AdapterShapes adapter_shapes(const AdaptableWeight& w, std::int64_t r) {
  if (w.form != LoraForm::filter) return {w.shape[0], w.shape[1], Shape{w.shape[0], r}, Shape{r, w.shape[1]}};
  Shape a = w.shape, b = w.shape;
  a[0] = b[1] = r;
  std::fill(b.dims.begin() + 2, b.dims.end(), 1);
  return {w.shape.elements() / w.shape[0], w.shape[0], a, b};
}

std::vector<AdaptableWeight> adaptable_weights(const onnx::GraphProto& graph) { return Finder(graph).run(); }

}  // namespace tandem
