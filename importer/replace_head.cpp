// From the outputs back to the head, and from the head forward to all that follows it.
#include "importer/replace_head.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "graph/error.h"
#include "graph/suggest.h"

namespace tandem {
namespace {

// What may stand behind a head: its result has the classes its operand has. (Of two operands one does not come from the head.)
const std::set<std::string> follows = {
    "Softmax", "LogSoftmax", "Identity", "Flatten", "Squeeze", "Unsqueeze", "Cast", "CastLike", "Sigmoid", "LogSigmoid", "Dropout", "Relu", "LeakyRelu", "Clip", "Tanh",
    "GlobalAveragePool", "GlobalMaxPool", "AveragePool", "MaxPool", "ReduceMean", "ReduceMax", "ReduceLogSumExp", "ReduceSum", "Transpose", "Resize", "Upsample", "Reshape",
    "Add", "Sub", "Mul", "Div", "Neg", "Exp", "Log", "ArgMax", "TopK", "Gather", "Slice"};
// What only reads a shape or a result of all classes: nothing behind it has them.
const std::set<std::string> ends = {"Shape", "Size", "ArgMax", "TopK"};

std::string name_of(const onnx::NodeProto& node) {
  return concat(node.op_type(), " '", node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name(), "'");
}

class Head {
 public:
  Head(onnx::ModelProto& model, std::int64_t wanted, const std::string& asked) : graph_(*model.mutable_graph()), wanted_(wanted), asked_(asked) {
    for (int i = 0; i < graph_.node_size(); ++i) {
      for (const auto& out : graph_.node(i).output())
        if (!out.empty()) makers_[out] = i;
      for (const auto& in : graph_.node(i).input())
        if (!in.empty()) readers_[in].push_back(i);
    }
    for (int i = 0; i < graph_.initializer_size(); ++i) held_[graph_.initializer(i).name()] = i;
  }

  NewHead replace() {
    if (wanted_ < 1) fail(ExitCode::usage, "option head: ", wanted_, " classes");
    const int at = find();
    onnx::NodeProto& node = *graph_.mutable_node(at);
    find_weight(node);
    find_bias(node);
    check_what_follows();
    NewHead head{.line = concat("head: ", name_of(node), " now has ", wanted_, wanted_ == 1 ? " class, " : " classes, ", classes_, " before; ", name_of(weight()), with_bias(),
                                " start anew (option replace_head names another node)"),
                 .names = {weight().name()}};
    resize(weight(), axis_);
    if (bias_ >= 0) {
      own_bias();
      head.names.push_back(bias().name());
      resize(bias(), bias().dims_size() - 1);
    }
    for (const std::string& value : values_) declare(value);
    return head;
  }

 private:
  onnx::TensorProto& weight() { return *graph_.mutable_initializer(weight_); }
  onnx::TensorProto& bias() { return *graph_.mutable_initializer(bias_); }
  static std::string name_of(const onnx::TensorProto& tensor) { return concat("'", tensor.name(), "'"); }
  static std::string name_of(const onnx::NodeProto& node) { return tandem::name_of(node); }
  std::string with_bias() { return bias_ < 0 ? "" : concat(" and ", name_of(bias())); }

  static bool makes_scores(const onnx::NodeProto& n) { return n.domain().empty() && (n.op_type() == "Gemm" || n.op_type() == "MatMul" || n.op_type() == "Conv"); }
  static const onnx::AttributeProto* attribute(const onnx::NodeProto& n, std::string_view name) {
    for (const auto& a : n.attribute())
      if (a.name() == name) return &a;
    return nullptr;
  }
  static std::int64_t integer(const onnx::NodeProto& n, std::string_view name, std::int64_t otherwise) {
    const auto* a = attribute(n, name);
    return a ? a->i() : otherwise;
  }

  // From a value back; `chain` says what was met.
  int back(const std::string& value, std::string& chain, std::set<std::string>& seen) {
    const auto maker = makers_.find(value);
    if (maker == makers_.end() || !seen.insert(value).second) return -1;
    const onnx::NodeProto& node = graph_.node(maker->second);
    chain += concat(chain.empty() ? "" : " <- ", name_of(node));
    if (makes_scores(node)) return maker->second;
    if (!node.domain().empty() || !follows.contains(node.op_type())) return -1;
    for (const auto& in : node.input())  // the first that a node computes from something
      if (makers_.contains(in) && graph_.node(makers_[in]).op_type() != "Constant") return back(in, chain, seen);
    return -1;
  }

  int find() {
    std::vector<std::string> names;
    for (int i = 0; i < graph_.node_size(); ++i) {
      const auto& n = graph_.node(i);
      if (!makes_scores(n)) continue;
      if (!asked_.empty() && (n.name() == asked_ || (n.output_size() > 0 && n.output(0) == asked_))) return i;
      names.push_back(n.name().empty() ? n.output(0) : n.name());
    }
    if (!asked_.empty())
      fail(ExitCode::usage, "option replace_head '", asked_, "': the model's graph has no Gemm, MatMul or Conv of that name", suggestion(asked_, names));
    std::set<int> heads;
    std::string chains, list;
    for (const auto& output : graph_.output()) {
      std::string chain;
      std::set<std::string> seen;
      if (const int at = back(output.name(), chain, seen); at >= 0) {
        heads.insert(at);
      } else {
        chains += concat("\n  ", output.name(), " <- ", chain.empty() ? "an input or initializer" : chain);
      }
    }
    if (heads.empty())
      fail(ExitCode::usage, "option head: no Gemm, MatMul or Conv was found from which an output's scores come (option replace_head names one); from the outputs back:", chains);
    for (const int at : heads) list += concat(list.empty() ? "" : ", ", name_of(graph_.node(at)));
    if (heads.size() > 1) fail(ExitCode::usage, "option head: ", heads.size(), " nodes make outputs: option replace_head names which of ", list);
    return *heads.begin();
  }

  // Readers other than `node`.
  std::string other_reader(const std::string& value, const onnx::NodeProto& node) {
    for (const int r : readers_[value])
      if (&graph_.node(r) != &node) return name_of(graph_.node(r));
    return "";
  }

  void find_weight(const onnx::NodeProto& node) {
    const std::string what = concat("option head: ", name_of(node));
    const bool gemm = node.op_type() == "Gemm", conv = node.op_type() == "Conv";
    if (node.input_size() < 2) fail(ExitCode::usage, what, " has no weight");
    if (conv && integer(node, "group", 1) != 1) fail(ExitCode::usage, what, " has ", integer(node, "group", 1), " groups: how many classes each makes is not known");
    bool turned = gemm && integer(node, "transB", 0) != 0;
    std::string value = node.input(1);
    const onnx::NodeProto* reader = &node;
    while (!held_.contains(value)) {
      const auto maker = makers_.find(value);
      const onnx::NodeProto* from = maker == makers_.end() ? nullptr : &graph_.node(maker->second);
      const bool turn = from && from->op_type() == "Transpose" && !conv;
      if (!from || (!turn && from->op_type() != "Identity"))
        fail(ExitCode::usage, what, " takes its weight from ", from ? name_of(*from) : concat("the input '", value, "'"), ", not from an initializer");
      if (const std::string other = other_reader(value, *reader); !other.empty()) fail(ExitCode::usage, what, " shares its weight with ", other);
      turned ^= turn;
      reader = from;
      value = from->input(0);
    }
    weight_ = held_[value];
    if (const std::string other = other_reader(value, *reader); !other.empty())
      fail(ExitCode::usage, what, " shares its weight '", value, "' with ", other, ", which goes on having the old number of rows (option untie gives each its own)");
    const int rank = weight().dims_size();
    if (conv ? rank < 3 : rank != 2) fail(ExitCode::usage, what, " has a weight of rank ", rank);
    axis_ = conv || turned ? 0 : 1;
    class_axis_ = conv ? 1 : -1;
    classes_ = weight().dims(axis_);
    result_ = node.output(0);
  }

  // Of one number a class: [C], [1, C], and for what is added to Conv's result [C, 1, 1].
  bool is_bias(const std::string& name) {
    if (!held_.contains(name)) return false;
    const auto& t = graph_.initializer(held_[name]);
    std::int64_t elements = 1;
    for (const auto d : t.dims()) elements *= d;
    return t.dims_size() > 0 && elements == classes_ && t.dims(t.dims_size() - 1) == classes_;
  }

  void find_bias(onnx::NodeProto& node) {
    if (node.op_type() != "MatMul") {
      if (node.input_size() < 3 || node.input(2).empty()) return;
      if (held_.contains(node.input(2)) && !is_bias(node.input(2)) && one_number(node.input(2))) return;
      if (!is_bias(node.input(2)))
        fail(ExitCode::usage, "option head: ", name_of(node), " takes its bias from '", node.input(2), "', which is no initializer of ", classes_, " numbers");
      bias_ = held_[node.input(2)];
      bias_reader_ = &node;
      return;
    }
    if (readers_[result_].size() != 1) return;
    onnx::NodeProto& add = *graph_.mutable_node(readers_[result_][0]);
    if (add.op_type() != "Add") return;
    for (const auto& in : add.input())
      if (in != result_ && is_bias(in)) {
        bias_ = held_[in];
        bias_reader_ = &add;
      }
  }
  bool one_number(const std::string& name) {
    std::int64_t elements = 1;
    for (const auto d : graph_.initializer(held_[name]).dims()) elements *= d;
    return elements == 1;
  }

  void own_bias() {
    const std::string name = bias().name();
    if (readers_[name].size() < 2) return;
    auto copy = bias();
    copy.set_name(name + "@head");
    bias_ = graph_.initializer_size();
    *graph_.add_initializer() = std::move(copy);
    for (auto& in : *bias_reader_->mutable_input())
      if (in == name) in = name + "@head";
  }

  bool holds_old(const onnx::TensorProto& t, const onnx::NodeProto& reader) const {
    if (t.data_type() == onnx::TensorProto::INT64 && reader.op_type() != "Gather" && reader.op_type() != "Slice") {
      for (const auto v : t.int64_data())
        if (v == classes_ && classes_ > 1) return true;
      for (std::size_t i = 0; i + 8 <= t.raw_data().size(); i += 8) {
        std::int64_t v = 0;
        std::memcpy(&v, t.raw_data().data() + i, 8);
        if (v == classes_ && classes_ > 1) return true;
      }
      return false;
    }
    for (const auto d : t.dims())
      if (d == classes_ && d > 1) return true;
    return false;
  }
  const onnx::TensorProto* constant(const std::string& name) {
    if (const auto it = held_.find(name); it != held_.end()) return &graph_.initializer(it->second);
    const auto maker = makers_.find(name);
    if (maker == makers_.end() || graph_.node(maker->second).op_type() != "Constant") return nullptr;
    const auto* value = attribute(graph_.node(maker->second), "value");
    return value && value->has_t() ? &value->t() : nullptr;
  }

  void check_what_follows() {
    std::vector<std::pair<std::string, std::string>> open{{result_, name_of(graph_.node(makers_[result_]))}}, met;
    values_.insert(result_);
    while (!open.empty()) {
      const auto [value, chain] = open.back();
      open.pop_back();
      for (const int r : readers_[value]) {
        const onnx::NodeProto& node = graph_.node(r);
        const std::string way = concat(chain, " -> ", name_of(node));
        if (ends.contains(node.op_type())) continue;
        if (!node.domain().empty() || !follows.contains(node.op_type()))
          fail(ExitCode::usage, "option head: what follows may be made for ", classes_, " classes: ", way, " (option replace_head names another node)");
        for (const auto& in : node.input()) {
          const onnx::TensorProto* t = in == value ? nullptr : constant(in);
          if (!t || (bias_ >= 0 && &node == bias_reader_ && in == bias().name())) continue;
          if (holds_old(*t, node)) fail(ExitCode::usage, "option head: '", in, "' holds the old number of classes, ", classes_, ": ", way);
        }
        for (const auto& out : node.output())
          if (!out.empty() && values_.insert(out).second) open.emplace_back(out, way);
        for (const auto& in : node.input()) met.emplace_back(in, way);
      }
    }
    // Two heads whose scores are joined: the other one would keep its classes.
    std::set<std::string> seen;
    for (const auto& [in, way] : met)
      if (!values_.contains(in) && from_input(in, seen))
        fail(ExitCode::usage, "option head: '", in, "' is computed from the model's input too, beside this head: ", way, ": a model of several heads keeps its classes");
  }

  bool from_input(const std::string& value, std::set<std::string>& seen) {
    if (!seen.insert(value).second) return false;
    const auto maker = makers_.find(value);
    if (maker == makers_.end()) return !value.empty() && !held_.contains(value);
    const auto& inputs = graph_.node(maker->second).input();
    return graph_.node(maker->second).op_type() != "Shape" && std::any_of(inputs.begin(), inputs.end(), [&](const std::string& in) { return from_input(in, seen); });
  }

  void resize(onnx::TensorProto& tensor, int axis) {
    onnx::TensorProto fresh;
    fresh.set_name(tensor.name());
    fresh.set_data_type(tensor.data_type());
    fresh.set_doc_string(tensor.doc_string());
    *fresh.mutable_metadata_props() = tensor.metadata_props();
    *fresh.mutable_dims() = tensor.dims();
    fresh.set_dims(axis, wanted_);
    tensor = fresh;
    for (auto* list : {graph_.mutable_value_info(), graph_.mutable_input()})  // until IR version 4 an initializer is an input, too
      for (auto& info : *list)
        if (info.name() == tensor.name() && info.type().tensor_type().shape().dim_size() > axis)
          info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(axis)->set_dim_value(wanted_);
  }

  // The dimension that is the old number; of several the one that the head's own result has them in.
  void declare(const std::string& value) {
    for (auto* list : {graph_.mutable_value_info(), graph_.mutable_output()})
      for (auto& info : *list) {
        if (info.name() != value || !info.type().has_tensor_type() || !info.type().tensor_type().has_shape()) continue;
        auto& shape = *info.mutable_type()->mutable_tensor_type()->mutable_shape();
        std::vector<int> places;
        for (int i = 0; i < shape.dim_size(); ++i)
          if (shape.dim(i).dim_value() == classes_) places.push_back(i);
        if (places.empty()) continue;
        const bool second = class_axis_ == 1 && std::find(places.begin(), places.end(), 1) != places.end();
        shape.mutable_dim(second ? 1 : places.back())->set_dim_value(wanted_);
      }
  }

  onnx::GraphProto& graph_;
  const std::int64_t wanted_;
  const std::string& asked_;
  std::map<std::string, int> makers_, held_;
  std::map<std::string, std::vector<int>> readers_;
  int weight_ = -1, bias_ = -1, axis_ = 0, class_axis_ = -1;
  std::int64_t classes_ = 0;
  std::string result_;
  onnx::NodeProto* bias_reader_ = nullptr;
  std::set<std::string> values_;
};

}  // namespace

NewHead replace_head(onnx::ModelProto& model, std::int64_t classes, const std::string& node) { return Head(model, classes, node).replace(); }

}  // namespace tandem
