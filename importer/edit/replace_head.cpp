// From the outputs back to the head, and from the head forward to all that follows it.
#include "importer/edit/replace_head.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/option.h"
#include "base/suggest.h"
#include "importer/edit/message_values.h"
#include "importer/edit/set_classes.h"
#include "importer/edit/write_out_call.h"
#include "importer/message/class_axis.h"
#include "importer/message/limits.h"

namespace tandem {
namespace {

// What may stand behind a head: its result has the classes its operand has. (Of two operands one does not come from the head.)
const std::set<std::string> follows = {
    "Softmax", "LogSoftmax", "Identity", "Flatten", "Squeeze", "Unsqueeze", "Cast", "CastLike", "Sigmoid", "LogSigmoid", "Dropout", "Relu", "LeakyRelu", "Clip", "Tanh",
    "GlobalAveragePool", "GlobalMaxPool", "AveragePool", "MaxPool", "ReduceMean", "ReduceMax", "ReduceLogSumExp", "ReduceSum", "Transpose", "Resize", "Upsample", "Reshape",
    "Add", "Sub", "Mul", "Div", "Neg", "Exp", "Log", "ArgMax", "TopK", "Gather", "Slice"};
// What only reads a shape or a result of all classes: nothing behind it has them.
const std::set<std::string> ends = {"Shape", "Size", "ArgMax", "TopK"};

bool makes_scores(const onnx::NodeProto& n) { return n.output_size() > 0 && (is_op(n, "Gemm") || is_op(n, "MatMul") || is_op(n, "Conv")); }
bool is_pair(const onnx::NodeProto& n) { return is_op(n, "Add") || is_op(n, "Sub") || is_op(n, "Mul") || is_op(n, "Div"); }

using Dims = std::vector<std::int64_t>;

// Of one number a class: [C], [1, C], and for what is added to Conv's result [C, 1, 1].
int axis_of_bias(const Dims& dims) { return static_cast<int>(std::max_element(dims.begin(), dims.end()) - dims.begin()); }

// A call was written out: what was found so far may stand elsewhere.
struct Changed {};

class Head {
 public:
  Head(onnx::ModelProto& model, std::int64_t wanted, const std::string& asked)
      : model_(model), graph_(*model.mutable_graph()), values_(model), wanted_(wanted), asked_(asked) {}

  NewHead replace() {
    if (wanted_ < 1) fail(ExitCode::usage, option("head"), ": ", wanted_, " classes");
    for (bool found = false; !found;) try {
        look();
        found = true;
      } catch (const Changed&) {
      }
    own_bias();
    NewHead head{
        .line = concat("head: ", name_of(graph_.node(values_.maker(result_))), " now has ", wanted_,
                       wanted_ == 1 ? " class, " : " classes, ", classes_, " before; '", weight_, "'",
                       bias_.empty() ? "" : concat(" and '", bias_, "'"), " start anew (", option("replace_head"), " names another node)"),
        .names = {weight_}};
    resize(graph_, values_.take(weight_), axis_, wanted_);
    if (!bias_.empty()) {
      head.names.push_back(bias_);
      const int axis = classes_ > 1 ? axis_of_bias(*values_.dims(bias_)) : static_cast<int>(values_.dims(bias_)->size()) - 1;
      resize(graph_, values_.take(bias_), axis, wanted_);
    }
    const auto set = [&](const std::string& reshape, int first) {
      onnx::NodeProto& node = *graph_.mutable_node(values_.maker(reshape));
      head.line += concat("; '", set_shape(values_, node, first, {classes_, wanted_}), "' says so, too");
    };
    if (!matrix_.empty()) set(matrix_, matrix_axis_);
    if (!bias_shape_.empty()) set(bias_shape_, 0);
    for (const auto& [reshape, shape] : shapes_) set(reshape, 1);
    if (!written_out_.empty()) head.line += concat("; written out on the way to it: ", written_out_);
    for (const std::string& value : behind_) declare(graph_, value, {classes_, wanted_}, place_.rank > 2);
    values_.drop_replaced();
    return head;
  }

 private:
  // Finds all that is to be changed, and changes nothing but that calls are written out.
  void look() {
    values_.index();
    behind_.clear(), shapes_.clear(), bias_.clear(), matrix_.clear(), bias_shape_.clear();
    const onnx::NodeProto& node = graph_.node(find());
    find_weight(node);
    find_bias(node);
    check_what_follows();
  }

  // A call of a local function that stands in the way.
  void enter(int at) {
    const onnx::NodeProto& node = graph_.node(at);
    if (!called_by(node, model_)) return;
    if (++calls_ > limits::function_depth)
      fail(ExitCode::usage, option("head"), ": more than ", limits::function_depth, " calls of local functions on the way, at ",
           name_of(node));
    written_out_ += concat(written_out_.empty() ? "" : ", ", name_of(node));
    if (asked_ == node.name() && !asked_.empty()) inside_ = concat(node.name(), '/');
    write_out_call(model_, at);
    throw Changed();
  }

  // From a value back; `chain` says what was met.
  int back(const std::string& value, std::string& chain, std::set<std::string>& seen) {
    const int maker = values_.maker(value);
    if (maker < 0 || !seen.insert(value).second) return -1;
    enter(maker);
    const onnx::NodeProto& node = graph_.node(maker);
    chain += concat(chain.empty() ? "" : " <- ", name_of(node));
    if (makes_scores(node)) return maker;
    if (!node.domain().empty() || !follows.contains(node.op_type())) return -1;
    for (const auto& in : node.input())  // the first that a node computes from something
      if (values_.maker(in) >= 0 && !values_.constant_node(in)) return back(in, chain, seen);
    return -1;
  }

  // By its name or one of its values', by its weight's ("fc.weight") or module's ("fc").
  bool goes_by(const onnx::NodeProto& n, const std::string& name) const {
    if (n.name() == name || n.output(0) == name) return true;
    for (int i = 1; i < n.input_size(); ++i)
      if (n.input(i) == name || (n.input(i).starts_with(name) && n.input(i).find_first_of("./", name.size()) == name.size() &&
                                 n.input(i).find_first_of("./", name.size() + 1) == std::string::npos))
        return true;
    return false;
  }

  int find() {
    std::set<int> heads;
    std::string chains;
    std::vector<std::string> names;
    if (!asked_.empty()) {
      for (int i = 0; i < graph_.node_size(); ++i) {
        const auto& n = graph_.node(i);
        if (n.name() == asked_ || (asked_.starts_with(n.name() + "/") && !n.name().empty())) enter(i);
        if (!makes_scores(n)) continue;
        if (goes_by(n, asked_) || (!inside_.empty() && n.name().starts_with(inside_))) heads.insert(i);
        names.push_back(n.name().empty() ? n.output(0) : n.name());
      }
    }
    for (const auto& output : graph_.output()) {
      if (!asked_.empty() && (!heads.empty() || output.name() != asked_)) continue;
      std::string chain;
      std::set<std::string> seen;
      if (const int at = back(output.name(), chain, seen); at >= 0) {
        heads.insert(at);
      } else {
        chains += concat("\n  ", output.name(), " <- ", chain.empty() ? "an input or initializer" : chain);
      }
    }
    if (heads.empty() && !asked_.empty() && chains.empty())
      fail(ExitCode::usage, option("replace_head"), " '", asked_, "': the model's graph has no Gemm, MatMul or Conv of that name",
           suggestion(asked_, names));
    if (heads.empty())
      fail(ExitCode::usage, option("head"), ": no Gemm, MatMul or Conv was found from which an output's scores come (",
           option("replace_head"), " names one); from the outputs back:", chains);
    std::string list;
    for (const int at : heads) list += concat(list.empty() ? "" : ", ", name_of(graph_.node(at)), made_by(graph_.node(at)));
    if (heads.size() > 1)
      fail(ExitCode::usage, option("head"), ": ", heads.size(),
           asked_.empty() ? " nodes make outputs" : concat(" nodes go by '", asked_, "'"), ": ", option("replace_head"), " names which of ",
           list);
    result_ = graph_.node(*heads.begin()).output(0);
    return *heads.begin();
  }
  static std::string made_by(const onnx::NodeProto& node) { return node.input_size() < 2 ? "" : concat(" (of '", node.input(1), "')"); }

  // Readers other than `node`.
  std::string other_reader(const std::string& value, const onnx::NodeProto& node) const {
    for (const int r : values_.readers(value))
      if (&graph_.node(r) != &node) return name_of(graph_.node(r));
    return "";
  }

  void find_weight(const onnx::NodeProto& node) {
    const std::string what = concat(option("head"), ": ", name_of(node));
    const bool gemm = node.op_type() == "Gemm", conv = node.op_type() == "Conv";
    if (node.input_size() < 2) fail(ExitCode::usage, what, " has no weight");
    if (conv && integer_of(node, "group", 1) != 1)
      fail(ExitCode::usage, what, " has ", integer_of(node, "group", 1), " groups: how many classes each makes is not known");
    bool turned = gemm && integer_of(node, "transB", 0) != 0;
    weight_ = node.input(1);
    const onnx::NodeProto* reader = &node;
    std::optional<Dims> matrix;  // behind a Reshape
    while (!values_.dims(weight_)) {
      const int maker = values_.maker(weight_);
      if (maker >= 0) enter(maker);
      const onnx::NodeProto* from = maker < 0 ? nullptr : &graph_.node(maker);
      const bool turn = from && is_op(*from, "Transpose") && !conv && !matrix;
      const auto shape = from && is_op(*from, "Reshape") && !conv && !matrix ? values_.integers_of(*from)(1, "shape") : std::nullopt;
      const bool reshape = shape && shape->size() == 2;
      if (reshape) {
        matrix = shape;
        matrix_ = from->output(0);
      }
      if (!from || (!turn && !reshape && !is_op(*from, "Identity")))
        fail(ExitCode::usage, what, " takes its weight from ", from ? name_of(*from) : concat("the input '", weight_, "'"),
             ", not from an initializer or a constant node");
      if (const std::string other = other_reader(weight_, *reader); !other.empty())
        fail(ExitCode::usage, what, " shares its weight with ", other);
      turned ^= turn;
      reader = from;
      weight_ = from->input(0);
    }
    if (const std::string other = other_reader(weight_, *reader); !other.empty())
      fail(ExitCode::usage, what, " shares its weight '", weight_, "' with ", other, ", which goes on having the old number of rows (",
           option("untie"), " gives each its own)");
    const Dims dims = *values_.dims(weight_);
    const int rank = static_cast<int>(dims.size());
    if (conv ? rank < 3 : matrix ? rank < 1 : rank != 2) fail(ExitCode::usage, what, " has a weight of rank ", rank);
    axis_ = conv || turned ? 0 : matrix ? rank - 1 : 1;
    place_.rank = conv ? rank : gemm ? 2 : -1;
    place_.axis = conv || gemm ? 1 : -1;
    classes_ = dims[static_cast<std::size_t>(axis_)];
    if (!matrix) return;
    behind_.insert(matrix_);
    matrix_axis_ = turned ? 0 : 1;  // of the Reshape's shape
    const std::int64_t rows = (*matrix)[static_cast<std::size_t>(1 - matrix_axis_)],
                       given = (*matrix)[static_cast<std::size_t>(matrix_axis_)];
    const std::int64_t elements = std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
    if (given != classes_ && !(given == -1 && rows > 0 && elements == rows * classes_))
      fail(ExitCode::usage, what, " reads its weight '", weight_, "' through Reshape '", matrix_,
           "', which splits or joins the classes: ", listed(dims), " becomes ", listed(*matrix));
    if (given == -1) matrix_.clear();  // it counts them itself
  }
  static std::string listed(const Dims& dims) {
    std::string text;
    for (const std::int64_t d : dims) text += concat(text.empty() ? "[" : ",", d);
    return text + "]";
  }

  bool is_bias(const std::string& name, bool of_conv) const {
    const auto dims = values_.dims(name);
    if (!dims || dims->empty()) return false;
    const int rank = static_cast<int>(dims->size()), axis = classes_ > 1 ? axis_of_bias(*dims) : rank - 1;
    const auto elements = std::accumulate(dims->begin(), dims->end(), std::int64_t{1}, std::multiplies<>());
    return elements == classes_ && (*dims)[static_cast<std::size_t>(axis)] == classes_ && rank - axis == (of_conv ? place_.rank - 1 : 1);
  }

  void find_bias(const onnx::NodeProto& node) {
    if (node.op_type() != "MatMul" && node.input_size() > 2 && !node.input(2).empty()) {
      const auto dims = values_.dims(node.input(2));
      const bool one_number = dims && std::all_of(dims->begin(), dims->end(), [](std::int64_t d) { return d == 1; });
      if (!is_bias(node.input(2), false) && !one_number)
        fail(ExitCode::usage, option("head"), ": ", name_of(node), " takes its bias from '", node.input(2),
             "', which is no initializer of ", classes_, " numbers");
      if (is_bias(node.input(2), false)) take_bias(node.input(2), node);
      return;
    }
    if (values_.readers(result_).size() != 1) return;
    enter(values_.readers(result_)[0]);
    const onnx::NodeProto& add = graph_.node(values_.readers(result_)[0]);
    if (!is_op(add, "Add")) return;
    for (const auto& in : add.input())
      if (in != result_ && is_bias(in, node.op_type() == "Conv")) take_bias(in, add);
      else if (in != result_) reshaped_bias(in);
  }

  // [C] that a Reshape or Unsqueeze lays along the classes.
  void reshaped_bias(const std::string& in) {
    const int maker = values_.maker(in);
    if (maker < 0 || values_.readers(in).size() != 1) return;
    const onnx::NodeProto& view = graph_.node(maker);
    const bool reshape = is_op(view, "Reshape");
    if ((!reshape && !is_op(view, "Unsqueeze")) || values_.dims(view.input(0)) != Dims{classes_}) return;
    const auto shape = reshape ? values_.integers_of(view)(1, "shape") : std::nullopt;
    if (reshape && !shape) return;
    if (shape && std::find(shape->begin(), shape->end(), classes_) != shape->end()) {
      if (view.input_size() < 2 || classes_ < 2) return;
      bias_shape_ = in;
    }
    behind_.insert(in);
    take_bias(view.input(0), view);
  }
  void take_bias(const std::string& name, const onnx::NodeProto& reader) {
    bias_ = name;
    bias_reader_ = reader.output(0);
  }

  void own_bias() {
    if (bias_.empty() || values_.readers(bias_).size() < 2) return;
    const std::string name = bias_;
    bias_ += "@head";
    values_.copy(name, bias_);
    for (auto& in : *graph_.mutable_node(values_.maker(bias_reader_))->mutable_input())
      if (in == name) in = bias_;
  }

  // What a node behind the head holds of the old number beside its operand `value`: a Reshape's is set anew.
  void check_constants(const onnx::NodeProto& node, const std::string& value, const std::string& way) {
    const auto refuse = [&](const std::string& in) {
      fail(ExitCode::usage, option("head"), ": '", in, "' holds the old number of classes, ", classes_, ": ", way);
    };
    const auto shape = values_.integers_of(node)(is_op(node, "Resize") ? 3 : 1, "shape");
    const std::int64_t times = shape && classes_ > 1 ? std::count(shape->begin() + !shape->empty(), shape->end(), classes_) : 0;
    if (is_op(node, "Reshape") && times == 1 && node.input_size() > 1) shapes_[node.output(0)] = node.input(1);
    if ((is_op(node, "Reshape") && times > 1) || (is_op(node, "Resize") && times > 0)) refuse(node.input(node.input_size() - 1));
    if (!is_pair(node)) return;
    for (const auto& in : node.input()) {
      const auto dims = in == value ? std::nullopt : values_.dims(in);
      const bool bias = in == bias_ && node.output(0) == bias_reader_;
      if (dims && !bias && classes_ > 1 && std::find(dims->begin(), dims->end(), classes_) != dims->end()) refuse(in);
    }
  }

  struct Open {
    std::string value, chain;
    ClassAxis place;
  };

  void check_what_follows() {
    std::vector<Open> open{{result_, name_of(graph_.node(values_.maker(result_))), place_}};
    std::vector<std::pair<std::string, std::string>> met;
    behind_.insert(result_);
    while (!open.empty()) {
      const Open from = open.back();
      open.pop_back();
      for (const int r : values_.readers(from.value)) {
        enter(r);
        const onnx::NodeProto& node = graph_.node(r);
        const std::string way = concat(from.chain, " -> ", name_of(node));
        if (node.domain().empty() && ends.contains(node.op_type())) continue;
        if (!node.domain().empty() || !follows.contains(node.op_type()))
          fail(ExitCode::usage, option("head"), ": what follows may be made for ", classes_, " classes: ", way, " (",
               option("replace_head"), " names another node)");
        check_constants(node, from.value, way);
        const IntegersOf integers = values_.integers_of(node);
        if (const auto part = takes_part(node, from.place, integers); !part || *part)
          fail(ExitCode::usage, option("head"), ": ", name_of(node), part ? " takes a part" : " may take a part", " of the ", classes_,
               " classes: ", way);
        const auto place = classes_behind(node, from.place, classes_, integers);
        for (const auto& out : node.output())
          if (place && !out.empty() && behind_.insert(out).second) open.push_back({out, way, *place});
        for (const auto& in : node.input()) met.emplace_back(in, way);
      }
    }
    // Two heads whose scores are joined: the other one would keep its classes.
    std::set<std::string> seen;
    for (const auto& [in, way] : met)
      if (!behind_.contains(in) && from_input(in, seen))
        fail(ExitCode::usage, option("head"), ": '", in, "' is computed from the model's input too, beside this head: ", way,
             ": a model of several heads keeps its classes");
  }

  bool from_input(const std::string& value, std::set<std::string>& seen) {
    if (behind_.contains(value) || !seen.insert(value).second) return false;
    const int maker = values_.maker(value);
    if (maker < 0) return !value.empty() && !values_.is_initializer(value);
    const auto& inputs = graph_.node(maker).input();
    return graph_.node(maker).op_type() != "Shape" &&
           std::any_of(inputs.begin(), inputs.end(), [&](const std::string& in) { return from_input(in, seen); });
  }

  onnx::ModelProto& model_;
  onnx::GraphProto& graph_;
  MessageValues values_;
  const std::int64_t wanted_;
  const std::string& asked_;
  int axis_ = 0, calls_ = 0;
  ClassAxis place_;
  std::int64_t classes_ = 0;
  int matrix_axis_ = 0;
  std::string matrix_, bias_shape_;  // results of Reshapes that the weight and the bias go through, and whose shapes hold the old number
  std::string result_, weight_, bias_, bias_reader_, inside_, written_out_;
  std::set<std::string> behind_;               // values that have the classes
  std::map<std::string, std::string> shapes_;  // by Reshape's result, constants that hold the old number
};

}  // namespace

NewHead replace_head(onnx::ModelProto& model, std::int64_t classes, const std::string& node) {
  return Head(model, classes, node).replace();
}

}  // namespace tandem
